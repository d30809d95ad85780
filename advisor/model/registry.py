"""Models by name: canonical names, aliases, ids of model hubs, and files."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

from advisor.errors import UnknownName, UsageError
from advisor.model.architectures import architectures, families
from advisor.model.family import Entry
from advisor.model.fields import Fields
from advisor.model.importers import import_model
from advisor.model.records import Model
from advisor.resources import user_path

#: Endings of hub names that leave the sizes as they are.
_SUFFIX = re.compile(
    r"[-_](?:hf|chat|instruct|it|pt|base|sft|v0\.[1-9](?:\.\d)?|v1\.[05]?|fp16|bf16|4k-instruct|128k-instruct|discriminator)$"
)
_FILE = re.compile(r"\.(?:json|ya?ml|onnx)$|\.py(?::\w+)?$", re.IGNORECASE)


@lru_cache(maxsize=1)
def _index() -> dict[str, Entry]:
    """Return the entries by the key of every name they answer to; canonical names win over aliases."""
    entries = [entry for family in families() for entry in family.entries]
    index = {_key(alias): entry for entry in reversed(entries) for alias in entry.aliases}
    return index | {_key(entry.name): entry for entry in entries}


def _key(name: str) -> str:
    """Fold a name: no organisation, no case, no separators (``meta-llama/Llama-2-7b`` and ``LLaMA2 7B`` are one)."""
    return re.sub(r"[\s_\-]+", "", name.rsplit("/", 1)[-1].lower())


def model_names() -> tuple[str, ...]:
    """Return the canonical names, family by family, in the order they are listed."""
    return tuple(entry.name for family in families() for entry in family.entries)


def model(name_or_path: str) -> Model:
    """Return the Model with this name, or read from this file.

    Accepts a canonical name (``gpt-13b``), an alias, the id of a model hub (``meta-llama/Llama-2-7b-hf``), the path of a
    ``config.json``, of a folder that holds one, of our own YAML description, of an ONNX file, or ``file.py:function`` that
    returns a torch module. UnknownName suggests near names; UsageError for a file that is wrong.
    """
    name = name_or_path.strip()
    if not name or "\0" in name or len(name) > 4096:
        raise UsageError("a model needs a name or a path", "`advisor models list` shows the names")
    entry = _lookup(name)
    looks_like_path = name.startswith((".", "/", "~")) or _FILE.search(name) is not None
    if entry is not None and not looks_like_path:
        return _built(entry.name)
    path = user_path(name)
    if looks_like_path or _is_folder(path):
        return import_model(name)
    error = UnknownName("model", name[:100], _spellings(), "advisor models list")
    if "/" in name:
        error.hint = f"{error.hint} (or give the path of its config.json)"
    raise error


def is_known(name: str) -> bool:
    """Tell whether a name means a model of the zoo; no file is looked at."""
    return _lookup(name.strip()) is not None


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _lookup(name: str) -> Entry | None:
    """Find an entry: as it is written, else with endings that do not change the sizes taken off."""
    index = _index()
    short = name.lower()
    while True:
        entry = index.get(_key(short))
        if entry is not None:
            return entry
        stripped = _SUFFIX.sub("", short)
        if stripped == short:
            return None
        short = stripped


def _spellings() -> list[str]:
    return [spelling for family in families() for entry in family.entries for spelling in (entry.name, *entry.aliases)]


@cache
def _built(name: str) -> Model:
    """Build a member of the zoo; its configuration must be understood to the last key."""
    entry = next(entry for family in families() for entry in family.entries if entry.name == name)
    fields = Fields(entry.config, entry.name)
    built = architectures()[fields.text("model_type", default="")](fields, entry.name)
    return replace(built, aliases=entry.aliases, source=entry.source, ignored_fields=fields.ignored())
