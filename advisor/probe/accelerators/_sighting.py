"""Sighting: what one source says about one device, before sources are compared and joined.

A reader returns sightings and is sure of every field it fills; what it does not know stays None, and ``unknown`` says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from advisor.probe.records import DeviceLink, Finding, State, Target

BDF = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])(?![0-9a-fA-F])")


@dataclass(slots=True, kw_only=True)
class Sighting:
    """One device as one source shows it.

    ``key`` is an identity of last resort inside a vendor (``nvidia:0`` is the index the driver counts by). ``links`` may name
    their other end by bus address, UUID or key; they are resolved when devices have ids. ``replaced`` marks a parent that is
    not listed because its slices stand for it. ``part`` tells logical devices behind one bus address apart.
    """

    source: str
    target: Target
    vendor: str
    key: str | None = None
    part: str | None = None
    name: str | None = None
    arch: str | None = None
    memory_bytes: int | None = None
    memory_kind: Literal["dedicated", "unified"] | None = None
    bus_id: str | None = None
    pci_id: str | None = None
    uuid: str | None = None
    compute_units: int | None = None
    package: str | None = None
    state: State | None = None
    reason: str | None = None
    fix: str | None = None
    driver: bool | None = None
    node: bool | None = None
    library: bool | None = None
    runtime: bool | None = None
    links: tuple[DeviceLink, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    replaced: bool = False


@dataclass(slots=True)
class Reading:
    """What one vendor's readers found, best source first, and what is to be said about it."""

    sightings: list[Sighting] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Reading) -> None:
        """Append another reading to this one."""
        self.sightings += other.sightings
        self.findings += other.findings


def normal_bdf(text: str | None) -> str | None:
    """Return a PCI address as ``0000:c1:00.0``, or None where the text holds none.

    Accepts the spellings of the tools: without a domain, with a domain of eight digits, upper case, in brackets, with white
    space around. A domain above 0xffff (virtual machines, VMD) keeps its digits.
    """
    match = BDF.search(text) if text else None
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


def slot(bus_id: str) -> str:
    """Return a PCI address without its function: what the functions of one chip share."""
    return bus_id.rsplit(".", 1)[0]
