"""Apple silicon: the GPU behind Metal (target ``mps``), told by sysctl; memory is the machine's own."""

from __future__ import annotations

import platform
import re

from advisor.probe.accelerators._sighting import Reading, Sighting
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators._tools import recorded, run_tool
from advisor.probe.accelerators.pci import PciDevice
from advisor.probe.root import Root

KEYS = ("machdep.cpu.brand_string", "hw.memsize", "hw.model", "hw.optional.arm64")


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return the GPU of an Apple machine; nothing anywhere else. A Python built for x86_64 runs there too (``hw.optional.arm64``)."""
    text = recorded(root, "sysctl-a.txt")
    if text is None:
        if not root.is_live or platform.system() != "Darwin":
            return Reading()
        text = run_tool(["sysctl", *KEYS], root.environ, deadline_s=2.0, extra=("/usr/sbin",)).text
    found = parse_sysctl(text)
    return Reading(sightings=[found] if found is not None else [])


def parse_sysctl(text: str) -> Sighting | None:
    """Read the lines of ``sysctl NAME…``; None where the processor is not Apple's."""
    facts = {name.strip(): rest.strip() for name, sep, rest in (line.partition(":") for line in text.splitlines()) if sep}
    brand = facts.get("machdep.cpu.brand_string", "")
    if not brand.startswith("Apple") and facts.get("hw.optional.arm64") != "1":
        return None
    found = Sighting(source="sysctl", target="mps", vendor="apple", key="mps:0", driver=True, library=True, memory_kind="unified")
    found.name = f"{brand} GPU" if brand.startswith("Apple M") else "Apple GPU"
    # A virtual machine says just "Apple processor", which names no generation.
    generation = brand.removeprefix("Apple ").lower().replace(" ", "-")
    found.arch = generation if re.match(r"m\d", generation) else None
    memory = facts.get("hw.memsize", "")
    found.package = facts.get("hw.model")
    found.details = compact({"pool_bytes": int(memory) if memory.isdecimal() and len(memory) < 20 else None, "integrated": True})
    found.unknown["memory_bytes"] = "shares the machine's memory; Metal grants a part of it that changes with the release"
    return found
