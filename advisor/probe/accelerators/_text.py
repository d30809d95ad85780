"""Numbers out of the words that vendor tools print, through one door, so that no spelling of "not known" is taken for a number."""

from __future__ import annotations

import json
import math
import re
from typing import Any

# What the tools print in place of a value (nvidia-smi, rocm-smi, amd-smi, npu-smi, hl-smi).
NOTHING = frozenset(
    {
        "", "-", "--", "n/a", "na", "none", "null", "nil", "unknown", "not supported", "not available", "unknown error", "err!",
        "insufficient permissions", "gpu requires reset", "gpu is lost", "no data", "function not found", "not applicable",
        "requested functionality has been deprecated", "not found", "unsupported",
    }
)  # fmt: skip

# Counters whose every bit is set mean "not supported" in amdsmi and rocm_smi: 8, 16, 32 and 64 bits wide.
SENTINELS = frozenset({0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})

_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?")
_UNITS = {
    "b": 1, "byte": 1, "bytes": 1,
    "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10,
    "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20,
    "g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30,
    "t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40,
}  # fmt: skip


def value(text: object) -> str | None:
    """Return the text of a field, or None where the tool says that it does not know (``[N/A]``, ``ERR!``, ``-`` …)."""
    if text is None or isinstance(text, (dict, list, bool)):
        return None
    words = str(text).strip().strip("\0")
    bare = words[1:-1].strip() if words[:1] == "[" and words[-1:] == "]" else words
    return None if bare.lower() in NOTHING else words


def number(text: object) -> float | None:
    """Return the first number of a field (``300.00 W`` is 300.0), or None; a decimal comma counts as a point."""
    words = value(text)
    match = _NUMBER.search(words) if words else None
    if match is None:
        return None
    try:
        result = float(match.group().replace(",", "."))
    except ValueError:
        return None
    return result if math.isfinite(result) else None


def integer(text: object) -> int | None:
    """Return the first whole number of a field, exact at any size (``0x740f`` and ``16x`` too), or None."""
    words = value(text)
    if not words:
        return None
    match = re.search(r"0[xX]([0-9a-fA-F]{1,32})", words)
    if match:
        return int(match.group(1), 16)
    match = re.search(r"[-+]?\d{1,30}", words)
    return int(match.group()) if match else None


def counter(text: object) -> int | None:
    """Return a whole number that a vendor library reports, its "not supported" sentinels as None."""
    result = integer(text)
    return None if result is None or result in SENTINELS else result


def size_bytes(text: object, unit: str = "b") -> int | None:
    """Return a size in bytes: the number times its own unit, or times ``unit`` where it has none. Zero and less are None.

    Memory tools mean powers of 1024 by MB and GB as much as by MiB and GiB.
    """
    words = value(text)
    match = re.search(r"([-+]?\d+(?:[.,]\d+)?)\s*([A-Za-z]*)", words) if words else None
    if match is None:
        return None
    try:
        amount = float(match.group(1).replace(",", "."))
    except ValueError:
        return None
    scale = _UNITS.get(match.group(2).lower() or unit.lower())
    if scale is None or not math.isfinite(amount) or amount <= 0:
        return None
    return int(match.group(1)) * scale if match.group(1).isdecimal() else int(amount * scale)


def yes(text: object) -> bool | None:
    """Return a switch (Enabled/Disabled, On/Off, Yes/No, Active/Not Active, 1/0), or None."""
    words = (value(text) or "").lower()
    if words in ("enabled", "on", "yes", "active", "1", "true"):
        return True
    if words in ("disabled", "off", "no", "not active", "inactive", "0", "false"):
        return False
    return None


def loose_json(text: str) -> Any:
    """Return the JSON value inside a tool's output, warnings before and after it left out; None where there is none."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"[\[{]", text):
        if match.start() > 4096:  # no tool warns for longer; each start that is none costs a reading of the rest
            break
        try:
            found, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(found, (dict, list)) and found:
            return found
    return None


def compact(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that are known: entries that are None or an empty table are left out. An empty list is a fact."""
    return {name: fact for name, fact in facts.items() if fact is not None and fact != {}}
