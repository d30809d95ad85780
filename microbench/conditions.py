"""What else the machine did while we measured: run-queue wait, foreign CPU time, load, clocks, throttling, environment.

Linux tells all of it through /proc and /sys; where a source is missing the reading is None, never 0. Standard library only.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: Environment variables that change what a kernel does; those that are set go into a measurement's conditions.
ENVIRONMENT_PREFIXES = ("OMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "ONEDNN_", "DNNL_", "XLA_", "JAX_", "TF_", "TORCH", "ATEN_", "GOMP_",
                        "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "MALLOC_", "LD_PRELOAD", "VECLIB_", "NUMEXPR_", "NCCL_", "GLOO_")  # fmt: skip


#: The CPUs this process could use when it began. What others do on them counts as foreign even where we bind ourselves to one: it
#: shares memory, the last cache and the power budget.
_ALLOWED = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset[int]()


def cpus_in_use() -> int:
    """Return how many logical CPUs this process could use when it began."""
    return len(_ALLOWED) or os.cpu_count() or 1


def pin_to_one_cpu() -> int | None:
    """Bind this process to the CPU of those it may use that was idle most in the last tenth of a second; return it, None if impossible."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    with contextlib.suppress(OSError):
        before = idle_ticks()
        time.sleep(0.1)
        cpu = idlest(os.sched_getaffinity(0), before, idle_ticks())
        os.sched_setaffinity(0, {cpu})
        return cpu
    return None


def idlest(cpus: Iterable[int], before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return the CPU whose idle ticks grew most; of several, and where none is known, the last: interrupts tend to land on the first."""
    return max(cpus, key=lambda cpu: (after.get(cpu, 0) - before.get(cpu, 0), cpu))


def idle_ticks() -> dict[int, int]:
    """Return ticks each CPU has been idle since boot (/proc/stat, waiting for a disk included), empty where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/stat") as file:
        rows = [line.split() for line in file if line.startswith("cpu") and not line.startswith("cpu ")]
        return {int(row[0][3:]): int(row[4]) + int(row[5]) for row in rows}
    return {}


def run_queue_wait_s() -> float | None:
    """Return seconds that this process's threads have spent runnable but not running (second field of each schedstat)."""
    total = 0
    found = False
    with contextlib.suppress(OSError):
        for task in os.scandir("/proc/self/task"):
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"{task.path}/schedstat", "rb") as file:
                total += int(file.read().split()[1])
                found = True
    return total / 1e9 if found else None


def busy_s() -> float | None:
    """Return seconds the CPUs this process could use have been busy since boot, stolen time included.

    /proc/stat, all but idle and iowait; guest time is part of user time there.
    """
    names = {f"cpu{cpu}".encode() for cpu in _ALLOWED}
    ticks = 0
    found = False
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/stat", "rb") as file:
        for line in file:
            word = line.split()
            if not word[0].startswith(b"cpu"):
                break
            if word[0] in names:
                ticks += sum(int(word[i]) for i in (1, 2, 3, 6, 7, 8))
                found = True
    return ticks / os.sysconf("SC_CLK_TCK") if found else None


#: Processes that a backend started to help it: their CPU time is ours, not foreign.
helpers: set[int] = set()


def helpers_s() -> float:
    """Return CPU seconds of the living helpers (fields 14 and 15 of /proc/PID/stat, in ticks)."""
    ticks = 0
    for pid in list(helpers):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
            ticks += int(words[11]) + int(words[12])
        except (OSError, ValueError, IndexError):
            # Ended and reaped: from then on its time is in that of our waited-for children.
            helpers.discard(pid)
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The clocks at one moment: wall, this process's CPU, its run-queue wait, everybody's CPU on our CPUs."""

    wall_s: float
    own_s: float
    wait_s: float | None
    busy_s: float | None


def read() -> Reading:
    """Take a reading; costs some tens of microseconds, so it stands outside the timed part."""
    times = os.times()
    own = time.process_time() + times.children_user + times.children_system + helpers_s()
    return Reading(time.perf_counter(), own, run_queue_wait_s(), busy_s())


def wait_share(before: Reading, after: Reading, threads: int) -> float | None:
    """Return run-queue wait between two readings as a share of the thread time asked for."""
    if before.wait_s is None or after.wait_s is None:
        return None
    return max(0.0, after.wait_s - before.wait_s) / max(1e-9, (after.wall_s - before.wall_s) * threads)


def foreign_share(before: Reading, after: Reading) -> float | None:
    """Return the CPU time others took between two readings, as a share of the CPUs this process may run on.

    /proc/stat counts in ticks of 10 ms a CPU, so the readings should lie at least 100 ms apart.
    """
    if before.busy_s is None or after.busy_s is None:
        return None
    foreign = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return max(0.0, foreign) / max(1e-9, (after.wall_s - before.wall_s) * cpus_in_use())


def _first_number(path: str) -> float | None:
    with contextlib.suppress(OSError, ValueError), open(path) as file:
        return float(file.read().split()[0])
    return None


def clocks() -> dict[str, Any]:
    """Return the clock of each CPU this process may use, the hottest zone and the throttle count, each None where not readable."""
    mhz: list[float] = []
    with contextlib.suppress(OSError, ValueError), open("/proc/cpuinfo") as file:
        mhz = [float(line.split(":")[1]) for line in file if line.startswith("cpu MHz")]
    current = [value / 1e3 for path in glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq") if (value := _first_number(path))]
    celsius = [value / 1e3 for path in glob.glob("/sys/class/thermal/thermal_zone*/temp") if (value := _first_number(path))]
    throttles = [_first_number(path) for path in glob.glob("/sys/devices/system/cpu/cpu*/thermal_throttle/package_throttle_count")]
    counts = [value for value in throttles if value is not None]
    return {
        "cpu_mhz": round(sum(current or mhz) / len(current or mhz)) if current or mhz else None,
        "temperature_c": max(celsius) if celsius else None,
        "throttle_count": int(max(counts)) if counts else None,
    }


def environment() -> dict[str, str]:
    """Return the environment variables in force that can change a kernel's speed."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(ENVIRONMENT_PREFIXES)}


def load_average() -> float | None:
    """Return the load average over one minute."""
    with contextlib.suppress(OSError, AttributeError):
        return os.getloadavg()[0]
    return None


def cache_bytes() -> dict[str, int]:
    """Return the size of one core's L2 and of the last cache by level ("2", "3"), empty where the system does not tell."""
    sizes: dict[str, int] = {}
    for folder in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*"):
        with contextlib.suppress(OSError, ValueError):
            with open(f"{folder}/level") as file:
                level = file.read().strip()
            with open(f"{folder}/size") as file:
                text = file.read().strip()
            if level in ("2", "3"):
                sizes[level] = int(text.rstrip("KMG")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1)
    return sizes


def available_memory_bytes() -> int | None:
    """Return memory that can be had without swapping (MemAvailable), or less where a cgroup allows less."""
    available: int | None = None
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/meminfo") as file:
        available = next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), None)
    for limit_path, used_path in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        limit, used = _first_number(limit_path), _first_number(used_path)
        if limit is not None and used is not None:
            left = max(0, int(limit - used))
            available = left if available is None else min(available, left)
    return available
