"""The options a tool knows: lists kept as data under ``known/``, each with its version and source."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "known"
_TYPES: Mapping[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a version of a tool accepts: option name to kind (``int float bool str any``; ``flag value`` on a command line)."""

    tool: str
    version: str
    source: str
    keys: Mapping[str, str]

    @property
    def title(self) -> str:
        """Name of this list as a validator."""
        return f"known options of {self.tool} {self.version}"

    def problems(self, found: Mapping[str, Any]) -> list[str]:
        """Return a sentence for each name that is unknown and each value of another kind."""
        problems = []
        for name, value in found.items():
            kind = self.keys.get(name)
            if kind is None:
                near = difflib.get_close_matches(str(name), self.keys, n=1, cutoff=0.7)
                problems.append(f"{self.tool} has no option {name}" + (f" (did you mean {near[0]}?)" if near else ""))
            elif not _fits(kind, value):
                problems.append(f"{name} must be {_NAMES.get(kind, kind)}, not {value!r}")
        return problems

    def flat(self, document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """Return a nested document as dotted names, down to the entries that are known as a whole."""
        found: dict[str, Any] = {}
        for name, value in document.items():
            path = f"{prefix}{name}"
            if isinstance(value, Mapping) and path not in self.keys and any(k.startswith(f"{path}.") for k in self.keys):
                found |= self.flat(value, f"{path}.")
            else:
                found[path] = value
        return found


_NAMES = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "flag": "without a value", "value": "given"}


def _fits(kind: str, value: Any) -> bool:
    if kind in ("any", "list", "map"):
        return kind == "any" or isinstance(value, list if kind == "list" else dict)
    if kind == "flag":
        return value is None
    if kind == "value":
        return value is not None
    if value is None:
        return True  # unset, as in the tool's own default
    if kind != "bool" and isinstance(value, bool):
        return False
    return isinstance(value, _TYPES[kind])


@cache
def known(name: str) -> Known:
    """Return the list of ``known/<name>.yaml``."""
    from advisor.yamlio import read_yaml

    sheet = read_yaml(_FOLDER / f"{name}.yaml")
    keys = {key: kind for kind, names in sheet["keys"].items() for key in names.split()}
    return Known(tool=sheet["tool"], version=str(sheet["version"]), source=sheet["source"], keys=keys)
