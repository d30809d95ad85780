"""Collectives between processes and data loading: right results, and helpers' CPU time counted as ours."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microbench import conditions
from microbench.benchmarks import bandwidth, collective, dataload
from microbench.plan import requests, thread_counts
from microbench.plugin import Unsupported, backends
from microbench.protocol import Case, Request
from microbench.reference import WrongResult


def run(backend, cases):
    request = Request(backend=backend, device="cpu", threads=2, cases=tuple(cases), budget_s=60.0, quick=True, options={"max_samples": 3})
    done = subprocess.run(
        [sys.executable, "-m", "microbench"], input=json.dumps(dataclasses.asdict(request)), capture_output=True, text=True, timeout=180
    )
    # Variants of one case come twice, the second time with more samples.
    rows = list({row.pop("case"): row for row in map(json.loads, done.stdout.splitlines())}.values())
    assert len(rows) == len(request.cases), done.stderr[-2000:]
    return rows


@pytest.mark.parametrize(("backend", "transport"), [("torch", "gloo"), ("jax-mesh", "xla:cpu")])
def test_collectives_are_right_and_say_their_transport(backend, transport):
    pytest.importorskip(backends()[backend].module)
    # Each of torch's has a group of processes of its own, which takes seconds to start.
    wanted = collective.OPERATIONS if backend == "jax-mesh" else ("all_reduce", "send_recv")
    cases = [Case(benchmark="collective", dtype="fp32", params={"operation": name, "ranks": 2, "bytes": 4096}) for name in wanted]
    cases.append(Case(benchmark="collective", dtype="fp32", params={"operation": "all_reduce", "ranks": 64, "bytes": 4096}))
    rows = run(backend, cases if backend == "jax-mesh" else cases[:-1])
    for row in rows[: len(wanted)]:
        assert row["status"] in ("ok", "contended"), row
        assert (row["metric"], row["conditions"]["transport"]) == ("bytes_per_s", transport)
    if backend == "jax-mesh":
        assert (rows[-1]["status"], "64 ranks" in rows[-1]["reason"]) == ("unsupported", True)


def test_bus_bandwidth_factors_are_those_of_nccl_tests():
    assert collective.work({"operation": "all_reduce", "ranks": 4, "bytes": 1000}) == 1500
    assert collective.work({"operation": "all_gather", "ranks": 4, "bytes": 1000}) == 750
    assert collective.work({"operation": "send_recv", "ranks": 4, "bytes": 1000}) == 1000


def test_collectives_between_devices_are_planned_for_several_counts():
    assert {row["ranks"] for row in collective.cases({"device": "cuda:0", "threads": 16, "quick": True})} == {2, 4, 8}
    assert {row["ranks"] for row in collective.cases({"device": "cpu", "threads": 16, "quick": True})} == {8}


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
        "send_recv": parts[1].copy(),
    }[operation]
    assert problem.check(right) < 1e-6
    lonely = right.copy()
    lonely[-1] = parts[0][-1]
    with pytest.raises(WrongResult):
        problem.check(lonely)


FORMATS = {"numpy": ("files", "tar", "memmap"), "torch": ("files", "tar", "memmap"), "lmdb": ("lmdb",), "tables": ("arrow",)}


@pytest.mark.parametrize("backend", FORMATS)
def test_every_format_loads_the_same_samples_with_and_without_workers(backend):
    pytest.importorskip(backends()[backend].module)
    cases = [
        Case(
            benchmark="dataload",
            dtype="fp32",
            params={"workers": workers, "samples": 9, "sample_bytes": 8192, "stage": stage, "format": kind},
        )
        for workers, stage in ((0, "read"), (2, "decode"))
        for kind in FORMATS[backend]
    ]
    for row in run(backend, cases):
        assert row["status"] in ("ok", "contended"), row
        assert row["unit"] == "samples/s"
        assert row["max_error"] is not None


def test_samples_out_of_order_are_wrong():
    for stage in dataload.STAGES:
        params = {"workers": 0, "samples": 8, "sample_bytes": 512, "stage": stage}
        problem = dataload.problem(Case(benchmark="dataload", dtype="fp32", params=params), 1)
        assert problem.check(problem.sums) == 0.0
        with pytest.raises(WrongResult):
            problem.check(problem.sums[::-1])


@given(st.integers(1, 200), st.integers(1, 20))
def test_shards_hold_every_sample_once_in_order(count, shards):
    assert [index for number in range(shards) for index in dataload.shard_range(count, shards, number)] == list(range(count))


def test_worker_counts_go_in_powers_of_two_up_to_all():
    full = dataload.cases({"threads": 12, "quick": False})
    assert sorted({row["workers"] for row in full}) == [0, 1, 2, 4, 8, 12]
    assert {row["workers"] for row in dataload.cases({"threads": 12, "quick": True})} == {0, 12}
    assert {row["stage"] for row in full} == {"read", "decode"}


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


def test_a_file_is_read_past_the_page_cache_or_the_reason_is_said():
    (row,) = run("posix", [Case(benchmark="bandwidth", dtype="fp32", params={"operation": "read", "level": "disk", "bytes": 5_000_000})])
    if row["status"] == "unsupported":
        assert "memory" in row["reason"] or "page cache" in row["reason"]
        return
    assert row["status"] in ("ok", "contended"), row
    assert row["max_error"] == 0.0
    assert isinstance(row["conditions"]["direct"], bool)
    assert row["conditions"]["cache"] == "cold"


def test_only_the_backend_that_reads_files_is_asked_to():
    planned = requests({"benchmarks": ["bandwidth"], "backends": ["numpy", "posix"], "quick": True, "threads": 2})
    operations = {(r.backend, case.params["operation"]) for r in planned for case in r.cases}
    assert operations == {("numpy", name) for name in ("copy", "scale", "triad")} | {("posix", "read")}


def test_bandwidth_is_swept_over_threads_where_there_is_time():
    assert thread_counts(12, quick=False) == [12, 1, 2, 4, 8]
    assert thread_counts(12, quick=True) == [12, 1]
    assert thread_counts(1, quick=False) == [1]
    planned = requests({"benchmarks": ["bandwidth", "gemm"], "backends": ["numpy"], "threads": 8})
    by_count = {r.threads: {case.benchmark for case in r.cases} for r in planned}
    assert by_count == {8: {"bandwidth", "gemm"}, 1: {"bandwidth", "gemm"}, 2: {"bandwidth"}, 4: {"bandwidth"}}


def test_an_accelerator_is_asked_for_its_memory_and_its_link_and_not_for_the_hosts_caches():
    planned = requests({"benchmarks": ["bandwidth"], "backends": ["torch", "jax"], "quick": True, "threads": 2, "device": "cuda:0"})
    levels = {(r.backend, case.params["level"], case.params["operation"]) for r in planned for case in r.cases}
    assert {level for _, level, _ in levels} == {"memory", "link"}
    assert {name for _, level, name in levels if level == "link"} == {"h2d", "d2h"}
    assert {backend for backend, level, _ in levels if level == "link"} == {"torch"}


def test_scarce_memory_does_not_turn_the_memory_level_into_a_cache():
    rows = bandwidth.cases({"caches": {"2": 1 << 20, "3": 32 << 20}, "memory_bytes": 64 << 20, "quick": True})
    assert {row["bytes"] // bandwidth.ARRAYS[row["operation"]] for row in rows if row["level"] == "memory"} == {64 << 20}
    huge = {"operation": "triad", "level": "memory", "bytes": 3 << 44}
    with pytest.raises(Unsupported, match="MiB are available"):
        bandwidth.problem(Case(benchmark="bandwidth", dtype="fp32", params=huge), 0)
