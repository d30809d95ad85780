"""The system around: disk, load, clock, compiler, mitigations, sandboxes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from advisor.probe.findings._context import Context
from advisor.probe.records import Finding
from advisor.resources import home_dir, user_data_dir
from advisor.units import GIB, format_bytes

#: A framework with its GPU libraries takes several GB to install; a database and caches need room as well.
DISK_ENOUGH = 5 * GIB


def disk(context: Context) -> Iterator[Finding]:
    """Little room where results, caches and temporary files go."""
    if not context.root.is_live:
        return
    places = {
        "the results database": user_data_dir(),
        "downloaded models (~/.cache)": home_dir() / ".cache",
        "temporary files": Path(os.environ.get("TMPDIR") or "/tmp"),  # noqa: S108 - asked for its free space only
    }
    told: set[int] = set()
    for what, path in places.items():
        existing = next((folder for folder in (path, *path.parents) if folder.exists()), None)
        if existing is None:
            continue
        try:
            free, device = shutil.disk_usage(existing).free, existing.stat().st_dev
        except OSError:
            continue
        if free < DISK_ENOUGH and device not in told:
            told.add(device)
            yield Finding(
                code="DISK_LOW",
                severity="warning",
                message=f"Only {format_bytes(free)} are free for {what}.",
                evidence=f"{existing}",
                fix="free some space, or point ADVISOR_HOME, HF_HOME or TMPDIR to another disk",
            )


def load(context: Context) -> Iterator[Finding]:
    """Other work is running: measurements will be contended."""
    match = re.match(r"([\d.]{1,10}) ", context.root.text("/proc/loadavg") or "")
    cpus = context.host.cpu.logical_cpus
    if match and cpus and context.root.is_live:
        try:
            now = float(match[1])
        except ValueError:
            return
        if now > 0.5 * cpus:
            yield Finding(
                code="LOAD_HIGH",
                severity="info",
                message=f"The load is {now:.1f} on {cpus} CPUs: measurements made now are contended.",
                evidence="/proc/loadavg",
                fix="wait until the machine is idle before `advisor bench`",
            )


def clock_source(context: Context) -> Iterator[Finding]:
    """A slow clock makes every time stamp a system call."""
    source = context.root.line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if source in ("hpet", "acpi_pm", "jiffies", "pit"):
        yield Finding(
            code="CLOCKSOURCE_SLOW",
            severity="warning",
            message=f"The kernel reads time from {source}, far slower than the processor's counter: profiling and short steps suffer.",
            evidence="/sys/devices/system/clocksource/clocksource0/current_clocksource",
            fix="echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource (as root), if tsc is available",
        )


def compiler(context: Context) -> Iterator[Finding]:
    """torch.compile needs a C++ compiler at run time."""
    if context.root.is_live and "torch" in context.packages and context.host.os == "linux":
        named = context.environ.get("CXX")
        if not any(shutil.which(name) for name in (named, "g++", "c++", "clang++") if name):
            yield Finding(
                code="NO_CXX_COMPILER",
                severity="warning",
                message="There is no C++ compiler: torch.compile on the CPU fails at the first call.",
                evidence="none of $CXX, g++, c++, clang++ on PATH",
                fix="apt-get install g++ (or dnf install gcc-c++)",
            )


def mitigations(context: Context) -> Iterator[Finding]:
    """Mitigations that cost much in code with many branches or system calls."""
    folder = "/sys/devices/system/cpu/vulnerabilities"
    states = {name: context.root.line(f"{folder}/{name}") or "" for name in context.root.names(folder)}
    vulnerable = sorted(name for name, state in states.items() if state.startswith("Vulnerable"))
    if vulnerable and context.host.virtualization in (None, "none"):
        yield Finding(
            code="CPU_VULNERABLE",
            severity="info",
            message=f"The kernel does not mitigate {', '.join(vulnerable[:4])}{' …' if len(vulnerable) > 4 else ''}.",
            evidence=folder,
            fix="update firmware and kernel, unless mitigations=off is meant",
        )
    if re.match(r"Mitigation: (PTI|Page Table Isolation)", states.get("meltdown", "")):
        yield Finding(
            code="MITIGATION_PTI",
            severity="info",
            message="Page-table isolation is on (an older processor): every system call and kernel launch costs more.",
            evidence=f"{folder}/meltdown",
            fix="none needed; newer processors do without",
        )
    if "Microcode" in states.get("gather_data_sampling", ""):
        yield Finding(
            code="MITIGATION_GDS",
            severity="info",
            message="The microcode slows gather instructions down (Downfall): embedding look-ups and sparse kernels on the CPU suffer.",
            evidence=f"{folder}/gather_data_sampling",
            fix="none needed; gather_data_sampling=off trades safety for speed",
        )


def sandbox(context: Context) -> Iterator[Finding]:
    """Environments in which much cannot be read or measured."""
    if context.host.virtualization == "gvisor":
        yield Finding(
            code="GVISOR",
            severity="info",
            message="This is a gVisor sandbox: /sys is mostly absent and system calls are slow; what cannot be read is unknown, not zero.",
            evidence="/proc/version",
            fix="run on an ordinary runtime (runc) for measurements",
        )
    if context.host.virtualization == "wsl":
        yield Finding(
            code="WSL",
            severity="info",
            message="This is WSL: GPUs come through /dev/dxg, memory is a share of Windows' (half by default).",
            evidence="/proc/version",
            fix="set memory= and processors= in %UserProfile%\\.wslconfig",
        )
    pids = context.facts.limits.pids
    if pids is not None and pids < 256:
        yield Finding(
            code="PIDS_LIMIT",
            severity="warning",
            message=f"The control group allows {pids} tasks: thread pools and data-loader workers fail to start.",
            evidence="pids.max",
            fix="docker run --pids-limit=4096",
        )


def address_bits(context: Context) -> Iterator[Finding]:
    """A 32-bit system runs none of the frameworks' wheels."""
    arch = context.host.arch or ""
    if re.fullmatch(r"i[3-6]86|armv[5-7]\w*|armv8l|ppc|mips|riscv32|sparc", arch):
        yield Finding(
            code="SYSTEM_32_BIT",
            severity="warning",
            message=f"The system is 32-bit ({arch}): torch, jax and onnxruntime have no wheels for it; a process has at most 4 GiB.",
            evidence=f"arch {arch}",
            fix="install a 64-bit system if the processor allows it",
        )
    if context.root.is_live and sys.maxsize < 1 << 32 and "64" in arch:
        yield Finding(
            code="PYTHON_32_BIT",
            severity="warning",
            message="This Python is a 32-bit build on a 64-bit system: no framework has wheels for it.",
            evidence="sys.maxsize",
            fix="install a 64-bit Python",
        )


FINDERS = (disk, load, clock_source, compiler, mitigations, sandbox, address_bits)
