"""Collectives between processes and data loading: right results, and helpers' CPU time counted as ours."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time

import numpy as np
import pytest

from microbench import conditions
from microbench.benchmarks import collective, dataload
from microbench.protocol import Case, Request
from microbench.reference import WrongResult


def run(backend, cases):
    request = Request(backend=backend, device="cpu", threads=2, cases=tuple(cases), budget_s=60.0, quick=True, options={"max_samples": 3})
    done = subprocess.run(
        [sys.executable, "-m", "microbench"], input=json.dumps(dataclasses.asdict(request)), capture_output=True, text=True, timeout=180
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == len(request.cases), done.stderr[-2000:]
    return rows


def test_collectives_are_right_and_say_their_transport():
    pytest.importorskip("torch")
    cases = [
        Case(benchmark="collective", dtype="fp32", params={"operation": name, "ranks": 2, "bytes": 4096})
        for name in ("all_reduce", "all_to_all")
    ]
    for row in run("torch", cases):
        assert row["status"] in ("ok", "contended"), row
        assert (row["metric"], row["conditions"]["transport"]) == ("bytes_per_s", "gloo")


def test_bus_bandwidth_factors_are_those_of_nccl_tests():
    assert collective.work({"operation": "all_reduce", "ranks": 4, "bytes": 1000}) == 1500
    assert collective.work({"operation": "all_gather", "ranks": 4, "bytes": 1000}) == 750


@pytest.mark.parametrize("operation", collective.OPERATIONS)
def test_the_reference_of_a_collective_tells_a_missing_rank(operation):
    params = {"operation": operation, "ranks": 2, "bytes": 64}
    problem = collective.problem(Case(benchmark="collective", dtype="fp32", params=params), 4)
    parts = [collective.rank_inputs(params, rank, 4) for rank in range(2)]
    half = len(parts[0]) // 2
    right = {
        "all_reduce": parts[0] + parts[1],
        "all_gather": np.concatenate(parts),
        "reduce_scatter": (parts[0] + parts[1])[:half],
        "all_to_all": np.concatenate([parts[0][:half], parts[1][:half]]),
    }[operation]
    assert problem.check(right) < 1e-6
    lonely = right.copy()
    lonely[-1] = parts[0][-1]
    with pytest.raises(WrongResult):
        problem.check(lonely)


def test_every_format_loads_the_same_samples():
    cases = [
        Case(benchmark="dataload", dtype="fp32", params={"workers": workers, "samples": 8, "sample_bytes": 4096, "format": kind})
        for workers, kind in ((0, "files"), (0, "tar"), (0, "memmap"), (2, "files"))
    ]
    for row in run("numpy", cases):
        assert row["status"] in ("ok", "contended"), row
        assert row["unit"] == "samples/s"


def test_samples_out_of_order_are_wrong():
    problem = dataload.problem(Case(benchmark="dataload", dtype="fp32", params={"workers": 0, "samples": 8, "sample_bytes": 512}), 1)
    assert problem.check(problem.sums) == 0.0
    with pytest.raises(WrongResult):
        problem.check(problem.sums[::-1])


def test_cpu_time_of_helpers_is_ours():
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        conditions.helpers.add(other.pid)
        before = conditions.helpers_s()
        deadline = time.monotonic() + 20
        while conditions.helpers_s() < before + 0.05 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert conditions.helpers_s() >= before + 0.05
    finally:
        other.kill()
        other.wait()
    conditions.helpers_s()
    assert other.pid not in conditions.helpers
