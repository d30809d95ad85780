"""/proc/cpuinfo, whose layout differs on every architecture, as blocks of keys and values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """The parsed file: one mapping a logical CPU, and what is said once for all. Keys are lower case."""

    cpus: tuple[dict[str, str], ...] = ()
    common: dict[str, str] = field(default_factory=dict)

    def first(self, *keys: str) -> str | None:
        """Return the first non-empty value of any of ``keys``: of the CPUs in order, then of the common part."""
        for key in keys:
            for block in (*self.cpus, self.common):
                if block.get(key):
                    return block[key]
        return None

    def has(self, key: str) -> bool:
        """Tell whether any block has ``key``."""
        return key in self.common or any(key in block for block in self.cpus)

    def numbers(self) -> tuple[int, ...] | None:
        """Return the kernel's numbers of the CPUs listed, or None where they carry none or repeat."""
        found = [int(block["processor"]) for block in self.cpus if re.fullmatch(r"\d{1,6}", block.get("processor", ""))]
        return tuple(found) if found and len(found) == len(self.cpus) == len(set(found)) else None


_S390_CPU = re.compile(r"^processor\s+(\d+)\s*:\s*(.*)$")
_SPARC_CPU = re.compile(r"^cpu(\d+)\s*:\s*(online|offline)\s*$", re.IGNORECASE)


def parse_cpuinfo(text: str | None) -> CpuInfo:
    """Parse the text of ``/proc/cpuinfo`` of any architecture; whatever cannot be understood is left out.

    A line ``processor : N`` begins a CPU. ``Processor`` with a name for a value is the old ARM header, not a CPU. Old ARM kernels
    state the identity once, after the CPUs: it is handed to every CPU that has none of its own.
    """
    cpus: list[dict[str, str]] = []
    common: dict[str, str] = {}
    current = common
    ended = False
    for line in (text or "").splitlines():
        if not line.strip():
            ended = True
            continue
        match = _S390_CPU.match(line)
        if match:
            cpus.append({"processor": match[1], **_assignments(match[2])})
            continue
        match = _SPARC_CPU.match(line)
        if match:
            if match[2].lower() == "online":
                cpus.append({"processor": match[1]})
            continue
        key, separator, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if not separator or not key:
            continue
        lower = key.lower()
        if lower == "processor" and value.isdecimal() and value.isascii():
            current = {}
            cpus.append(current)
        elif ended and current is not common and not _belongs(lower, current):
            # A paragraph that does not begin with ``processor`` speaks for the machine (``Hardware``, ``machine``, old ARM identity).
            current = common
        ended = False
        current.setdefault(lower, value)
    return CpuInfo(tuple(_share_identity(cpus, common)), common)


def _share_identity(cpus: list[dict[str, str]], common: dict[str, str]) -> list[dict[str, str]]:
    """Hand an ARM identity stated once (apart from the CPUs, or after the last one) to every CPU."""
    stated = [cpu for cpu in cpus if "cpu part" in cpu]
    source = common if "cpu part" in common else cpus[-1] if len(cpus) > 1 and len(stated) == 1 and "cpu part" in cpus[-1] else None
    if source is None:
        return cpus
    shared = {key: value for key, value in source.items() if key.startswith("cpu ") or key == "features"}
    return [{**shared, **cpu} for cpu in cpus]


def _belongs(key: str, block: dict[str, str]) -> bool:
    """Tell whether ``key`` after a blank line continues the CPU: some ARM kernels put a blank line inside a block."""
    return key.startswith("cpu ") and "cpu part" not in block and "cpu implementer" in block


def _assignments(text: str) -> dict[str, str]:
    """Return ``version = FF, identification = 14C047`` as a mapping."""
    pairs = (part.partition("=") for part in text.split(","))
    return {key.strip().lower(): value.strip() for key, separator, value in pairs if separator}
