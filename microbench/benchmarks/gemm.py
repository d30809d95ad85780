"""GEMM: C (m x n) = A (m x k) B (k x n), square, skinny as in the layers of language models, and any shapes given.

``weight`` tells how B comes: ``dynamic``, an operand like any other, or ``constant``, known when the kernel is made ready, so that
a backend may repack it (a layer's weight at inference). Operands are hot: the same memory is used by every call, so what fits a
cache is in it; a weight larger than the last cache is read from memory each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from microbench.plugin import Benchmark
from microbench.protocol import Case
from microbench.reference import WrongResult, generator, largest_error, sum_tolerance, uniform

SQUARES = (256, 512, 1024, 2048, 4096)
SKINNY_M = (1, 8, 64, 512)
#: k x n of the projections of a 7-billion-parameter llama: attention (4096 x 4096) and MLP (4096 x 11008).
SKINNY_WEIGHTS = ((4096, 4096), (4096, 11008))
#: Columns of a large product that are compared with float64, at both edges and at random between.
CHECKED_COLUMNS = 48


def work(params: Mapping[str, Any]) -> float:
    """Return FLOPs of one call: 2 m n k, a multiply and an add each."""
    return 2.0 * params["m"] * params["n"] * params["k"]


def cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the shapes to measure, least work first: ``plan["shapes"]`` (lists of m, n, k), else squares and skinny ones.

    A quick plan stops at 2048, takes one width of weights, and gives dtypes other than fp32 four shapes that tell regimes apart.
    """
    shapes = [(int(m), int(n), int(k)) for m, n, k in plan.get("shapes") or ()]
    if not shapes and plan.get("quick") and plan.get("dtype", "fp32") != "fp32":
        shapes = [(512, 512, 512), (2048, 2048, 2048)] + [(m, n, k) for k, n in SKINNY_WEIGHTS[:1] for m in (1, 64)]
    elif not shapes:
        shapes = [(size, size, size) for size in SQUARES if size <= (2048 if plan.get("quick") else 4096)]
        shapes += [(m, n, k) for k, n in (SKINNY_WEIGHTS[:1] if plan.get("quick") else SKINNY_WEIGHTS) for m in SKINNY_M]
    unique = sorted(dict.fromkeys(shapes), key=lambda s: s[0] * s[1] * s[2])
    return [{"m": m, "n": n, "k": k} for m, n, k in unique]


class GemmProblem:
    """A and B from the seed, and the reference of chosen columns of their product."""

    def __init__(self, case: Case, seed: int) -> None:
        m, n, k = (int(case.params[name]) for name in ("m", "n", "k"))
        self.dtype, self.k = case.dtype, k
        self.work = work(case.params)
        rng = generator(seed, "gemm", m, n, k)
        self.inputs = {"a": uniform(rng, (m, k), case.dtype), "b": uniform(rng, (k, n), case.dtype)}
        count = min(n, CHECKED_COLUMNS)
        self.columns = np.unique(np.concatenate([np.arange(min(n, 8)), np.arange(max(0, n - 8), n), rng.integers(0, n, count)]))
        self._shape = (m, n)

    def check(self, result: Any) -> float:
        """Compare chosen columns with float64 (exact integers for int8); every element must be finite.

        The error is relative to the root mean square of the reference.
        """
        got = np.asarray(result)
        if got.shape != self._shape:
            raise WrongResult(f"the result has shape {got.shape}, not {self._shape}", float("inf"))
        if got.dtype.kind == "f" and not np.isfinite(got).all():
            raise WrongResult("part of the result was not written (NaN or infinite)", float("inf"))
        exact = self.inputs["a"].astype(np.float64) @ self.inputs["b"][:, self.columns].astype(np.float64)
        error = largest_error(got[:, self.columns], exact)
        tolerance = sum_tolerance(self.dtype, self.k)
        if not error <= tolerance:
            raise WrongResult(f"relative error {error:.2g}, tolerance of {self.dtype} with k={self.k} is {tolerance:.2g}", error)
        return error


def problem(case: Case, seed: int) -> GemmProblem:
    """Return the inputs and the reference of ``case``."""
    return GemmProblem(case, seed)


BENCHMARK = Benchmark(
    name="gemm",
    title="matrix product, square and as in the layers of language models",
    metric="flops_per_s",
    unit="FLOP/s",
    cases=cases,
    work=work,
    problem=problem,
    nominal_rate=50e9,
    variant="weight",
)
