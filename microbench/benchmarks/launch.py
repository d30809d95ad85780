"""Launch: what a call and an operator cost beside their arithmetic.

A chain of tiny matrix products, each of the one before, so that nothing can be fused away or run at once. ``operators`` = 1 is the cost of
one call into the framework; the slope over longer chains is the cost of one more operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from microbench.plugin import Benchmark
from microbench.protocol import Case
from microbench.reference import WrongResult, generator, largest_error, round_to, sum_tolerance

SIZE = 8
LENGTHS = (1, 16, 256)


def cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return chains of one and of many operators."""
    return [{"operators": length, "size": SIZE} for length in (LENGTHS[:2] if plan.get("quick") else LENGTHS)]


def work(params: Mapping[str, Any]) -> float:
    """Return operators of one call."""
    return float(params["operators"])


class LaunchProblem:
    """x and a rotation w: the product of any number of them stays of size one."""

    work = 1.0

    def __init__(self, case: Case, seed: int) -> None:
        self.length, size = int(case.params["operators"]), int(case.params["size"])
        rng = generator(seed, "launch", size)
        self.dtype = case.dtype
        wide = np.float64 if case.dtype == "fp64" else np.float32
        w, _ = np.linalg.qr(rng.standard_normal((size, size)))
        x = rng.standard_normal((size, size))
        self.inputs = {"x": round_to(x.astype(wide), case.dtype), "w": round_to(w.astype(wide), case.dtype), "operators": self.length}

    def check(self, result: Any) -> float:
        """Compare with the same chain in float64; each product rounds once."""
        want = self.inputs["x"].astype(np.float64)
        for _ in range(self.length):
            want = want @ self.inputs["w"].astype(np.float64)
        error = largest_error(np.asarray(result), want)
        tolerance = sum_tolerance(self.dtype, SIZE * self.length)
        if not error <= tolerance:
            raise WrongResult(f"relative error {error:.2g} after {self.length} products, {tolerance:.2g} is allowed", error)
        return error


def problem(case: Case, seed: int) -> LaunchProblem:
    """Return the inputs and the reference of ``case``."""
    return LaunchProblem(case, seed)


BENCHMARK = Benchmark(
    name="launch",
    title="cost of a call and of an operator beside their arithmetic",
    metric="seconds",
    unit="s",
    cases=cases,
    work=work,
    problem=problem,
    nominal_rate=1e5,
)
