"""HostReport: the host, and the facts beside it that findings need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from advisor.probe.host._cgroup import Limits
from advisor.probe.records import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What was read of a host and stands in no field of its record."""

    offline_cpus: tuple[int, ...] = ()
    affinity: tuple[int, ...] | None = None
    limits: Limits = field(default_factory=Limits)
    gpu_numa_nodes: tuple[int, ...] = ()
    isa_level: str | None = None
    amx_permission: bool | None = None
    """Whether the kernel grants AMX tiles to a process: None where there is no AMX or it was not asked."""
    amx_reason: str | None = None
    lxcfs: bool = False
    board: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """A host, its further facts, and why a value is missing, by the value's path (``host.cpu.model``)."""

    host: Host
    facts: HostFacts
    unknown: dict[str, str] = field(default_factory=dict)
