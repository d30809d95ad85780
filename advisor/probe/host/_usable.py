"""How many CPUs this process may really use."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.probe.host._cgroup import Limits
from advisor.probe.host._cpuinfo import CpuInfo
from advisor.probe.host._text import parse_cpulist, parse_int
from advisor.probe.host._topology import Topology
from advisor.probe.root import Root


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableCpus:
    """A number of CPUs, with its fraction, and what sets it; ``affinity`` is the process's own mask."""

    count: float | None
    source: str | None
    affinity: tuple[int, ...] | None


def read_usable(root: Root, topology: Topology, limits: Limits, info: CpuInfo, lxcfs: bool) -> UsableCpus:
    """Return the least of the CPUs online, the affinity mask, the cpuset and the quota. A missing file constrains nothing.

    Under lxcfs /proc/cpuinfo is edited to the container's share while /sys is not: the smaller count holds.
    """
    status = root.text("/proc/self/status") or ""
    affinity = parse_cpulist(next((line.partition(":")[2] for line in status.splitlines() if line.startswith("Cpus_allowed_list:")), None))
    candidates: list[tuple[float, str]] = []
    if topology.count:
        candidates.append((float(topology.count), "online"))
    if lxcfs and info.cpus:
        candidates.append((float(len(info.cpus)), "lxcfs"))
    # Only sysfs numbers CPUs as masks do; lxcfs and some sandboxes renumber those of /proc/cpuinfo.
    online = frozenset(topology.online or ()) if topology.source and topology.source.startswith("/sys") else frozenset()
    for cpus, source in ((affinity, "affinity"), (limits.cpuset, limits.cpuset_source or "cpuset")):
        if cpus:
            inside = len(online.intersection(cpus)) if online else 0
            candidates.append((float(inside or len(cpus)), source))
    if limits.quota_cpus:
        candidates.append((limits.quota_cpus, limits.quota_source or "quota"))
    if not candidates:
        return UsableCpus(count=None, source=None, affinity=affinity)
    count, source = min(candidates, key=lambda candidate: candidate[0])
    return UsableCpus(count=count, source=source, affinity=affinity)


def frequency(root: Root, topology: Topology, info: CpuInfo) -> float | None:
    """Return the highest clock of any CPU in MHz (cpufreq), else what the processor states; the current clock is not it.

    One CPU of each kind would do, but kinds are not known everywhere: at most 64 cores are read.
    """
    best = 0
    for cpu in (sorted(topology.siblings) or list(topology.online or (0,)))[:64]:
        folder = f"/sys/devices/system/cpu/cpu{cpu}"
        best = max(best, root.integer(f"{folder}/cpufreq/cpuinfo_max_freq") or 0)
    if best:
        return best / 1000
    stated = parse_int((info.first("cpu mhz static", "clock") or "").split(".")[0])
    return float(stated) if stated else None
