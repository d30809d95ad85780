"""Caches from sysfs: each kind with its size, how many there are and how many CPUs share one."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from advisor.probe.host._text import parse_cpulist, parse_cpumap, parse_size
from advisor.probe.host._topology import CPU_FOLDER, Topology
from advisor.probe.records import Cache
from advisor.probe.root import Root

_KINDS: dict[str, Any] = {"data": "data", "instruction": "instruction", "unified": "unified"}


def read_caches(root: Root, topology: Topology) -> tuple[Cache, ...]:
    """Return the kinds of caches, level 1 first. Sizes that differ within a level (hybrid chips) are kinds of their own.

    One CPU of each core is read. A cache that several cores share is counted once, by the list of CPUs that share it.
    """
    firsts = sorted(topology.siblings) or list(topology.online or ())
    owners: dict[tuple[int, str, int], set[tuple[int, ...]]] = defaultdict(set)
    layout: dict[str, tuple[int, str]] = {}
    covered: dict[str, set[int]] = defaultdict(set)
    for cpu in firsts:
        folder = f"{CPU_FOLDER}/cpu{cpu}/cache"
        for index in root.names(folder):
            if not re.fullmatch(r"index\d{1,2}", index) or cpu in covered[index]:
                continue
            # Kernels number the caches of every CPU alike: level and type are read once per index.
            where = layout.get(index) or _level(root, f"{folder}/{index}")
            size = parse_size(root.line(f"{folder}/{index}/size"))
            if where is None or not size:
                continue
            layout[index] = where
            shared = _shared(root, f"{folder}/{index}", cpu)
            covered[index].update(shared)
            owners[(where[0], where[1], size)].add(shared)
    return tuple(
        Cache(level=level, kind=_KINDS[kind], size_bytes=size, count=len(groups), shared_by=max(len(group) for group in groups))
        for (level, kind, size), groups in sorted(owners.items())
    )


def _level(root: Root, folder: str) -> tuple[int, str] | None:
    level = root.integer(f"{folder}/level")
    kind = (root.line(f"{folder}/type") or "").lower()
    return (level, kind) if level is not None and 1 <= level <= 9 and kind in _KINDS else None


def _shared(root: Root, folder: str, cpu: int) -> tuple[int, ...]:
    shared = parse_cpulist(root.line(f"{folder}/shared_cpu_list")) or parse_cpumap(root.line(f"{folder}/shared_cpu_map"))
    return shared if shared and cpu in shared else (cpu,)
