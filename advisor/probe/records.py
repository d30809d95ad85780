"""What a probe reports: a Machine, its Devices, the frameworks on it, and Findings.

Field names are those of the JSON document (see docs/reference). A value that is not known is None, and
``Machine.unknown`` says why under the value's path (``"devices[0].memory_bytes"``).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1

Target = Literal["cpu-x86", "cpu-arm", "cpu-other", "cuda", "rocm", "xpu", "mps", "tpu", "npu", "gaudi", "neuron", "ipu", "other"]
State = Literal[
    "usable",
    "no_driver",
    "no_library",
    "permission_denied",
    "version_mismatch",
    "no_kernel",
    "lost",
    "timeout",
    "crashed",
    "unsupported",
    "unknown",
]
Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Cores of one kind: ARM implementer and part as the kernel prints them, or the hybrid kind on x86."""

    name: str | None
    implementer: str | None
    part: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """One kind of cache: how many bytes each, how many there are, and how many logical CPUs share one."""

    level: int
    kind: Literal["data", "instruction", "unified"]
    size_bytes: int
    count: int | None = None
    shared_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """A NUMA node; ``cpus`` is empty for a node that is memory only."""

    id: int
    cpus: tuple[int, ...]
    memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """The processors the operating system shows, and how many of them this process may really use."""

    vendor: str | None
    model: str | None
    microarchitecture: str | None
    isa: tuple[str, ...]
    sockets: int | None
    physical_cores: int | None
    logical_cpus: int | None
    usable_cpus: float | None
    usable_cpus_source: str | None = None
    max_mhz: float | None = None
    clusters: tuple[Cluster, ...] = ()
    caches: tuple[Cache, ...] = ()
    numa_nodes: tuple[NumaNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """Main memory, and the part of it this process may use; ``limit_source`` names what limits it."""

    total_bytes: int | None
    usable_bytes: int | None
    limit_source: str | None
    available_bytes: int | None = None
    swap_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The computer: operating system, processors, memory."""

    os: str | None
    kernel: str | None
    arch: str | None
    virtualization: str | None
    container: str | None
    cpu: Cpu
    memory: HostMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """Five separate answers about a device: True, False, or None where it does not apply or was not tried."""

    present: bool | None = None
    driver: bool | None = None
    node: bool | None = None
    library: bool | None = None
    runtime: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLink:
    """A link of a device: to another device's id, or to ``host``; bandwidth is per direction."""

    to: str
    kind: str
    bandwidth_bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One logical compute device: a GPU, a GCD, a MIG slice, a TPU chip, an NPU, or the CPU as one target.

    Identity is the bus address or UUID; indices are attributes. ``package`` is the identity of the physical card or
    chip package: devices that share one share this. ``details`` holds further facts by name (clocks, power, ECC …).
    """

    id: str
    target: Target
    vendor: str | None
    name: str | None
    arch: str | None
    state: State
    memory_bytes: int | None = None
    memory_kind: Literal["dedicated", "unified"] | None = None
    bus_id: str | None = None
    pci_id: str | None = None
    uuid: str | None = None
    compute_units: int | None = None
    reason: str | None = None
    fix: str | None = None
    profile: str | None = None
    package: str | None = None
    checks: Checks = field(default_factory=Checks)
    links: tuple[DeviceLink, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """An installed or absent framework and the targets of this machine it can use."""

    name: str
    version: str | None
    state: State
    """``no_library`` with the reason "not installed" where it is absent; ``unknown`` where it was not asked yet."""
    reason: str | None
    targets: tuple[str, ...] = ()
    build: str | None = None
    fix: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something the user should know about the machine."""

    code: str
    severity: Severity
    message: str
    fix: str | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A host and its devices, as probed. ``fingerprint`` is a stable hash of identity facts."""

    fingerprint: str
    host: Host
    devices: tuple[Device, ...]
    frameworks: tuple[Framework, ...] = ()
    findings: tuple[Finding, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of ``advisor probe --json``."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
