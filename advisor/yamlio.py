"""YAML read safely: no object tags, no duplicate keys, no YAML 1.1 surprises, no oversized files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from advisor.errors import UsageError
from advisor.resources import open_without_waiting

MAX_BYTES = 4 << 20

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """CSafeLoader with YAML 1.2 scalars: ``1e12`` is a number, ``no`` and ``12:30`` are strings."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own protocol


def _resolver(tag: str, pattern: str, first: str) -> None:
    for char in first:
        _Loader.yaml_implicit_resolvers.setdefault(char, []).append((f"tag:yaml.org,2002:{tag}", re.compile(pattern)))


_resolver("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
_resolver("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789")
_resolver("float", r"^[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$", "-+.0123456789")
_resolver("null", r"^(?:~|null|Null|NULL|)$", "~nN\0")
_Loader.yaml_implicit_resolvers.setdefault("", []).append(("tag:yaml.org,2002:null", re.compile(r"^$")))


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    for key in keys:
        if not isinstance(key, str | int | float | bool | None):
            raise yaml.constructor.ConstructorError(None, None, "a key must be a scalar", node.start_mark)
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise yaml.constructor.ConstructorError(None, None, f"key {sorted(map(str, twice))[0]!r} is given twice", node.start_mark)
    loader.flatten_mapping(node)
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


def _float(loader: Any, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def parse_yaml(text: str, what: str) -> Any:
    """Return the one document in ``text``; UsageError naming ``what`` and the line if it is not valid YAML."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - _Loader derives from CSafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not valid YAML: {error}", code="BAD-YAML") from error


def read_yaml(path: Path) -> Any:
    """Return the document in ``path``; UsageError if it is missing, too large, not text or not YAML."""
    return parse_yaml(read_text(path), str(path))


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """Return a user's text file; UsageError if it is missing, a folder, over ``limit`` bytes or not UTF-8."""
    try:
        with open_without_waiting(path) as file:
            raw = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", code="CANNOT-READ") from error
    if len(raw) > limit:
        raise UsageError(f"{path} is larger than {limit >> 20} MiB", code="TOO-LARGE")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", code="NOT-TEXT") from error
