"""Variations of the onnxruntime backend give the right result, and really differ in what they vary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.bench.children import run_round
from microbench.protocol import Case, Request

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
FOLDER = Path(__file__).resolve().parents[2] / "microbench" / "variants"
ENCODER = {"kind": "encoder", "layers": 1, "hidden": 32, "heads": 2, "ffn_hidden": 64, "vocab": 100, "max_seq": 16}
RESNET = {"kind": "resnet", "blocks": [1, 1, 1, 1], "width": 8, "classes": 10}


def lines(name: str, *params: dict[str, Any]) -> list[Any]:
    shared = {"batch": 1, "mode": "infer", "execution": "graph", "quantization": "none"}
    cases = tuple(Case(benchmark="model", dtype="fp32", params={**shared, **p}) for p in params)
    return run_round(Request(backend=str(FOLDER / name), device="cpu", threads=1, cases=cases, budget_s=2.0, quick=True))


def test_layer_norms_are_fused_only_where_asked() -> None:
    fused, apart, wrong = lines(
        "onnxruntime_layernorm.py", *({"network": ENCODER, "seq": 8, "fusion": fusion} for fusion in (True, False, "perhaps"))
    )
    assert {fused["status"], apart["status"]} <= {"ok", "contended"}
    assert fused["conditions"]["fused_nodes"] == 3
    assert apart["conditions"]["fused_nodes"] == 0
    assert wrong["status"] == "unsupported"


def test_a_static_network_is_quantized_and_right() -> None:
    static, other = lines(
        "onnxruntime_static.py",
        {"network": RESNET, "resolution": 32, "quantization": "int8-static"},
        {"network": RESNET, "resolution": 32},
    )
    assert static["status"] in ("ok", "contended"), static["reason"]
    assert 1e-4 < static["max_error"] < 0.1
    assert other["status"] == "unsupported"
