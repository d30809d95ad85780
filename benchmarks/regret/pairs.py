"""Two plans measured again in turns: pairs of fresh processes in alternating order, and what their ratio is worth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from advisor.plan.records import Plan
from advisor.usecases.question import resolve
from benchmarks.regret.table import append, measure, read, score
from benchmarks.regret.tasks import Task, key

PAIRS = 9
BUDGET_S = 8.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """The score of a plan over another's: median of the pairs and its one-sided 95 % bounds."""

    median: float
    low: float
    high: float
    pairs: int


def compared(task: Task, plan: Plan, best: Plan, path: Path, say: Callable[[str], None], wanted: int = PAIRS) -> Ratio:
    """Return the ratio of ``plan`` to ``best``; the same plan is 1 by identity. Pairs at ``path`` are not measured again."""
    if key(plan) == key(best):
        return Ratio(1.0, 1.0, 1.0, 0)
    question = resolve(task.request)
    names = [list(key(plan)), list(key(best))]
    ratios = [row["ratio"] for row in read(path) if row["plans"] == names]
    while len(ratios) < wanted:
        order = (plan, best) if len(ratios) % 2 == 0 else (best, plan)
        scores = {id(p): score(task, measure(question, p, BUDGET_S)) for p in order}
        ratio = scores[id(plan)] / scores[id(best)]
        if not math.isfinite(ratio) or ratio <= 0:
            raise RuntimeError(f"{task.name}: a plan that was measured before failed now: {names}")
        append(path, {"plans": names, "ratio": ratio, "scores": [scores[id(plan)], scores[id(best)]]})
        ratios.append(ratio)
        say(f"{task.name} pair {len(ratios)}/{wanted}: {ratio:.3f}")
    return summed(ratios)


def summed(ratios: list[float]) -> Ratio:
    """Return the median with its one-sided 95 % bounds by order statistics: no distribution is assumed.

    The k-th smallest of n lies above the median with probability sum over i < k of C(n, i) / 2^n: k is the largest for which that is at
    most 5 %.
    """
    ordered, n = sorted(ratios), len(ratios)
    k, chance = 0, 1 / 2**n
    while chance <= 0.05 and k < n // 2:
        k += 1
        chance += math.comb(n, k) / 2**n
    low = ordered[k - 1] if k else ordered[0]
    high = ordered[n - k] if k else ordered[-1]
    return Ratio(statistics.median(ordered), low, high, n)
