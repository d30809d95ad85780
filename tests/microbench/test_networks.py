"""One description, the same numbers in every framework; counts of work that match what is known."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from microbench.networks.forward import numpy_conv
from microbench.networks.weights import complete, flops, make_weights
from microbench.plugin import load_backend
from microbench.protocol import Case, Request

ENCODER = {"kind": "encoder", "layers": 2, "hidden": 32, "heads": 4, "ffn_hidden": 64, "vocab": 100, "max_seq": 24}
LLAMA = {**ENCODER, "kind": "decoder", "kv_heads": 2, "gated_mlp": True}
RESNET = {"kind": "resnet", "blocks": [1, 1], "width": 8, "classes": 10}
NETWORKS = [
    {"network": ENCODER, "batch": 2, "seq": 16, "mode": "infer"},
    {"network": LLAMA, "batch": 2, "seq": 16, "mode": "infer"},
    {"network": RESNET, "batch": 2, "resolution": 32, "mode": "infer"},
]
TRAINED = [{**NETWORKS[1], "mode": "train"}, {**NETWORKS[2], "mode": "train"}]


def run(backend, cases):
    request = Request(backend=backend, device="cpu", threads=1, cases=tuple(cases), budget_s=60.0, quick=True, options={"max_samples": 3})
    done = subprocess.run(
        [sys.executable, "-m", "microbench"], input=json.dumps(dataclasses.asdict(request)), capture_output=True, text=True, timeout=180
    )
    # Variants of one case come twice, the second time with more samples.
    rows = list({row.pop("case"): row for row in map(json.loads, done.stdout.splitlines())}.values())
    assert len(rows) == len(request.cases), done.stderr[-2000:]
    return rows


def case(params, execution, dtype="fp32", quantization="none"):
    return Case(benchmark="model", dtype=dtype, params={**params, "execution": execution, "quantization": quantization})


EXECUTIONS = [
    ("torch", "eager"), ("torch", "script"), ("jax", "jit"), ("onnxruntime", "graph"), ("openvino", "graph"), ("tensorflow", "graph"),
    ("litert", "graph"), ("tvm", "graph"), ("executorch", "graph"), ("mindspore", "eager"),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "execution"), EXECUTIONS)
def test_frameworks_agree_with_the_reference(backend, execution):
    if not load_backend(backend).present:
        pytest.skip(load_backend(backend).missing())
    # The llama layer is compiled once in JAX, in its training step.
    cases = [case(params, execution) for params in NETWORKS if backend != "jax" or params["network"] is not LLAMA]
    if execution in ("eager", "jit"):
        # XLA takes its time to compile a convolutional step: the torch one is checked against the same reference.
        cases += [case(params, execution) for params in TRAINED[: 2 if backend == "torch" else 1]]
    if backend != "jax":
        cases.append(case(NETWORKS[0], execution, quantization="int8-dynamic"))
    for row in run(backend, cases):
        assert row["status"] in ("ok", "contended", "unsupported"), row
        if row["params"]["quantization"] == "none":
            assert row["status"] != "unsupported", row
            assert row["max_error"] < 1e-4
            assert (row["metric"], row["unit"]) == ("seconds", "s")


def test_narrow_networks_are_less_exact_and_still_right():
    pytest.importorskip("torch")
    (row,) = run("torch", [case(NETWORKS[0], "eager", "bf16")])
    assert row["status"] in ("ok", "contended"), row
    assert 1e-4 < row["max_error"] < 0.08


def test_graph_levels_and_autocast_are_told_apart_and_right():
    pytest.importorskip("onnxruntime")
    levels = [case(NETWORKS[0], execution) for execution in ("graph", "graph-extended", "graph-basic", "graph-off")]
    assert {row["status"] for row in run("onnxruntime", levels)} <= {"ok", "contended"}
    pytest.importorskip("torch")
    narrow, wide = run("torch", [case(NETWORKS[0], "autocast", "bf16"), case(NETWORKS[0], "autocast", "fp32")])
    assert narrow["status"] in ("ok", "contended"), narrow
    assert 1e-4 < narrow["max_error"] < 0.08
    assert wide["status"] == "unsupported"


def test_what_cannot_be_done_is_unsupported():
    pytest.importorskip("onnxruntime")
    rows = run("onnxruntime", [case(TRAINED[0], "graph"), case(NETWORKS[0], "eager"), case(NETWORKS[0], "graph", "bf16")])
    assert [row["status"] for row in rows] == ["unsupported"] * 3
    assert all(row["reason"] for row in rows)


def test_parameters_and_work_of_known_networks():
    resnet = complete({"kind": "resnet"})
    counted = [value.size for name, value in make_weights(resnet, 0).items() if not name.endswith((".mean", ".var"))]
    # ResNet-50 of He et al.: 25,557,032 parameters, 4.1 G multiply-adds at 224 x 224 (8.2 GFLOP).
    assert sum(counted) == 25_557_032
    assert flops(resnet, {"batch": 1, "resolution": 224}) == pytest.approx(8.2e9, rel=0.02)
    # BERT-base layers: 12 (4 h^2 + 8 h^2) weights; 22.3 GFLOP for 128 tokens with attention.
    bert = {"kind": "encoder", "layers": 12, "hidden": 768, "heads": 12, "ffn_hidden": 3072, "vocab": 30522, "max_seq": 512}
    assert flops(bert, {"batch": 1, "seq": 128}) == pytest.approx(22.3e9, rel=0.02)
    assert flops(bert, {"batch": 4, "seq": 128, "mode": "train"}) > 12 * flops(bert, {"batch": 1, "seq": 128})


def test_numpy_convolution_against_its_definition():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 3, 7, 7)), rng.standard_normal((4, 3, 3, 3))
    got = numpy_conv(x, w, 2, 1)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = np.array([[[(padded[0, :, i : i + 3, j : j + 3] * w[o]).sum() for j in (0, 2, 4, 6)] for i in (0, 2, 4, 6)] for o in range(4)])
    assert np.allclose(got[0], want)


def test_a_description_that_is_none_is_refused():
    with pytest.raises(ValueError, match="kind"):
        complete({"kind": "perceptron"})
    with pytest.raises(ValueError, match="multiple"):
        complete({**ENCODER, "kv_heads": 3})
