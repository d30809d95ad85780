"""Does the ratio of two variants repeat? Five runs; in each, both variants of every pair are measured in the same interleaved rounds.

A pair is two variants of one case: kernels of one backend (a weight that is constant or not, one attention kernel or another), or one
and the same product through two backends. The bar: a coefficient of variation of at most 3 % over the runs, for 90 % of the pairs.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from common import present, run, say, verdict

from advisor.bench.records import BenchSpec
from microbench.protocol import Measurement

RUN_S = 200.0
CV_BAR, SHARE_BAR = 0.03, 0.90
VARIANTS = {"gemm": "weight", "attention": "kernel", "bandwidth": "operation"}
#: One thread count and fp32 alone: enough pairs (about 60), each with some seconds.
BENCHMARKS = ("gemm", "attention")


def case_of(m: Measurement) -> str:
    """Return the case without its variant: what the two of a pair share."""
    params = {name: value for name, value in m.params.items() if name != VARIANTS[m.benchmark]}
    return repr([m.benchmark, m.dtype, sorted(params.items())])


def pairs(found: dict[str, Measurement]) -> list[tuple[str, str]]:
    """Return the pairs of measured cases that share all but the variant or the backend."""
    groups: dict[str, list[str]] = {}
    for name, m in found.items():
        if m.status == "ok" and m.value:
            groups.setdefault(case_of(m), []).append(name)
    return [pair for names in groups.values() for pair in itertools.pairwise(names)]


def ratio(a: Measurement, b: Measurement) -> float | None:
    """Return a over b: the median over the rounds of the ratio within a round, where every round of both counted.

    What a process does to both, such as where its pages lie, then cancels.
    """
    ours, theirs = (m.conditions.get("round_values") or [] for m in (a, b))
    if len(ours) == len(theirs) > 1:
        return statistics.median(x / y for x, y in zip(ours, theirs, strict=True))
    return a.value / b.value if a.value and b.value else None


def measure(scale: float = 1.0, backends: Sequence[str] | None = None, runs: int = 5) -> dict[str, Any]:
    """Return the coefficient of variation of every pair's ratio, and the share under the bar."""
    spec = BenchSpec(
        benchmarks=BENCHMARKS, backends=present(backends), dtypes=("fp32",), quick=True, rounds=3, budget_s=max(6.0, RUN_S * scale)
    )
    results = [run(spec, f"run {number + 1} of {runs}") for number in range(runs)]
    rows = []
    for one, two in pairs(results[0]):
        both = [(r[one], r[two]) for r in results if one in r and two in r and r[one].status == r[two].status == "ok"]
        ratios = [value for a, b in both if (value := ratio(a, b)) is not None]
        if len(ratios) == runs:
            rows.append({"a": one, "b": two, "ratios": ratios, "cv": statistics.stdev(ratios) / statistics.fmean(ratios)})
    if not rows:
        return {"met": False, "lines": ["no pair was undisturbed in every run: is the machine quiet?"], "pairs": []}
    for row in sorted(rows, key=lambda item: -item["cv"])[:5]:
        say(f"widest: {row['cv']:.1%} {row['a']} / {row['b']}")
    met, line = verdict(f"pairs whose ratio repeats within {CV_BAR:.0%}", statistics.fmean(row["cv"] <= CV_BAR for row in rows), SHARE_BAR)
    middle = statistics.median(row["cv"] for row in rows)
    contended = sum(m.status == "contended" for r in results for m in r.values())
    return {"met": met, "lines": [line, f"median {middle:.1%} over {len(rows)} pairs; {contended} contended measurements"], "pairs": rows}
