"""Memory: limits, shared memory, swap, pages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.probe.findings._context import Context
from advisor.probe.host._text import parse_meminfo, parse_size
from advisor.probe.records import Finding
from advisor.units import GIB, format_bytes

#: What Docker gives /dev/shm unless told otherwise is 64 MiB; a data loader's batches soon need more than this.
SHM_ENOUGH = 1 * GIB
#: Below this little of a model and a framework fits: importing torch alone maps several hundred MB.
MEMORY_LITTLE = 4 * GIB


def limits(context: Context) -> Iterator[Finding]:
    """A control group allows less memory than the machine has."""
    memory, found = context.host.memory, context.facts.limits
    if found.memory_bytes is not None and memory.total_bytes and found.memory_bytes < memory.total_bytes:
        yield Finding(
            code="MEMORY_LIMIT",
            severity="warning" if found.memory_bytes < max(0.5 * memory.total_bytes, MEMORY_LITTLE) else "info",
            message=f"A control group allows {format_bytes(found.memory_bytes)} of {format_bytes(memory.total_bytes)}; more gets killed.",
            evidence=found.memory_source,
            fix="raise it: docker run --memory=…, resources.limits.memory, or the batch system's --mem",
        )
    if found.memory_high_bytes is not None and memory.usable_bytes and found.memory_high_bytes < memory.usable_bytes:
        yield Finding(
            code="MEMORY_HIGH",
            severity="warning",
            message=f"Above {format_bytes(found.memory_high_bytes)} (memory.high) the kernel slows this process down.",
            evidence="memory.high",
            fix="raise memory.high to the limit",
        )
    if memory.usable_bytes is not None and memory.usable_bytes < MEMORY_LITTLE:
        yield Finding(
            code="MEMORY_LITTLE",
            severity="warning",
            message=f"Only {format_bytes(memory.usable_bytes)} of memory may be used: few frameworks and models fit.",
            evidence=memory.limit_source,
            fix="use a larger machine or limit",
        )
    elif memory.available_bytes is not None and memory.usable_bytes and memory.available_bytes < 0.15 * memory.usable_bytes:
        yield Finding(
            code="MEMORY_BUSY",
            severity="warning",
            message=f"Only {format_bytes(memory.available_bytes)} of {format_bytes(memory.usable_bytes)} usable memory is free now.",
            evidence="MemAvailable",
            fix="see `ps aux --sort=-rss | head` for what holds it",
        )


def swap(context: Context) -> Iterator[Finding]:
    """No swap at all, or none for this group."""
    memory, found = context.host.memory, context.facts.limits
    if memory.swap_bytes == 0 and memory.usable_bytes is not None and memory.usable_bytes < 32 * GIB:
        yield Finding(
            code="SWAP_NONE",
            severity="info",
            message="There is no swap: a step that needs a little more memory than there is ends with the process killed.",
            evidence="/proc/meminfo SwapTotal",
            fix="fallocate -l 8G /swapfile && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile (as root)",
        )
    elif memory.swap_bytes and found.swap_bytes == 0:
        yield Finding(
            code="SWAP_FORBIDDEN",
            severity="info",
            message=f"The machine has {format_bytes(memory.swap_bytes)} of swap, but the control group may use none.",
            evidence="memory.swap.max",
            fix="docker run --memory-swap=…, if swapping is wanted",
        )


def shared_memory(context: Context) -> Iterator[Finding]:
    """Shared memory is smaller than data loaders and NCCL need."""
    size = None
    for line in (context.root.text("/proc/self/mountinfo") or "").splitlines():
        fields, _, right = line.partition(" - ")
        parts = fields.split()
        if len(parts) > 4 and parts[4] == "/dev/shm":  # noqa: S108 - the mount point, not a file
            match = re.search(r"(?:^|,)size=(\w+)", right.split()[-1] if right.split() else "")
            size = parse_size(match[1]) if match else None
    if size is not None and size < SHM_ENOUGH:
        yield Finding(
            code="SHM_SMALL",
            severity="warning",
            message=f"Shared memory is {format_bytes(size)}: data-loader workers and NCCL end with a bus error when it is full.",
            evidence="/proc/self/mountinfo",
            fix="docker run --shm-size=8g (or --ipc=host); in Kubernetes an emptyDir with medium: Memory on /dev/shm",
        )


def pages(context: Context) -> Iterator[Finding]:
    """Transparent and reserved huge pages."""
    root = context.root
    text = root.line("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    match = re.search(r"\[(\w+)\]", text)
    if match and match[1] == "never":
        yield Finding(
            code="THP_NEVER",
            severity="info",
            message="Transparent huge pages are off: large tensors on the CPU cost more TLB misses.",
            evidence="/sys/kernel/mm/transparent_hugepage/enabled",
            fix="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
        )
    defrag = re.search(r"\[([\w+]+)\]", root.line("/sys/kernel/mm/transparent_hugepage/defrag") or "")
    if match and match[1] == "always" and defrag and defrag[1] == "always":
        yield Finding(
            code="THP_DEFRAG_ALWAYS",
            severity="info",
            message="Every page fault may stop to compact memory (THP defrag is 'always'): step times vary.",
            evidence="/sys/kernel/mm/transparent_hugepage/defrag",
            fix="echo madvise > /sys/kernel/mm/transparent_hugepage/defrag (as root)",
        )
    reserved = hugepage_bytes(context)
    total = context.host.memory.total_bytes
    if reserved and total and reserved > 0.1 * total:
        yield Finding(
            code="HUGEPAGES_RESERVED",
            severity="warning",
            message=f"{format_bytes(reserved)} of {format_bytes(total)} are reserved as huge pages, which ordinary allocations cannot use.",
            evidence="/sys/kernel/mm/hugepages",
            fix="echo 0 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages (as root), if nothing needs them",
        )


def hugepage_bytes(context: Context) -> int:
    """Return the bytes reserved in all pools of huge pages; of the default pool where only /proc/meminfo is there."""
    total = 0
    for name in context.root.names("/sys/kernel/mm/hugepages"):
        match = re.fullmatch(r"hugepages-(\d{1,12})kB", name)
        if match:
            total += int(match[1]) * 1024 * (context.root.integer(f"/sys/kernel/mm/hugepages/{name}/nr_hugepages") or 0)
    if total == 0:
        info = parse_meminfo(context.root.text("/proc/meminfo"))
        total = info.get("HugePages_Total", 0) * info.get("Hugepagesize", 0)
    return total


def overcommit(context: Context) -> Iterator[Finding]:
    """Strict accounting refuses the large reservations that runtimes make."""
    if context.root.line("/proc/sys/vm/overcommit_memory") == "2":
        yield Finding(
            code="OVERCOMMIT_STRICT",
            severity="warning",
            message="The kernel refuses to overcommit memory: CUDA, JAX and fork-based data loaders fail with memory still free.",
            evidence="/proc/sys/vm/overcommit_memory is 2",
            fix="sysctl vm.overcommit_memory=0 (as root)",
        )


def resource_limits(context: Context) -> Iterator[Finding]:
    """ulimits that stop training jobs."""
    found = {
        match[1].strip(): match[2]
        for match in re.finditer(r"^(Max [a-z ]+?)\s{2,}(\S+)\s", context.root.text("/proc/self/limits") or "", re.MULTILINE)
    }
    address = found.get("Max address space", "unlimited")
    if address.isdecimal():
        yield Finding(
            code="ULIMIT_ADDRESS_SPACE",
            severity="warning",
            message=f"The address space is limited to {format_bytes(int(address))}: CUDA and JAX reserve far more than they use and fail.",
            evidence="/proc/self/limits",
            fix="ulimit -v unlimited",
        )
    locked = found.get("Max locked memory", "unlimited")
    if locked.isdecimal() and int(locked) < GIB and context.root.names("/sys/class/infiniband"):
        yield Finding(
            code="ULIMIT_MEMLOCK",
            severity="warning",
            message=f"Only {format_bytes(int(locked))} may be locked in memory, beside an RDMA adapter: NCCL falls back to TCP or fails.",
            evidence="/proc/self/limits",
            fix="ulimit -l unlimited, or docker run --ulimit memlock=-1",
        )
    files = found.get("Max open files", "unlimited")
    if files.isdecimal() and int(files) < 4096:
        yield Finding(
            code="ULIMIT_NOFILE",
            severity="info",
            message=f"Only {files} files may be open at once: data loaders with many workers meet 'Too many open files'.",
            evidence="/proc/self/limits",
            fix="ulimit -n 65536",
        )


FINDERS = (limits, swap, shared_memory, pages, overcommit, resource_limits)
