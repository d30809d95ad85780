"""NUMA nodes: their CPUs and memory. Numbers may be sparse, and a node may lack either."""

from __future__ import annotations

import re
from dataclasses import dataclass

from advisor.probe.host._text import parse_cpulist, parse_cpumap, parse_meminfo
from advisor.probe.records import NumaNode
from advisor.probe.root import Root

NODE_FOLDER = "/sys/devices/system/node"


@dataclass(frozen=True, slots=True)
class Numa:
    """The nodes, and the ids of those whose memory is a GPU's own, shown as system memory."""

    nodes: tuple[NumaNode, ...]
    gpu_nodes: tuple[int, ...] = ()


def read_numa(root: Root, arch: str | None) -> Numa:
    """Return the nodes in order of their id; none where the kernel shows none (no NUMA, no /sys)."""
    ids = sorted(int(name[4:]) for name in root.names(NODE_FOLDER) if re.fullmatch(r"node\d{1,5}", name))
    nodes = tuple(_node(root, number) for number in ids)
    return Numa(nodes, _gpu_nodes(root, arch, nodes))


def _node(root: Root, number: int) -> NumaNode:
    folder = f"{NODE_FOLDER}/node{number}"
    cpus = parse_cpulist(root.text(f"{folder}/cpulist"))
    if cpus is None:
        cpus = parse_cpumap(root.line(f"{folder}/cpumap"))
    if cpus is None:
        cpus = tuple(sorted(int(name[3:]) for name in root.names(folder) if re.fullmatch(r"cpu\d{1,5}", name)))
    return NumaNode(id=number, cpus=cpus, memory_bytes=parse_meminfo(root.text(f"{folder}/meminfo")).get("MemTotal"))


def _gpu_nodes(root: Root, arch: str | None, nodes: tuple[NumaNode, ...]) -> tuple[int, ...]:
    """Return memory-only nodes that are a GPU's memory.

    The driver says so in ``/proc/driver/nvidia/gpus/*/numa_status``. POWER9 firmware numbers the memory of NVLink GPUs downwards from
    255; other memory-only nodes (HBM, CXL, persistent memory) are ordinary memory.
    """
    empty = {node.id for node in nodes if not node.cpus}
    stated: set[int] = set()
    for gpu in root.names("/proc/driver/nvidia/gpus"):
        match = re.search(r"Node:\s*(\d{1,5})", root.text(f"/proc/driver/nvidia/gpus/{gpu}/numa_status") or "")
        if match:
            stated.add(int(match[1]))
    if stated & empty:
        return tuple(sorted(stated & empty))
    if (arch or "").startswith("ppc64"):
        return tuple(sorted(number for number in empty if 240 <= number <= 255))
    return ()
