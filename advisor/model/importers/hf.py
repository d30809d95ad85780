"""Reads a Hugging Face ``config.json`` (offline, without transformers), or our own description of a model in YAML.

Our YAML has the same keys, or the short ones of ``advisor.model.fields.SYNONYMS``, and ``family`` in place of ``model_type``:

    family: llama          # or transformer: any mixture of features, see advisor/model/families/generic.py
    name: my-7b
    layers: 32
    hidden: 4096
    heads: 32
    kv_heads: 8
    ffn_hidden: 14336
    vocab: 128256
    max_seq: 8192
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from advisor.errors import UnknownName, UsageError
from advisor.model.architectures import architectures
from advisor.model.fields import Fields
from advisor.model.records import Model
from advisor.resources import user_path
from advisor.yamlio import parse_yaml, read_text


def read_config(path: str) -> Model:
    """Return the Model of a ``config.json``, of a folder that holds one, or of a YAML description."""
    file = user_path(path)
    try:
        folder = file.is_dir()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path!r}: {error}", code="CANNOT-READ") from error
    if folder:
        file = _inside(file)
    text = read_text(file)
    if file.suffix.lower() in (".yaml", ".yml"):
        data = parse_yaml(text, str(file))
    else:
        data = _parse_json(text, str(file))
    stem = file.stem if file.stem not in ("config", "model", "params") else file.resolve().parent.name
    return from_mapping(data, what=str(file), name=stem)


def _inside(folder: Path) -> Path:
    """Return the description in a folder."""
    for name in ("config.json", "model.yaml", "model.yml"):
        if (folder / name).is_file():
            return folder / name
    raise UsageError(f"{folder} holds no config.json", "give the file itself, or a folder as a model hub stores it", code="CANNOT-READ")


def _parse_json(text: str, what: str) -> Any:
    def refuse(token: str) -> NoReturn:
        raise ValueError(f"{token} is not a number of JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError as error:
        raise UsageError(f"{what} is nested too deep", code="BAD-JSON") from error
    except ValueError as error:
        raise UsageError(f"{what} is not valid JSON: {error}", code="BAD-JSON") from error


def from_mapping(data: Any, *, what: str, name: str) -> Model:
    """Return the Model a configuration describes; keys that were not understood are in its ``ignored_fields``."""
    if not isinstance(data, Mapping):
        raise UsageError(f"{what}: a model's configuration is a mapping, not {type(data).__name__}", code="BAD-MODEL")
    fields = Fields(data, what)
    label = fields.text("name", default="") or fields.text("_name_or_path", default="").rstrip("/").rsplit("/", 1)[-1] or name
    known = architectures()
    kind = fields.text("model_type", "family", default="")
    inner = fields.section("text_config", "llm_config", "language_config") if kind not in known else None
    if inner is not None:
        # A model of several parts: the language part is what is trained and served; the others are reported as ignored.
        kind, part = inner.text("model_type", default=""), inner
    else:
        part = fields
    if not kind:
        raise UsageError(f"{what}: neither 'model_type' nor 'family' says what this is", code="BAD-MODEL")
    if kind not in known:
        error = UnknownName("model type", kind[:60], known)
        raise UsageError(f"{what}: {error.message}", error.hint or f"known: {', '.join(sorted(known))}", code=error.code)
    built = known[kind](part, label)
    return replace(built, source=f"{what} ({kind})", ignored_fields=fields.ignored())
