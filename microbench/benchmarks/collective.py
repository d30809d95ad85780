"""Collectives between ranks: all-reduce, all-gather, reduce-scatter, all-to-all, send to the next in a ring, as bus bandwidth.

As nccl-tests define it: bytes of the whole buffer over time, times the part of it that must cross the slowest link: 2 (n - 1) / n for
an all-reduce, (n - 1) / n for the next three, 1 for send_recv. Small sizes show the latency: ``value`` over ``bytes`` is its inverse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from microbench import conditions
from microbench.plugin import Benchmark
from microbench.protocol import Case
from microbench.reference import WrongResult, generator, largest_error, sum_tolerance, uniform

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 24)
MAX_RANKS = 8
#: Between accelerators their number is not known here: what there are too few of is said by the backend.
DEVICE_RANKS = (2, 4, 8)


def cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return sizes for each operation between as many ranks as there are CPUs (at least two, at most eight), or between devices."""
    counts: tuple[int, ...] = (min(MAX_RANKS, max(2, int(plan.get("threads") or conditions.cpus_in_use()))),)
    if not str(plan.get("device") or "cpu").startswith("cpu"):
        counts = DEVICE_RANKS
    rows = [
        {"operation": name, "ranks": ranks, "bytes": size // (4 * ranks) * 4 * ranks}
        for ranks in counts
        for name in OPERATIONS
        for size in SIZES
    ]
    if plan.get("quick"):
        rows = [row for row in rows if row["operation"] == "all_reduce" or row["bytes"] >= 1 << 23]
    return sorted(rows, key=work)


def work(params: Mapping[str, Any]) -> float:
    """Return the bytes that cross the slowest link."""
    ranks = params["ranks"]
    if params["operation"] == "send_recv":
        return float(params["bytes"])
    return params["bytes"] * (ranks - 1) / ranks * (2 if params["operation"] == "all_reduce" else 1)


def rank_inputs(params: Mapping[str, Any], rank: int, seed: int) -> np.ndarray:
    """Return what a rank contributes: the whole buffer, or its share of it for an all-gather."""
    count = params["bytes"] // 4 // (params["ranks"] if params["operation"] == "all_gather" else 1)
    return uniform(generator(seed, "collective", rank), (count,), "fp32")


class CollectiveProblem:
    """What every rank contributes, and what rank 0 must end up with."""

    def __init__(self, case: Case, seed: int) -> None:
        self.params, self.seed, self.work = case.params, seed, work(case.params)
        if case.params["operation"] not in OPERATIONS:
            raise ValueError(f"unknown operation {case.params['operation']!r}")
        self.inputs = {"x": rank_inputs(case.params, 0, seed), "seed": seed}

    def check(self, result: Any) -> float:
        """Compare rank 0's result with that of float64."""
        ranks = self.params["ranks"]
        parts = [rank_inputs(self.params, rank, self.seed).astype(np.float64) for rank in range(ranks)]
        count = len(parts[0]) // ranks
        operation = self.params["operation"]
        if operation == "all_gather":
            want = np.concatenate(parts)
        elif operation == "send_recv":
            want = parts[-1]
        elif operation == "all_to_all":
            want = np.concatenate([part[:count] for part in parts])
        else:
            want = np.sum(parts, axis=0)
            want = want[:count] if operation == "reduce_scatter" else want
        error = largest_error(np.asarray(result), want)
        tolerance = sum_tolerance("fp32", ranks)
        if not error <= tolerance:
            raise WrongResult(f"relative error {error:.2g} after {operation}, {tolerance:.2g} is allowed", error)
        return error


def problem(case: Case, seed: int) -> CollectiveProblem:
    """Return the inputs and the reference of ``case``."""
    return CollectiveProblem(case, seed)


BENCHMARK = Benchmark(
    name="collective",
    title="all-reduce, all-gather, reduce-scatter, all-to-all, send: bus bandwidth",
    metric="bytes_per_s",
    unit="B/s",
    cases=cases,
    work=work,
    problem=problem,
    nominal_rate=1e7,
    # Each starts its processes anew.
    shares=4.0,
    threads="never-one",
)
