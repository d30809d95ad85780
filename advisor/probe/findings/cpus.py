"""CPUs: fewer than the machine shows, threads that do not fit them, clocks that are held back."""

from __future__ import annotations

import math
from collections.abc import Iterator

from advisor.probe.findings._context import Context
from advisor.probe.host._text import format_cpulist, parse_cpulist
from advisor.probe.host._topology import CPU_FOLDER
from advisor.probe.records import Finding

#: Variables that set the number of threads of a numerical library.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "RAYON_NUM_THREADS", "BLIS_NUM_THREADS")


def share(context: Context) -> Iterator[Finding]:
    """This process may use fewer CPUs than are online."""
    cpu, limits, facts = context.host.cpu, context.facts.limits, context.facts
    online, usable = cpu.logical_cpus, cpu.usable_cpus
    if not online or usable is None:
        return
    threads = max(1, math.ceil(usable))
    if limits.quota_cpus is not None and limits.quota_cpus < online:
        yield Finding(
            code="CPU_QUOTA",
            severity="warning",
            message=f"A CPU quota allows {limits.quota_cpus:g} of {online} CPUs; programs that start {online} threads will be throttled.",
            evidence=f"{limits.quota_source}",
            fix=f"export OMP_NUM_THREADS={threads}, or raise the quota (docker run --cpus=N; resources.limits.cpu in Kubernetes)",
        )
    if limits.quota_cpus is not None and limits.quota_cpus < 1:
        yield Finding(
            code="CPU_QUOTA_BELOW_ONE",
            severity="warning",
            message=f"The CPU quota is {limits.quota_cpus:.2f} of one CPU: every measurement here is throttled.",
            evidence=f"{limits.quota_source}",
            fix="raise the quota to at least one whole CPU",
        )
    if limits.cpuset and len(limits.cpuset) < online:
        yield Finding(
            code="CPUSET_NARROW",
            severity="info",
            message=f"The control group's cpuset holds {len(limits.cpuset)} of {online} CPUs: {format_cpulist(limits.cpuset)}.",
            evidence=limits.cpuset_source,
            fix="docker run --cpuset-cpus=…, or the batch system's request, widens it",
        )
    if facts.affinity and len(facts.affinity) < min(online, len(limits.cpuset or range(online))):
        yield Finding(
            code="AFFINITY_NARROW",
            severity="info",
            message=f"The affinity mask allows {len(facts.affinity)} of {online} CPUs: {format_cpulist(facts.affinity)}.",
            evidence="/proc/self/status Cpus_allowed_list",
            fix=f"taskset -c 0-{online - 1} COMMAND, or ask the batch system for more CPUs",
        )


def threads(context: Context) -> Iterator[Finding]:
    """Thread counts in the environment that do not fit what may be used."""
    cpu = context.host.cpu
    if cpu.usable_cpus is None or not cpu.logical_cpus:
        return
    fit = max(1, math.ceil(cpu.usable_cpus))
    stated = {name: context.environ[name] for name in _THREADS if context.environ.get(name)}
    for name, text in stated.items():
        first = text.split(",")[0].strip()
        if not first.isdecimal() or int(first) == 0:
            yield Finding(
                code="THREADS_MALFORMED",
                severity="warning",
                message=f"{name} is not a positive number.",
                evidence=f"{name}={text}",
                fix=f"export {name}={fit}",
            )
        elif int(first) > fit:
            yield Finding(
                code="THREADS_ABOVE_USABLE",
                severity="warning",
                message=f"{name} asks for {first} threads on {cpu.usable_cpus:g} usable CPUs: they will wait for one another.",
                evidence=f"{name}={text}",
                fix=f"export {name}={fit}",
            )
        elif int(first) == 1 and fit >= 4 and name == "OMP_NUM_THREADS":
            yield Finding(
                code="THREADS_ONE",
                severity="info",
                message=f"OMP_NUM_THREADS is 1, so most operators use one of {fit} usable CPUs (torchrun sets this by itself).",
                evidence="OMP_NUM_THREADS=1",
                fix=f"export OMP_NUM_THREADS={fit}, divided by the processes on this machine",
            )
    # OpenMP runtimes count the affinity mask by themselves; of a quota they know nothing.
    by_default = min(cpu.logical_cpus, len(context.facts.affinity or range(cpu.logical_cpus)))
    if context.in_container and context.root.is_live and fit < by_default and "OMP_NUM_THREADS" not in stated:
        yield Finding(
            code="THREADS_UNSET_IN_CONTAINER",
            severity="warning",
            message=f"OMP_NUM_THREADS is not set in a container that may use {cpu.usable_cpus:g} CPUs: {by_default} threads would start.",
            evidence=f"{cpu.usable_cpus_source}",
            fix=f"export OMP_NUM_THREADS={fit}",
        )


def offline(context: Context) -> Iterator[Finding]:
    """CPUs that are present and switched off."""
    cpus = context.facts.offline_cpus
    if cpus:
        present = len(cpus) + (context.host.cpu.logical_cpus or 0)
        smt_off = context.root.line("/sys/devices/system/cpu/smt/control") in ("off", "forceoff")
        yield Finding(
            code="CPUS_OFFLINE",
            severity="info",
            message=f"{len(cpus)} of {present} CPUs are offline: {format_cpulist(cpus)}.",
            evidence="/sys/devices/system/cpu/smt/control is off" if smt_off else "/sys/devices/system/cpu/online",
            fix="none needed: simultaneous multithreading was switched off"
            if smt_off
            else f"echo 1 > {CPU_FOLDER}/cpu{cpus[0]}/online (as root)",
        )
    isolated = parse_cpulist(context.root.line("/sys/devices/system/cpu/isolated"))
    if isolated:
        yield Finding(
            code="CPUS_ISOLATED",
            severity="info",
            message=f"{len(isolated)} CPUs are isolated from the scheduler ({format_cpulist(isolated)}): only pinned threads run there.",
            evidence="/sys/devices/system/cpu/isolated",
            fix="pin with taskset, or remove isolcpus= from the kernel command line",
        )


def clocks(context: Context) -> Iterator[Finding]:
    """Settings that hold the clock back."""
    root = context.root
    first = next(iter(parse_cpulist(root.line("/sys/devices/system/cpu/online")) or (0,)))
    folder = f"/sys/devices/system/cpu/cpu{first}/cpufreq"
    governor, driver = root.line(f"{folder}/scaling_governor"), root.line(f"{folder}/scaling_driver") or ""
    # The pstate drivers in active mode scale well under a governor they call powersave.
    active = driver in ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")
    if governor == "powersave" and not active:
        yield Finding(
            code="CPU_GOVERNOR",
            severity="warning",
            message=f"The CPU governor is powersave: clocks stay near their lowest ({driver or 'unknown driver'}).",
            evidence=f"{folder}/scaling_governor",
            fix="sudo cpupower frequency-set -g performance",
        )
    preference = root.line(f"{folder}/energy_performance_preference")
    if active and preference == "power":
        yield Finding(
            code="CPU_ENERGY_PREFERENCE",
            severity="info",
            message="The processor's energy preference is 'power', which holds its clocks back.",
            evidence=f"{folder}/energy_performance_preference",
            fix="sudo cpupower set --epp performance",
        )
    if root.line("/sys/devices/system/cpu/intel_pstate/no_turbo") == "1" or root.line("/sys/devices/system/cpu/cpufreq/boost") == "0":
        yield Finding(
            code="CPU_BOOST_OFF",
            severity="info",
            message="Turbo clocks are switched off: peaks of data sheets cannot be reached, but measurements are steadier.",
            evidence="/sys/devices/system/cpu/intel_pstate/no_turbo or cpufreq/boost",
            fix="echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 1 > /sys/devices/system/cpu/cpufreq/boost (as root)",
        )
    limit, top = root.integer(f"{folder}/scaling_max_freq"), root.integer(f"{folder}/cpuinfo_max_freq")
    if limit and top and limit < 0.95 * top:
        yield Finding(
            code="CPU_CLOCK_CAPPED",
            severity="warning",
            message=f"The clock is capped at {limit / 1000:.0f} of {top / 1000:.0f} MHz.",
            evidence=f"{folder}/scaling_max_freq",
            fix=f"sudo cpupower frequency-set -u {top}",
        )


def disagreement(context: Context) -> Iterator[Finding]:
    """lxcfs edits /proc and not /sys, so counts disagree."""
    if context.facts.lxcfs:
        yield Finding(
            code="LXCFS",
            severity="info",
            message="lxcfs edits /proc in this container while /sys shows the whole host: programs that read one or the other disagree.",
            evidence=f"usable CPUs by {context.host.cpu.usable_cpus_source}; online {context.host.cpu.logical_cpus}",
            fix="set thread counts by hand (OMP_NUM_THREADS)",
        )


FINDERS = (share, threads, offline, clocks, disagreement)
