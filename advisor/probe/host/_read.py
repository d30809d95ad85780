"""Read the host through the files of Linux, or through the calls of macOS and Windows."""

from __future__ import annotations

import os
import platform
import re

from advisor.probe.host import _amx, _x86
from advisor.probe.host._caches import read_caches
from advisor.probe.host._cgroup import read_limits
from advisor.probe.host._cpuinfo import parse_cpuinfo
from advisor.probe.host._hybrid import hybrid_clusters
from advisor.probe.host._identify import family_of, identify
from advisor.probe.host._memory import read_memory
from advisor.probe.host._numa import read_numa
from advisor.probe.host._platform import board_of
from advisor.probe.host._report import HostFacts, HostReport
from advisor.probe.host._topology import read_topology
from advisor.probe.host._usable import frequency, read_usable
from advisor.probe.host._virtual import container, has_lxcfs, virtualization
from advisor.probe.records import Cpu, Host
from advisor.probe.root import Root

SYSCTL_TEXT = "/tools/sysctl-a.txt"


def read_host(root: Root) -> HostReport:
    """Return the host on ``root``. Never raises for what the files hold; what they do not say is None with a reason."""
    if (root.is_live and platform.system() == "Darwin") or (not root.is_live and root.exists(SYSCTL_TEXT)):
        from advisor.probe.host._macos import read_macos

        return read_macos(root)
    if root.is_live and platform.system() == "Windows":
        from advisor.probe.host._windows import read_windows

        return read_windows(root)
    return _read_linux(root)


def _read_linux(root: Root) -> HostReport:
    info = parse_cpuinfo(root.text("/proc/cpuinfo"))
    machine = _machine(root)
    identity = identify(root, info, machine)
    family = family_of(info, machine)
    numa = read_numa(root, identity.arch)
    # Last resort: the CPUs that NUMA nodes list, or what the interpreter counts.
    counted = len({cpu for node in numa.nodes for cpu in node.cpus}) or (os.cpu_count() if root.is_live else None)
    topology = read_topology(root, info, counted)
    limits = read_limits(root)
    memory, memory_reasons = read_memory(root, limits, numa)
    lxcfs = has_lxcfs(root)
    usable = read_usable(root, topology, limits, info, lxcfs)
    flags = frozenset(identity.isa)
    amx = _amx.permission(root) if "amx_tile" in flags else (None, None)
    kernel = _kernel(root)
    virtual, engine = virtualization(root, info, identity.arch), container(root)
    unknown = {**identity.reasons, **topology.reasons, **memory_reasons}
    stated = (
        ("host.kernel", kernel, "/proc/sys/kernel/osrelease and /proc/version are missing"),
        ("host.virtualization", virtual, "no hypervisor flag, no DMI and no device tree to tell"),
        ("host.container", engine, "/proc/self/cgroup and the mounts are missing"),
        ("host.cpu.usable_cpus", usable.count, "no CPU count, affinity, cpuset or quota can be read"),
    )
    unknown.update({path: reason for path, value, reason in stated if value is None})
    unknown.update({f"host.limits.{name}": f"{name} is {problem}" for name, problem in limits.problems.items()})
    cpu = Cpu(
        vendor=identity.vendor,
        model=identity.model,
        microarchitecture=identity.microarchitecture,
        isa=identity.isa,
        sockets=topology.sockets,
        physical_cores=topology.cores,
        logical_cpus=topology.count,
        usable_cpus=usable.count,
        usable_cpus_source=usable.source,
        max_mhz=frequency(root, topology, info),
        clusters=identity.clusters or hybrid_clusters(root, topology, family),
        caches=read_caches(root, topology),
        numa_nodes=numa.nodes,
    )
    host = Host(
        os=_os(root, info.cpus or info.common),
        kernel=kernel,
        arch=identity.arch,
        virtualization=virtual,
        container=engine,
        cpu=cpu,
        memory=memory,
    )
    if host.os is None:
        unknown["host.os"] = "the folder has neither /proc nor /sys of a Linux system"
    facts = HostFacts(
        offline_cpus=topology.offline,
        affinity=usable.affinity,
        limits=limits,
        gpu_numa_nodes=numa.gpu_nodes,
        isa_level=_x86.isa_level(flags) if family == "x86" else None,
        amx_permission=amx[0],
        amx_reason=amx[1],
        lxcfs=lxcfs,
        board=board_of(root),
    )
    return HostReport(host=host, facts=facts, unknown=unknown)


def _machine(root: Root) -> str | None:
    """Return uname's machine: asked of the kernel here, read from /proc on a recorded machine (kernels since 6.1)."""
    if root.is_live:
        return platform.machine() or None
    word = root.line("/proc/sys/kernel/arch")
    if word and re.fullmatch(r"[A-Za-z0-9_]{2,20}", word):
        return word
    match = re.search(
        r"\b(ppc64le|ppc64el|powerpc64le)\b", f"{root.text('/proc/version') or ''} {root.line('/proc/sys/kernel/osrelease') or ''}"
    )
    return "ppc64le" if match else None


def _os(root: Root, cpus: object) -> str | None:
    return "linux" if root.is_live or cpus or root.exists("/proc") or root.exists("/sys") else None


def _kernel(root: Root) -> str | None:
    release = root.line("/proc/sys/kernel/osrelease")
    if release:
        return release
    match = re.match(r"Linux version (\S+)", root.text("/proc/version") or "")
    return match[1] if match else platform.release() or None if root.is_live else None
