"""How names of hardware are compared: case, spaces, trademark signs and brand words do not matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]")
_GAPS = re.compile(r"[\s_]+")
#: Words in front of a product name that tools print or leave out.
_BRANDS = frozenset(
    {"nvidia", "tesla", "geforce", "amd", "radeon", "instinct", "intel", "huawei", "google", "cloud", "aws", "graphcore", "cerebras"}
)


def normalise(name: str) -> str:
    """Return ``name`` in lower case, without trademark signs, its words joined by hyphens."""
    return _GAPS.sub("-", _MARKS.sub(" ", name.lower()).strip()).strip("-")


def lookup_keys(name: str) -> Iterator[str]:
    """Yield the keys under which ``name`` may be known: as it is, then with one leading brand word after another taken off."""
    key = normalise(name)
    yield key
    head, _, rest = key.partition("-")
    while rest and head in _BRANDS:
        yield rest
        head, _, rest = rest.partition("-")


def keys_of(items: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    """Return every key that leads to an id. Names as they stand come before those without brand words; the first claim wins."""
    rows = list(items)
    known: dict[str, str] = {}
    for identity, names in rows:
        for name in names:
            known.setdefault(normalise(name), identity)
    for identity, names in rows:
        for name in names:
            for key in lookup_keys(name):
                known.setdefault(key, identity)
    return known
