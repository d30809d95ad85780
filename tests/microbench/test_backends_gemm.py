"""Every backend that is installed gives right results in every dtype it states, and says what it cannot do."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from microbench.plugin import backends
from microbench.protocol import Case, Request

GEMM = {"m": 48, "n": 64, "k": 96}
ATTENTION = {"batch": 1, "heads": 4, "kv_heads": 2, "query": 32, "keys": 32, "head_dim": 32, "causal": True}
DECODE = {**ATTENTION, "query": 1, "keys": 80}
CHAIN = {"operators": 5, "size": 8}
TRIAD = {"operation": "triad", "level": "L2", "bytes": 3 * 65536}


def measure(backend, cases, *, threads=2, budget=60.0, env=None, **fields):
    request = Request(
        backend=str(backend),
        device="cpu",
        threads=threads,
        cases=tuple(cases),
        budget_s=budget,
        quick=True,
        options={"max_samples": 3},
        **fields,
    )
    done = subprocess.run(
        [sys.executable, "-m", "microbench"],
        input=json.dumps(dataclasses.asdict(request)),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(env or {})},
    )
    # Variants of one case come twice, the second time with more samples.
    rows = list({row.pop("case"): row for row in map(json.loads, done.stdout.splitlines())}.values())
    return rows, done


def planned(backend):
    cases = []
    for benchmark, shapes in {"gemm": [GEMM], "attention": [ATTENTION, DECODE], "bandwidth": [TRIAD], "launch": [CHAIN]}.items():
        for dtype in backend.dtypes.get(benchmark, ()):
            variants = backend.variants.get(f"{benchmark}:{dtype}", backend.variants.get(benchmark, ()))
            key = {"gemm": "weight", "attention": "kernel"}.get(benchmark)
            for params in shapes:
                cases += [Case(benchmark=benchmark, dtype=dtype, params={**params, key: v} if key else params) for v in variants or (None,)]
    return cases


FRAMEWORKS = ["numpy", "native", "torch", "jax", "onnxruntime", "openvino", "tensorflow", "tensorflow-xla", "litert", "tvm", "executorch",
              "mindspore", "tensorrt", "triton"]  # fmt: skip


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_all_that_a_backend_states_is_right(name):
    backend = backends()[name]
    if not backend.present:
        pytest.skip(backend.missing())
    cases = planned(backend)
    rows, done = measure(name, cases)
    assert len(rows) == len(cases), done.stderr[-2000:]
    for case, row in zip(cases, rows, strict=True):
        assert row["params"] == {**case.params, "threads": 2}
        # XLA has no fp16 attention on some CPUs and says so; no state but these is acceptable on a busy machine either.
        assert row["status"] in ("ok", "contended", "unsupported"), row
        if row["status"] != "unsupported":
            assert row["run_low"] <= row["value"] <= row["run_high"]
            assert row["samples"] >= 3
            assert len(row["sample_seconds"]) == row["samples"]
            assert row["max_error"] is not None
            assert row["backend_version"]
    measured = {(row["benchmark"], row["dtype"]) for row in rows if row["status"] != "unsupported"}
    assert {("gemm", "fp32")} <= measured
    assert sum(row["status"] == "unsupported" for row in rows) <= len(rows) // 2


def test_what_a_backend_lacks_is_unsupported_with_a_reason():
    cases = [Case(benchmark="gemm", dtype="bf16", params=GEMM), Case(benchmark="gemm", dtype="fp32", params=GEMM)]
    rows, _ = measure("numpy", cases)
    assert [row["status"] in ("ok", "contended") for row in rows] == [False, True]
    assert rows[0]["status"] == "unsupported"
    assert "bf16" in rows[0]["reason"]


def test_thread_variables_are_set_before_the_import_and_recorded():
    rows, _ = measure("numpy", [Case(benchmark="gemm", dtype="fp32", params=GEMM)], threads=1)
    assert rows[0]["conditions"]["environment"]["OPENBLAS_NUM_THREADS"] == "1"
    assert rows[0]["conditions"]["cache"] == "hot"


def test_a_bad_request_is_refused_in_one_line():
    done = subprocess.run([sys.executable, "-m", "microbench"], input="[1]", capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
