"""Identifiers and content hashes: what lets two databases merge and a merge be repeated.

A hash is taken over a canonical JSON text: keys sorted, no spaces, whole floats written as integers (so that a
journey through PostgreSQL's JSONB, which drops ``1.0`` against ``1`` and ``1e22`` against its digits, changes no hash).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

#: Namespace of identifiers that follow from content.
NAMESPACE = uuid.UUID("6f7a3f0e-5b1c-5d0a-9a43-0b6c4b0f2d11")


def clean(value: Any) -> Any:
    """Return ``value`` as both databases can hold it: JSON types only, non-finite numbers None, no NUL, no lone surrogate."""
    kind = type(value)
    if kind is str:
        if value.isascii() and "\x00" not in value:
            return value
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if kind is float:
        return value if math.isfinite(value) else None
    if value is None or kind is int or kind is bool:
        return value
    if isinstance(value, bool | int | float | str):  # subclasses, such as the members of an enum
        return clean(next(base for base in (bool, int, float, str) if isinstance(value, base))(value))
    if isinstance(value, Mapping):
        return {clean(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        return [clean(item) for item in value]
    if hasattr(value, "item"):  # numpy scalars
        return clean(value.item())
    return str(value)


def _canonical(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    if kind is dict:
        # Most objects hold plain texts and whole numbers: they are what they are.
        return {key: _canonical(item) if type(item) in _CHANGING else item for key, item in value.items()}
    if kind is list:
        return [_canonical(item) if type(item) in _CHANGING else item for item in value]
    return value


_CHANGING = frozenset((float, dict, list))
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: Any) -> str:
    """Return the canonical JSON text of a value that ``clean`` has been through."""
    return _encode(_canonical(value)) if value != {} else "{}"


def content_hash(value: Any, *, cleaned: bool = False) -> str:
    """Return the SHA-256 of the canonical JSON of ``value``, in hexadecimal; ``cleaned`` says that ``clean`` has seen it."""
    return hashlib.sha256(canonical_json(value if cleaned else clean(value)).encode("utf-8")).hexdigest()


def text_hash(*parts: str) -> str:
    """Return the SHA-256 of several texts, in hexadecimal."""
    return hashlib.sha256("\x1f".join(parts).encode("utf-8")).hexdigest()


def to_json(value: Any) -> str:
    """Return the JSON text that a column holds; keys keep their order."""
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, TypeError):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def pack_samples(seconds: Sequence[float] | None) -> bytes | None:
    """Return samples (seconds of one call) as little-endian float32, or None where there are none."""
    # float32 holds up to 3.4e38; what is beyond is no time.
    finite = [value for value in seconds or () if abs(value) < 3e38]
    return struct.pack(f"<{len(finite)}f", *finite) if finite else None


def unpack_samples(blob: bytes | None) -> list[float]:
    """Return the samples of ``pack_samples``."""
    return list(struct.unpack(f"<{len(blob) // 4}f", blob)) if blob else []


def derived_id(*parts: str) -> str:
    """Return the UUID that follows from ``parts``: the same parts give the same UUID everywhere."""
    return str(uuid.uuid5(NAMESPACE, "\x1f".join(parts)))


def new_id() -> str:
    """Return a time-ordered UUID (version 7 of RFC 9562): 48 bits of milliseconds, then 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
