"""advisor bench as a user types it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.bench.shapes import read_shapes, shapes_of
from advisor.errors import AdvisorError


@pytest.fixture
def run(tmp_path):
    def call(*arguments, **env):
        return subprocess.run(
            [sys.executable, "-c", "import sys; from advisor.cli.main import main; main(sys.argv[1:])", *arguments],
            capture_output=True,
            text=True,
            timeout=180,
            env={**os.environ, "ADVISOR_DB": f"sqlite:///{tmp_path / 'a.db'}", "ADVISOR_HOME": str(tmp_path), **env},
        )

    return call


def test_measure_store_and_compare(run, tmp_path):
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("shapes:\n- [32, 32, 32]\n- {m: 1, n: 64, k: 64}\n")
    arguments = ["bench", "gemm", "--backend", "numpy", "--dtype", "fp32", "--shapes", str(shapes), "--quick", "--budget", "6"]
    done = run(*arguments, "--json")
    assert done.returncode in (0, 3), done.stderr
    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert len(document["measurements"]) == 2
    for m in document["measurements"]:
        assert m["params"]["threads"] >= 1
        assert m["device"] == "cpu0"
        if m["status"] == "ok":
            assert m["low"] <= m["run_low"] <= m["value"] <= m["run_high"] <= m["high"]
    assert "round 2" in done.stderr
    (row,) = json.loads(run("results", "query", "--sql", "SELECT id FROM runs WHERE kind = 'bench'", "--format", "json").stdout)["rows"]
    name = row["id"] if isinstance(row, dict) else row[0]
    compared = run("bench", "compare", name, name, "--json")
    assert compared.returncode == 0, compared.stderr
    ok = sum(m["status"] == "ok" for m in document["measurements"])
    assert json.loads(compared.stdout)["verdicts"] == {"same": ok, "faster": 0, "slower": 0}


def test_tables_put_the_verdict_first_and_the_fastest_on_top(capsys):
    from advisor.report.bench import render_measurements

    def row(backend, value, status="ok"):
        params = {"m": 512, "n": 512, "k": 512, "weight": "dynamic", "threads": 2}
        return {"benchmark": "gemm", "backend": backend, "dtype": "fp32", "params": params, "metric": "flops_per_s", "value": value,
                "low": value and value * 0.9, "high": value and value * 1.1, "status": status, "reason": "why not"}  # fmt: skip

    render_measurements({"measurements": [row("slow", 1e9), row("fast", 2e9), row("absent", None, "unsupported")]})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 of 3 measurements are good"
    table = [line for line in lines if "512x512x512" in line and "-10" in line]
    assert [("fast" in line, "slow" in line) for line in table] == [(True, False), (False, True)]
    assert "2.0 GFLOP/s" in table[0]
    assert any("absent: unsupported x1: why not" in line for line in lines)


def test_list_names_benchmarks_backends_and_what_would_bring_them(run):
    document = json.loads(run("bench", "--list", "--json").stdout)
    assert {"gemm", "attention", "bandwidth", "model"} <= set(document["benchmarks"])
    assert {"numpy", "torch", "jax", "onnxruntime"} <= set(document["backends"])
    assert all(item["install"] for item in document["backends"].values())
    assert "installed" in run("bench", "--list").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["gem"], "UNKNOWN-BENCHMARK", 2),
        (["gemm", "--backend", "torh"], "UNKNOWN-BACKEND", 2),
        (["gemm", "--backend", "/nope.py"], "CANNOT-READ", 2),
        (["gemm", "--dtype", "fp31"], "UNKNOWN-DTYPE", 2),
        (["gemm", "--shapes", "/nope"], "CANNOT-READ", 2),
        (["gemm", "--shapes", "model:gpt-13bb"], "UNKNOWN-MODEL", 2),
        (["gemm", "--device", "cuda9"], "UNKNOWN-DEVICE", 2),
        (["gemm", "--budget", "0"], "BAD-BUDGET", 2),
        (["gemm", "--budget", "nan"], "BAD-BUDGET", 2),
        (["compare", "a"], "USAGE", 2),
        (["compare", "a", "b"], "UNKNOWN-RUN", 2),
    ],
)
def test_wrong_usage_is_one_line(run, arguments, code, status):
    done = run("bench", *arguments)
    assert done.returncode == status, done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(f"error[{code}]:")
    assert "Traceback" not in done.stderr


def test_nothing_measured_is_status_three(run):
    done = run("bench", "bandwidth", "--backend", "onnxruntime", "--dtype", "fp32", "--quick", "--budget", "5", "--json")
    assert done.returncode == 3
    assert {m["status"] for m in json.loads(done.stdout)["measurements"]} == {"unsupported"}


def test_shapes_of_models_are_their_products():
    from advisor.model.registry import model

    llama = shapes_of(model("llama-2-7b"), quick=True)
    assert (512, 4096, 11008) in llama
    assert {m for m, _, _ in llama} == {1, 512}
    # The first convolution of a ResNet: 112 x 112 positions, 64 channels, 3 x 7 x 7 inputs.
    assert (112 * 112, 64, 147) in shapes_of(model("resnet-50"), quick=True)


@settings(max_examples=60)
@given(
    st.one_of(
        st.binary(max_size=60), st.text(max_size=60).map(str.encode), st.just(b"[[1,2]]"), st.just(b"[[1,2,true]]"), st.just(b"[[1,-2,3]]")
    )
)
def test_a_shape_file_is_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("shapes") / "s"
    path.write_bytes(content)
    with contextlib.suppress(AdvisorError):
        assert all(len(shape) == 3 and min(shape) > 0 for shape in read_shapes(path))
