"""What control groups allow this process: v1, v2 and hybrid, up all ancestors, whatever the namespace shows.

For each controller: v1 if ``/proc/self/cgroup`` names the controller, else v2 (``0::``). The group's path is joined to the mount of that
controller, less the mount's own root (``mountinfo``); where the folder does not exist, as in a container that sees only its own
group, the nearest ancestor that does is taken. A limit holds at every level, so the least of all levels counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from advisor.probe.host._text import parse_cpulist, parse_int
from advisor.probe.root import Root


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits found, each with the file that sets it. None: nothing constrains."""

    version: str | None = None
    quota_cpus: float | None = None
    quota_source: str | None = None
    cpuset: tuple[int, ...] | None = None
    cpuset_source: str | None = None
    memory_bytes: int | None = None
    memory_source: str | None = None
    memory_high_bytes: int | None = None
    memory_current_bytes: int | None = None
    swap_bytes: int | None = None
    pids: int | None = None
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Mount:
    point: str
    root: str
    controllers: frozenset[str]
    v2: bool


def read_limits(root: Root) -> Limits:
    """Return what the control groups of this process (of the recorded one) limit; never raises."""
    paths = _own_paths(root)
    mounts = _mounts(root)
    problems: dict[str, str] = {}
    cpu = list(_levels(root, paths, mounts, "cpu"))
    memory = list(_levels(root, paths, mounts, "memory"))
    quota = _least(_quota(root, folder, v2, problems) for folder, v2 in cpu)
    limit = _least(_memory_limit(root, folder, v2, problems) for folder, v2 in memory)
    high = _least(_number(root, f"{folder}/memory.high", problems) for folder, v2 in memory if v2)
    swap = _least(_number(root, f"{folder}/memory.swap.max", problems) for folder, v2 in memory if v2)
    pids = _least(_number(root, f"{folder}/pids.max", problems) for folder, _ in _levels(root, paths, mounts, "pids"))
    cpuset = _cpuset(root, list(_levels(root, paths, mounts, "cpuset")))
    kinds = {"v2" if v2 else "v1" for _, v2 in (*cpu, *memory)}
    return Limits(
        version="hybrid" if len(kinds) == 2 else next(iter(kinds), None),
        quota_cpus=quota[0] if quota else None,
        quota_source=quota[1] if quota else None,
        cpuset=cpuset[0] if cpuset else None,
        cpuset_source=cpuset[1] if cpuset else None,
        memory_bytes=int(limit[0]) if limit else None,
        memory_source=limit[1] if limit else None,
        memory_high_bytes=int(high[0]) if high else None,
        memory_current_bytes=_current(root, limit[1]) if limit else None,
        swap_bytes=int(swap[0]) if swap else None,
        pids=int(pids[0]) if pids else None,
        problems=problems,
    )


def group_folders(root: Root) -> list[str]:
    """Return every folder that ``read_limits`` looks into: this process's groups and their ancestors."""
    paths, mounts = _own_paths(root), _mounts(root)
    folders = [folder for controller in ("cpu", "cpuset", "memory", "pids") for folder, _ in _levels(root, paths, mounts, controller)]
    return list(dict.fromkeys(folders))


def _own_paths(root: Root) -> dict[str, str]:
    """Return controller to path, from ``/proc/self/cgroup``; the v2 path under the empty name."""
    paths: dict[str, str] = {}
    for line in (root.text("/proc/self/cgroup") or "").splitlines():
        parts = line.strip().split(":", 2)
        if len(parts) == 3 and parts[0].isdecimal():
            for controller in parts[1].split(","):
                paths.setdefault(controller, parts[2])
    return paths


def _mounts(root: Root) -> list[_Mount]:
    """Return the mounted hierarchies; later mounts of one point hide earlier ones."""
    found: dict[str, _Mount] = {}
    for line in (root.text("/proc/self/mountinfo") or "").splitlines():
        left, separator, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if separator and len(fields) >= 5 and kind and kind[0] in ("cgroup", "cgroup2", "cpuset"):
            options = kind[2].split(",") if len(kind) > 2 else []
            names = frozenset(options) if kind[0] == "cgroup" else frozenset({"cpuset"}) if kind[0] == "cpuset" else frozenset()
            found[fields[4]] = _Mount(_unescape(fields[4]), _unescape(fields[3]), names, kind[0] == "cgroup2")
    if not found:
        for line in (root.text("/proc/mounts") or root.text("/proc/self/mounts") or "").splitlines():
            fields = line.split()
            if len(fields) >= 4 and fields[2] in ("cgroup", "cgroup2", "cpuset"):
                names = frozenset(fields[3].split(",")) if fields[2] == "cgroup" else frozenset({"cpuset"} if fields[2] == "cpuset" else ())
                found[fields[1]] = _Mount(_unescape(fields[1]), "/", names, fields[2] == "cgroup2")
    return list(found.values()) or _usual_mounts(root)


def _usual_mounts(root: Root) -> list[_Mount]:
    """Return the hierarchies at their usual places, for a /proc that shows no mounts."""
    base = "/sys/fs/cgroup"
    names = root.names(base)
    if any(name in names for name in ("cgroup.controllers", "cpu.max", "memory.max", "cpuset.cpus.effective")):
        return [_Mount(base, "/", frozenset(), True)]
    known = {"cpu", "cpuacct", "cpuset", "memory", "pids"}
    v1 = [_Mount(f"{base}/{name}", "/", frozenset(name.split(",")), False) for name in names if set(name.split(",")) & known]
    return v1 + ([_Mount(f"{base}/unified", "/", frozenset(), True)] if "unified" in names else [])


def _levels(root: Root, paths: dict[str, str], mounts: list[_Mount], controller: str) -> Iterator[tuple[str, bool]]:
    """Yield the folders of this process's group for ``controller`` from the leaf up to the mount, with whether they are v2."""
    v1 = [mount for mount in mounts if not mount.v2 and controller in mount.controllers]
    v2 = [mount for mount in mounts if mount.v2]
    stated_v1 = controller in paths
    chosen = v1 if v1 and (stated_v1 or "" not in paths or not v2) else v2
    if not chosen:
        return
    path = paths.get(controller, "/") if chosen is v1 else paths.get("", "/")
    mount = max(chosen, key=lambda m: len(m.root) if _within(path, m.root) else -1)
    relative = _relative(path, mount.root)
    while True:
        folder = f"{mount.point}/{relative}".rstrip("/") if relative else mount.point
        if root.names(folder):
            yield folder, mount.v2
        if not relative:
            return
        relative = relative.rpartition("/")[0]


def _within(path: str, base: str) -> bool:
    return base == "/" or path == base or path.startswith(base.rstrip("/") + "/")


def _relative(path: str, mount_root: str) -> str:
    """Return the group's path below the mount; the mount itself where the path lies outside it or climbs (``/../x``)."""
    if ".." in path.split("/") or not _within(path, mount_root):
        return ""
    return path[len(mount_root) :].strip("/") if mount_root != "/" else path.strip("/")


Found = tuple[float, str] | None


def _least(values: Iterator[Found]) -> Found:
    found = [value for value in values if value is not None]
    return min(found, key=lambda value: value[0]) if found else None


def _number(root: Root, name: str, problems: dict[str, str]) -> Found:
    """Return a limit file's number; None for ``max``, for a negative one and for a file that is not there."""
    text = root.text(name)
    if text is None:
        return None
    words = text.split()
    if words and words[0] in ("max", "-1"):
        return None
    number = parse_int(text) if words and re.fullmatch(r"\d{1,20}", words[0]) else None
    if number is None:
        problems[name] = "empty" if not words else f"not a number: {words[0][:40]!r}"
        return None
    return float(number) if number < 1 << 53 else number, name


def _quota(root: Root, folder: str, v2: bool, problems: dict[str, str]) -> Found:
    if v2:
        name = f"{folder}/cpu.max"
        text = root.text(name)
        if text is None:
            return None
        words = text.split()
        if words and words[0] == "max":
            return None
        quota = parse_int(words[0]) if words else None
        period = parse_int(words[1]) if len(words) > 1 else 100_000
    else:
        name = f"{folder}/cpu.cfs_quota_us"
        text = root.text(name)
        if text is None:
            return None
        quota = parse_int(text)
        if quota is not None and quota < 0:
            return None
        period = parse_int(root.text(f"{folder}/cpu.cfs_period_us") or "100000")
    if not quota or not period or quota < 0 or period < 0:
        problems[name] = "empty" if not text.split() else f"not a quota: {text.strip()[:40]!r}"
        return None
    return quota / period, name


def _memory_limit(root: Root, folder: str, v2: bool, problems: dict[str, str]) -> Found:
    if v2:
        return _number(root, f"{folder}/memory.max", problems)
    own = _number(root, f"{folder}/memory.limit_in_bytes", problems)
    # A parent outside this namespace shows only here.
    match = re.search(r"^hierarchical_memory_limit (\d{1,20})$", root.text(f"{folder}/memory.stat") or "", re.MULTILINE)
    above: Found = (float(match[1]), f"{folder}/memory.stat") if match else None
    return _least(iter((own, above)))


def _current(root: Root, source: str) -> int | None:
    """Return the bytes the limiting group holds, less file pages that can be dropped."""
    folder = source.rpartition("/")[0]
    used = root.integer(f"{folder}/memory.current")
    if used is None:
        used = root.integer(f"{folder}/memory.usage_in_bytes")
    if used is None:
        return None
    match = re.search(r"^(?:total_)?inactive_file (\d{1,20})$", root.text(f"{folder}/memory.stat") or "", re.MULTILINE)
    return max(0, used - (int(match[1]) if match else 0))


def _cpuset(root: Root, levels: list[tuple[str, bool]]) -> tuple[tuple[int, ...], str] | None:
    """Return the smallest cpuset of all levels; the effective list where the kernel shows one."""
    best: tuple[tuple[int, ...], str] | None = None
    for folder, _ in levels:
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus", "cpus"):
            cpus = parse_cpulist(root.line(f"{folder}/{name}"))
            if cpus:
                if best is None or len(cpus) < len(best[0]):
                    best = (cpus, f"{folder}/{name}")
                break
    return best


def _unescape(text: str) -> str:
    """Undo the octal escapes of mountinfo (a space is ``\\040``)."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
