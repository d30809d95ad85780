"""Plans a second on one core, and how long the whole space of a question takes, beside peers that pip can install.

    python benchmarks/speed                                   the product alone
    python benchmarks/speed --peer-python venv/bin/python     also llm-analysis, installed in another environment (pip install llm-analysis)

Calculon's space of gpt-13b on 64 devices has 276,032 executions (its ``llm-optimal-execution``, batch 512). As many plans are priced here:
the legal space of the same question with the batch open, then with batches of ``BATCHES``. Each run prices a fresh table in a process
that is warm (curves cached); the best of ``--repeats`` counts, since whatever else runs only slows it. One thread: the BLAS is told so.

Calculon itself is not on PyPI (the package of that name is another program), so pip cannot bring it here.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402

from advisor.cost.price import price  # noqa: E402
from advisor.hardware.spec import parse_spec  # noqa: E402
from advisor.hardware.topology import platform_for  # noqa: E402
from advisor.model.registry import model  # noqa: E402
from advisor.plan.records import Workload  # noqa: E402
from advisor.search.analytic import rank  # noqa: E402
from advisor.search.space import context_for, enumerate_plans  # noqa: E402
from advisor.usecases.calibration import load_calibration  # noqa: E402

MODEL, HARDWARE, SEQ = "gpt-13b", "64xa100-sxm4-80gb", 2048
CALCULON_SPACE = 276_032
#: Global batches, None for an open one, until the spaces together hold as many plans as Calculon's.
BATCHES: tuple[int | None, ...] = (None, 512, 1024, 2048, 4096)
BAR_RATE, BAR_SECONDS = 100_000.0, 5.0
PEER = Path(__file__).with_name("llm_analysis_peer.py")


@dataclass(frozen=True)
class Measured:
    """Plans and the seconds they took."""

    plans: int
    seconds: float

    @property
    def rate(self) -> float:
        """Plans a second."""
        return self.plans / self.seconds


def scoring(repeats: int) -> Measured:
    """Return the best of ``repeats`` pricings of the space with an open batch."""
    known, workload = load_calibration(), Workload(task="train", seq_len=SEQ, global_batch=None)
    platform = platform_for(parse_spec(HARDWARE))
    network = model(MODEL)
    plans = enumerate_plans(context_for(network, workload, platform))
    took = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        price(network, workload, platform, plans, known)
        took.append(time.perf_counter() - start)
    return Measured(len(plans), min(took[1:]))


def whole_search(repeats: int) -> Measured:
    """Return the best of ``repeats`` searches: enumerated, priced and ordered, as many plans as Calculon's space holds."""
    known, platform, network = load_calibration(), platform_for(parse_spec(HARDWARE)), model(MODEL)
    found = []
    for _ in range(repeats):
        start, plans = time.perf_counter(), 0
        for batch in BATCHES:
            if plans >= CALCULON_SPACE:
                break
            plans += len(rank(network, Workload(task="train", seq_len=SEQ, global_batch=batch), platform, known).plans)
        found.append(Measured(plans, time.perf_counter() - start))
    return min(found, key=lambda m: m.seconds / m.plans)


def peer(python: str, points: int) -> Measured | str:
    """Return what llm-analysis takes under another interpreter, or why it cannot be told."""
    try:
        done = subprocess.run([python, str(PEER), str(points)], capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no output"])[-1]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    return Measured(int(told["points"]), float(told["seconds"]))


def main() -> int:
    """Print the table; exit 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-python", metavar="PATH", help="interpreter of an environment with llm-analysis")
    parser.add_argument("--peer-points", type=int, default=200, help="points that the peer prices")
    options = parser.parse_args()
    scored, searched = scoring(options.repeats), whole_search(options.repeats)
    print(f"{MODEL} on {HARDWARE}, sequences of {SEQ}, one core")
    print(f"{'scored':34} {scored.plans:>9,} plans {scored.seconds:8.2f} s {scored.rate:>12,.0f} plans/s (bar {BAR_RATE:,.0f})")
    print(f"{'enumerated, scored, ordered':34} {searched.plans:>9,} plans {searched.seconds:8.2f} s {searched.rate:>12,.0f} plans/s")
    whole = searched.seconds * CALCULON_SPACE / searched.plans
    print(f"{'of these, as many as Calculon has':34} {CALCULON_SPACE:>9,} plans {whole:8.2f} s (bar {BAR_SECONDS:.0f} s)")
    if options.peer_python:
        told = peer(options.peer_python, options.peer_points)
        if isinstance(told, str):
            print(f"{'llm-analysis':34} {told}")
        else:
            print(f"{'llm-analysis':34} {told.plans:>9,} plans {told.seconds:8.2f} s {told.rate:>12,.0f} plans/s")
            print(f"{'':34} {CALCULON_SPACE:>9,} would take {CALCULON_SPACE / told.rate:,.0f} s")
    else:
        print(f"{'llm-analysis':34} not asked: --peer-python PATH")
    print(f"{'Calculon':34} not on PyPI under its name")
    return 0 if scored.rate >= BAR_RATE and whole <= BAR_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
