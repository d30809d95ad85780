"""Is a load beside us noticed, and does it shift the result? Quiet and loaded runs in turns; the load is a process on the first CPU.

At 50 % duty (busy half of every period) the best GEMM may shift by at most 10 % and the best memory bandwidth by at most 20 %, and the
measurements must say that others were there. Under a continuous load they must be ``contended``, which keeps them out of calibration.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from common import median_of, present, run, verdict

from advisor.bench.records import BenchSpec
from microbench.protocol import Measurement

RUN_S = 50.0
PERIOD_S = 0.2
BARS = {"gemm": 0.10, "bandwidth": 0.20}
#: A load of half of one CPU takes this share of the machine; half of it counts as noticed.
NOTICED = 0.5
HOG = """
import os, sys, time
duty, period, parent = float(sys.argv[1]), float(sys.argv[2]), os.getppid()
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
while os.getppid() == parent:
    end = time.perf_counter() + duty * period
    while time.perf_counter() < end:
        pass
    time.sleep((1 - duty) * period)
"""


@contextlib.contextmanager
def load(duty: float) -> Iterator[None]:
    """Keep one CPU busy for a part of the time, until the block ends or we do."""
    process = subprocess.Popen([sys.executable, "-c", HOG, str(duty), str(PERIOD_S)]) if duty else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def best(found: dict[str, Measurement], benchmark: str) -> float | None:
    """Return the best fp32 product, or the best bandwidth of memory, that the run calls good."""
    rows = [m for m in found.values() if m.benchmark == benchmark and m.status == "ok" and m.value]
    return max((m.value for m in rows if m.value and (benchmark == "gemm" or m.params["level"] == "memory")), default=None)


def measure(scale: float = 1.0, backends: Sequence[str] | None = None, runs: int = 3) -> dict[str, Any]:
    """Return the shift of the best numbers, the share of measurements that noticed, and what a continuous load was called."""
    spec = BenchSpec(
        benchmarks=("gemm", "bandwidth"),
        backends=present(backends),
        dtypes=("fp32",),
        shapes=((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048)),
        quick=True,
        budget_s=max(6.0, RUN_S * scale),
    )
    quiet, half = [], []
    for number in range(runs):
        quiet.append(run(spec, f"quiet run {number + 1} of {runs}"))
        with load(0.5):
            half.append(run(spec, f"half loaded run {number + 1} of {runs}"))
    with load(1.0):
        full = run(spec, "run under a continuous load")
    lines, met = [], True
    shifts = {}
    for benchmark, bar in BARS.items():
        pairs = [(best(q, benchmark), best(h, benchmark)) for q, h in zip(quiet, half, strict=True)]
        shifts[benchmark] = [h / q - 1 for q, h in pairs if q and h]
        good, line = verdict(f"shift of the best {benchmark} under 50 % duty", abs(median_of(shifts[benchmark])), bar, at_most=True)
        met, lines = met and good, [*lines, line]
    wanted = NOTICED * 0.5 / (os.cpu_count() or 1)
    seen = [(m.conditions.get("foreign_share") or 0.0) >= wanted for found in half for m in found.values() if m.samples]
    good, line = verdict("measurements beside 50 % duty that say so", statistics.fmean(seen) if seen else 0.0, 0.9)
    met, lines = met and good, [*lines, line]
    states = [m.status for m in full.values() if m.samples]
    good, line = verdict(
        "measurements under a continuous load called contended", statistics.fmean(s == "contended" for s in states or [""]), 0.9
    )
    # A load on one CPU of many leaves the others: only where it is a good part of the machine must the result be contended.
    if (os.cpu_count() or 1) <= 2:
        met = met and good
    return {"met": met, "lines": [*lines, line], "shifts": shifts}
