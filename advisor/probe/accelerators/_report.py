"""AcceleratorReport: what the readers of GPUs, TPUs, NPUs and the like hand to the probe."""

from __future__ import annotations

from dataclasses import dataclass, field

from advisor.probe.records import Device, Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorReport:
    """The devices found, what is to be said about them, and why a value is missing.

    ``unknown`` is keyed by device id and field (``"0000:c1:00.0.memory_bytes"``).
    """

    devices: tuple[Device, ...] = ()
    findings: tuple[Finding, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)
