"""Platform: the hardware as the cost model reads it: sheet, topology, and this machine's own measurements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from advisor.hardware.records import HardwareProfile, System

Evidence = Literal["measured", "calibrated", "transferred", "spec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTier:
    """One level of the network between devices, innermost first.

    ``group`` is how many devices this tier and the ones inside it join; bandwidth is per device and direction.
    """

    name: str
    kind: str
    group: int
    bandwidth_bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPoint:
    """One measurement of a kernel on this very machine, as the curves use it.

    ``kind`` is ``gemm``, ``attention`` or ``bandwidth``; ``shape`` names its sizes (m, n, k; batch, heads, kv_heads, query, keys,
    head_dim, causal; bytes); ``rate`` is FLOP/s or bytes/s.
    """

    id: str
    kind: str
    backend: str
    dtype: str
    threads: int
    shape: dict[str, float]
    rate: float
    stale: str | None = None
    """Why it is no longer a measurement of this machine as it is: another driver, another version of the framework."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """So many devices of one profile, how they are joined, and what is known of their real speed.

    ``devices`` counts logical devices; ``memory_bytes`` is what one device offers before any framework takes its share
    (for a CPU: what this process may use). ``points`` are this machine's own measurements, empty for a what-if.
    """

    name: str
    profile: HardwareProfile
    devices: int
    nodes: int
    memory_bytes: int | None
    tiers: tuple[NetworkTier, ...] = ()
    system: System | None = None
    host_link_bytes_per_s: float | None = None
    host_memory_bytes: int | None = None
    threads: int = 1
    usd_per_device_hour: float | None = None
    points: tuple[KernelPoint, ...] = field(default=())
    frameworks: tuple[str, ...] | None = None
    """Frameworks usable here; None means every framework that knows the target (a what-if)."""
    isa: tuple[str, ...] = ()

    @property
    def devices_per_node(self) -> int:
        """Devices of one node."""
        return max(1, self.devices // self.nodes)

    @property
    def is_cpu(self) -> bool:
        """Tell whether the host CPU itself is the device."""
        return self.profile.target.startswith("cpu")
