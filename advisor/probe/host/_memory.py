"""Main memory: what there is, what this process may use, and what sets the limit."""

from __future__ import annotations

from advisor.probe.host._cgroup import Limits
from advisor.probe.host._numa import Numa
from advisor.probe.host._text import parse_meminfo
from advisor.probe.records import HostMemory
from advisor.probe.root import Root


def read_memory(root: Root, limits: Limits, numa: Numa) -> tuple[HostMemory, dict[str, str]]:
    """Return the memory of a Linux host and the reasons for what is not known.

    Usable is the least of MemTotal, less memory that belongs to GPUs, and of every limit of the control groups. A limit at or above
    MemTotal (v1 writes 9223372036854771712 for none) limits nothing.
    """
    info = parse_meminfo(root.text("/proc/meminfo"))
    total = info.get("MemTotal")
    reasons: dict[str, str] = {}
    if total is None:
        nodes = [node.memory_bytes for node in numa.nodes if node.memory_bytes is not None]
        total = sum(nodes) if nodes and len(nodes) == len(numa.nodes) else None
    if total is None:
        reasons["host.memory.total_bytes"] = "/proc/meminfo is missing or has no MemTotal"
    usable, source = total, "MemTotal" if total is not None else None
    gpu_memory = sum(node.memory_bytes or 0 for node in numa.nodes if node.id in numa.gpu_nodes)
    if total is not None and 0 < gpu_memory < total:
        usable, source = total - gpu_memory, "MemTotal less GPU memory nodes"
    if limits.memory_bytes is not None and (usable is None or limits.memory_bytes < usable) and limits.memory_bytes < 1 << 60:
        usable, source = limits.memory_bytes, limits.memory_source
    if usable is None:
        reasons["host.memory.usable_bytes"] = "neither /proc/meminfo nor a control group states an amount"
    available = info.get("MemAvailable")
    if available is None and "MemFree" in info:
        # Kernels before 3.14: free and reclaimable memory, as `free` counted it then.
        available = info["MemFree"] + info.get("Buffers", 0) + info.get("Cached", 0)
    if limits.memory_bytes is not None and limits.memory_current_bytes is not None and limits.memory_bytes == usable:
        room = max(0, limits.memory_bytes - limits.memory_current_bytes)
        available = room if available is None else min(available, room)
    elif available is not None and usable is not None:
        available = min(available, usable)
    if available is None:
        reasons["host.memory.available_bytes"] = "/proc/meminfo has neither MemAvailable nor MemFree"
    return (
        HostMemory(
            total_bytes=total,
            usable_bytes=usable,
            limit_source=source,
            available_bytes=available,
            swap_bytes=info.get("SwapTotal"),
        ),
        reasons,
    )
