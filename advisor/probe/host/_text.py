"""Small parsers for the kernel's own notations; none of them raises."""

from __future__ import annotations

import re

#: No kernel numbers more CPUs than this (NR_CPUS is at most 8192 today); it keeps a corrupt list from filling memory.
MAX_CPUS = 1 << 16

_SIZE = re.compile(r"^\s*(\d+)\s*([kKmMgGtT]?)i?[bB]?\s*$")
_FACTOR = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_cpulist(text: str | None) -> tuple[int, ...] | None:
    """Return the numbers of a kernel list (``0-3,8,10-14:2/4`` style), sorted; None if absent or malformed."""
    if text is None:
        return None
    numbers: set[int] = set()
    for part in text.replace("\0", "").strip().split(","):
        part = part.strip()
        if not part:
            continue
        match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7})/(\d{1,7}))?)?", part)
        if match is None:
            return None
        low = int(match[1])
        high = int(match[2] or low)
        if high >= MAX_CPUS or high < low:
            return None
        if match[3]:
            used, stride = int(match[3]), max(1, int(match[4]))
            numbers.update(cpu for start in range(low, high + 1, stride) for cpu in range(start, min(start + used, high + 1)))
        else:
            numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def parse_cpumap(text: str | None) -> tuple[int, ...] | None:
    """Return the CPUs of a hexadecimal mask in comma-separated words (``0000000f,ffffffff``); None if malformed."""
    if text is None:
        return None
    words = text.replace("\0", "").strip().split(",")
    if not all(re.fullmatch(r"[0-9a-fA-F]{1,16}", word) for word in words) or len(words) * 32 > MAX_CPUS:
        return None
    # Each word after the first is 32 bits wide, zero padded.
    mask = int("".join([words[0], *(word.zfill(8) for word in words[1:])]), 16)
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def parse_size(text: str | None) -> int | None:
    """Return bytes of ``32K``, ``1024 kB`` or ``8M``; the kernel's units are binary."""
    match = _SIZE.match(text) if text else None
    return int(match[1]) * _FACTOR[match[2].lower()] if match and len(match[1]) < 16 else None


def parse_int(text: str | None, base: int = 10) -> int | None:
    """Return the first word as an integer, or None."""
    try:
        return int((text or "").split()[0], base)
    except (ValueError, IndexError):
        return None


def parse_meminfo(text: str | None) -> dict[str, int]:
    """Return ``/proc/meminfo`` (or a NUMA node's) in bytes; page counts (``HugePages_Total``) stay counts."""
    values: dict[str, int] = {}
    for line in (text or "").splitlines():
        match = re.match(r"^(?:Node\s+\d+\s+)?([A-Za-z0-9_()]+):\s*(\d{1,18})(?:\s*(kB))?\s*$", line)
        if match:
            values[match[1]] = int(match[2]) * (1024 if match[3] else 1)
    return values


def format_cpulist(cpus: tuple[int, ...]) -> str:
    """Write CPUs as the kernel does: ``0-3,8``."""
    parts: list[str] = []
    start = previous = None
    for cpu in (*cpus, None):
        if start is not None and (cpu is None or previous is None or cpu != previous + 1):
            parts.append(f"{start}" if start == previous else f"{start}-{previous}")
            start = None
        if start is None:
            start = cpu
        previous = cpu
    return ",".join(parts)
