"""What this machine does: kernels as ``advisor bench --quick`` measures them, then whole networks, all into one database."""

from __future__ import annotations

import sys
from pathlib import Path

from advisor.bench.records import Progress
from advisor.usecases.bench import bench
from benchmarks.cpu_truth.cases import BACKENDS, networks

KERNELS = ("gemm", "attention", "bandwidth", "launch")
#: Seconds for all whole networks: about four for each case and round.
MODEL_BUDGET_S = 900.0


def _say(progress: Progress) -> None:
    print(f"  {progress.label}: {progress.done} of {progress.total}, about {progress.seconds_left:.0f} s left", file=sys.stderr, flush=True)


def url_of(database: Path) -> str:
    """Return the database's URL."""
    return f"sqlite:///{database}"


def measure_kernels(database: Path) -> int:
    """Run the quick bench in fp32, and its int8 products; return how many measurements that gave."""
    wanted = ((KERNELS, ("fp32",)), (("gemm",), ("int8",)))
    return sum(
        len(bench(names, backends=BACKENDS, dtypes=dtypes, device="cpu0", quick=True, database_url=url_of(database), on_progress=_say))
        for names, dtypes in wanted
    )


def measure_networks(database: Path, budget_s: float = MODEL_BUDGET_S) -> int:
    """Measure the whole networks and return how many measurements there are."""
    found = bench(
        ("model",),
        backends=BACKENDS,
        dtypes=("fp32",),
        device="cpu0",
        networks=networks(),
        quick=True,
        budget_s=budget_s,
        database_url=url_of(database),
        on_progress=_say,
    )
    return len(found)
