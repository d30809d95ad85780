"""Which CPUs are online, and into how many cores and sockets they fall; sysfs first, /proc/cpuinfo second.

A core is a set of sibling threads, a socket a package; neither number is trusted alone, since ``core_id`` repeats in every package (and
on every die), and packages may be -1 or missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from advisor.probe.host._cpuinfo import CpuInfo
from advisor.probe.host._text import parse_cpulist, parse_cpumap, parse_int
from advisor.probe.root import Root

CPU_FOLDER = "/sys/devices/system/cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """CPUs by number, and their grouping. ``online`` is None where no source numbers them; ``count`` may still be known."""

    online: tuple[int, ...] | None
    count: int | None
    offline: tuple[int, ...] = ()
    sockets: int | None = None
    cores: int | None = None
    siblings: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The first CPU of each core to all its threads."""
    source: str | None = None
    reasons: dict[str, str] = field(default_factory=dict)


def read_topology(root: Root, info: CpuInfo, fallback_count: int | None) -> Topology:
    """Return the topology; ``fallback_count`` is used where neither sysfs nor /proc/cpuinfo counts CPUs."""
    folders = _cpu_folders(root)
    online, source = _online(root, info, folders)
    count = len(online) if online is not None else _count(info)
    if count is None:
        count, source = fallback_count, "fallback" if fallback_count else None
    reasons: dict[str, str] = {}
    if count is None:
        reasons["host.cpu.logical_cpus"] = "neither /sys/devices/system/cpu nor /proc/cpuinfo lists CPUs"
    grouped = _from_sysfs(root, [cpu for cpu in folders if online is None or cpu in set(online)])
    if grouped is None:
        grouped = _from_cpuinfo(info)
    sockets, cores, siblings = grouped
    where = "" if root.exists(CPU_FOLDER) else "; /sys is absent (sysfs_absent)"
    if sockets is None:
        reasons["host.cpu.sockets"] = f"no package numbers in sysfs or /proc/cpuinfo{where}"
    if cores is None:
        reasons["host.cpu.physical_cores"] = f"no core numbers in sysfs or /proc/cpuinfo{where}"
    return Topology(
        online=online,
        count=count,
        offline=_offline(root, online, folders),
        sockets=sockets,
        cores=cores,
        siblings=siblings,
        source=source,
        reasons=reasons,
    )


def _cpu_folders(root: Root) -> list[int]:
    found = [int(name[3:]) for name in root.names(CPU_FOLDER) if re.fullmatch(r"cpu\d{1,5}", name)]
    return sorted(found)


def _online(root: Root, info: CpuInfo, folders: list[int]) -> tuple[tuple[int, ...] | None, str | None]:
    listed = parse_cpulist(root.line(f"{CPU_FOLDER}/online"))
    if listed:
        return listed, f"{CPU_FOLDER}/online"
    numbers = info.numbers()
    # A folder without an ``online`` file cannot be taken offline: it is online. cpu0 seldom has one.
    if folders:
        alive = tuple(cpu for cpu in folders if root.integer(f"{CPU_FOLDER}/cpu{cpu}/online") != 0 and _has_content(root, cpu))
        if alive and not (numbers and set(alive) < set(numbers)):
            return (alive, CPU_FOLDER) if not numbers or len(alive) <= len(numbers) else (numbers, "/proc/cpuinfo")
    if numbers:
        return numbers, "/proc/cpuinfo"
    return None, None


def _has_content(root: Root, cpu: int) -> bool:
    """Tell whether a CPU's folder looks like one of a CPU that is present: possible ones have an empty folder."""
    return bool(root.names(f"{CPU_FOLDER}/cpu{cpu}"))


def _count(info: CpuInfo) -> int | None:
    for key in ("# processors", "ncpus active", "cpus active", "cpus detected"):
        number = parse_int(info.first(key))
        if number:
            return number
    if info.cpus:
        return len(info.cpus)
    # A kernel built for one processor prints no numbers: the identity alone is one CPU.
    return 1 if any(key in info.common for key in ("cpu part", "model name", "cpu model", "cpu")) else None


def _offline(root: Root, online: tuple[int, ...] | None, folders: list[int]) -> tuple[int, ...]:
    """Return CPUs that are present and switched off. The ``offline`` file also lists those that are merely possible."""
    present = parse_cpulist(root.line(f"{CPU_FOLDER}/present")) or tuple(folders)
    return tuple(cpu for cpu in present if cpu not in set(online)) if online else ()


Grouping = tuple[int | None, int | None, dict[int, tuple[int, ...]]]


def _from_sysfs(root: Root, cpus: Iterable[int]) -> Grouping | None:
    """Group by ``topology/``: threads by sibling lists where there are any, else by (package, die, core)."""
    wanted = list(cpus)
    alive = set(wanted)
    cores: dict[object, list[int]] = {}
    packages: set[object] = set()
    done: set[int] = set()
    seen_any = False
    package_of: dict[int, object] = {}
    for cpu in wanted:
        if cpu in done:
            continue
        folder = f"{CPU_FOLDER}/cpu{cpu}/topology"
        package = package_of.get(cpu)
        if package is None:
            package = _package(root, folder)
            members = parse_cpulist(root.line(f"{folder}/package_cpus_list"))
            if package is not None and members and cpu in members:
                # One read stands for the whole package: a thousand CPUs must not cost a thousand reads.
                package_of.update(dict.fromkeys(members, package))
        threads = _siblings(root, folder, cpu, alive)
        core_id = None if threads else root.line(f"{folder}/core_id")
        if package is None and threads is None and core_id is None:
            continue
        seen_any = True
        packages.add(package if package is not None else "only")
        if threads:
            cores.setdefault(threads, []).extend(threads)
            done.update(threads)
        else:
            cores.setdefault((package, root.line(f"{folder}/die_id"), core_id if core_id is not None else cpu), []).append(cpu)
    if not seen_any:
        return None
    groups = {min(group): tuple(sorted(set(group))) for group in cores.values() if group}
    return len(packages), len(groups), groups


def _package(root: Root, folder: str) -> object | None:
    """Return a key for the package: its number with those of the drawer and book (IBM Z), or None where it has none."""
    number = root.integer(f"{folder}/physical_package_id")
    if number is None or number < 0:
        return None
    return (root.integer(f"{folder}/drawer_id"), root.integer(f"{folder}/book_id"), number)


def _siblings(root: Root, folder: str, cpu: int, alive: set[int]) -> tuple[int, ...] | None:
    for name, parse in (
        ("core_cpus_list", parse_cpulist),
        ("thread_siblings_list", parse_cpulist),
        ("core_cpus", parse_cpumap),
        ("thread_siblings", parse_cpumap),
    ):
        threads = parse(root.line(f"{folder}/{name}"))
        if threads and cpu in threads:
            return tuple(thread for thread in threads if thread in alive)
    return None


def _from_cpuinfo(info: CpuInfo) -> Grouping:
    """Group by ``physical id`` and ``core id`` (``package`` and ``core`` on Loongson); some kernels print neither."""
    cores: dict[object, list[int]] = {}
    packages: set[str] = set()
    for index, cpu in enumerate(info.cpus):
        package = cpu.get("physical id", cpu.get("package"))
        core = cpu.get("core id", cpu.get("core"))
        number = parse_int(cpu.get("processor"))
        number = index if number is None else number
        if package is None:
            continue
        packages.add(package)
        cores.setdefault((package, core if core is not None else number), []).append(number)
    if not packages and len(info.cpus) == 1:
        return 1, 1, {}
    if not packages:
        return None, None, {}
    return len(packages), len(cores), {min(group): tuple(sorted(group)) for group in cores.values()}
