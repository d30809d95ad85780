"""NUMA: nodes without CPUs or without memory, and settings that move pages about."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.probe.findings._context import Context
from advisor.probe.records import Finding
from advisor.units import format_bytes


def kinds(context: Context) -> Iterator[Finding]:
    """Say which nodes are ordinary, which are memory only and which have none."""
    nodes, gpu = context.host.cpu.numa_nodes, context.facts.gpu_numa_nodes
    memory_only = [node for node in nodes if not node.cpus and node.id not in gpu]
    if gpu:
        amount = sum(node.memory_bytes or 0 for node in nodes if node.id in gpu)
        yield Finding(
            code="NUMA_GPU_MEMORY",
            severity="info",
            message=f"NUMA nodes {_list(gpu)} are the memory of GPUs ({format_bytes(amount)}), which MemTotal counts as the host's.",
            evidence="/sys/devices/system/node",
            fix="numactl --membind to the nodes that have CPUs keeps host allocations off the GPUs",
        )
    if memory_only and len(memory_only) < len(nodes):
        yield Finding(
            code="NUMA_CPULESS_NODES",
            severity="info",
            message=f"NUMA nodes {_list([node.id for node in memory_only])} are memory only (GPU, HBM, CXL …): do not pin threads by node.",
            evidence="/sys/devices/system/node/has_cpu",
            fix=f"pin to nodes {_list([node.id for node in nodes if node.cpus])}",
        )
    without = [node.id for node in nodes if node.cpus and node.memory_bytes == 0]
    if without:
        yield Finding(
            code="NUMA_MEMORYLESS_NODES",
            severity="warning",
            message=f"NUMA nodes {_list(without)} have CPUs and no memory: all their accesses are remote.",
            evidence="/sys/devices/system/node/node*/meminfo",
            fix="populate the memory channels of every socket, or check the firmware's NUMA settings",
        )


def binding(context: Context) -> Iterator[Finding]:
    """Several nodes with CPUs: processes should be bound, and the kernel should not move their pages meanwhile."""
    with_cpus = [node for node in context.host.cpu.numa_nodes if node.cpus]
    if len(with_cpus) < 2:
        return
    if context.root.line("/proc/sys/kernel/numa_balancing") not in (None, "0"):
        yield Finding(
            code="NUMA_BALANCING",
            severity="info",
            message=f"Automatic NUMA balancing moves pages between {len(with_cpus)} nodes while kernels run: measurements vary.",
            evidence="/proc/sys/kernel/numa_balancing",
            fix="numactl --cpunodebind=N --membind=N for each process, or sysctl kernel.numa_balancing=0 (as root)",
        )


def _list(numbers: object) -> str:
    return ", ".join(str(number) for number in numbers)  # type: ignore[attr-defined]


FINDERS = (kinds, binding)
