"""Kinds of cores on hybrid x86 processors."""

from __future__ import annotations

from advisor.probe.host._text import parse_cpulist
from advisor.probe.host._topology import CPU_FOLDER, Topology
from advisor.probe.records import Cluster
from advisor.probe.root import Root

#: Kinds whose clocks or capacities differ by less than this are one kind: turbo bins of equal cores differ by a few percent.
CLEAR_GAP = 1.2


def hybrid_clusters(root: Root, topology: Topology, family: str | None) -> tuple[Cluster, ...]:
    """Return the kinds of cores with their count of logical CPUs, or () where all are alike or nothing tells.

    The kernel's own lists (``/sys/devices/cpu_core/cpus``) come first. Without them, on a chip where some cores have two threads and
    others one, the former are the performance cores; and clocks with a clear gap tell as well.
    """
    if family != "x86":
        return ()
    listed = [
        (
            name,
            [cpu for cpu in parse_cpulist(root.line(f"/sys/devices/{folder}/cpus")) or () if not topology.online or cpu in topology.online],
        )
        for name, folder in (("P-core", "cpu_core"), ("E-core", "cpu_atom"), ("LP-E-core", "cpu_lowpower"))
    ]
    groups = [(name, len(cpus)) for name, cpus in listed if cpus]
    if len(groups) < 2:
        groups = _by_threads(root, topology)
    return tuple(Cluster(name=name, implementer=None, part=None, count=count) for name, count in groups)


def _by_threads(root: Root, topology: Topology) -> list[tuple[str, int]]:
    """Tell the kinds apart by threads per core, confirmed by the clocks or by L2 caches that several single-thread cores share."""
    single = [cpus for cpus in topology.siblings.values() if len(cpus) == 1]
    double = [cpus for cpus in topology.siblings.values() if len(cpus) == 2]
    if topology.sockets != 1 or not single or not double or topology.offline:
        return []
    fast = root.integer(f"{CPU_FOLDER}/cpu{double[0][0]}/cpufreq/cpuinfo_max_freq")
    slow = root.integer(f"{CPU_FOLDER}/cpu{single[0][0]}/cpufreq/cpuinfo_max_freq")
    shared = parse_cpulist(root.line(f"{CPU_FOLDER}/cpu{single[0][0]}/cache/index2/shared_cpu_list")) or ()
    if (fast and slow and fast > slow * CLEAR_GAP) or len(shared) >= 2:
        return [("P-core", sum(map(len, double))), ("E-core", len(single))]
    return []
