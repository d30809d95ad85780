"""Children that count: their numbers follow from what they count, and what is missing is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from microbench.child import python_child, run_child


def ask(name: str, **arguments: Any) -> dict[str, Any]:
    child = run_child(
        python_child(f"advisor.claims.children.{name}"), timeout_s=90, stdin=json.dumps({"seed": 3, "threads": 1, **arguments})
    )
    assert child.status == "ok", child.stderr
    document: dict[str, Any] = json.loads(child.stdout.strip().splitlines()[-1])
    return document


def test_int8_weights_take_a_quarter_and_overhead_shrinks_with_size() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    small, large = (row["value"] for row in ask("quantized_size", widths=[32, 256])["settings"])
    assert 0.25 < large < small < 0.5


def test_freed_parameters_are_gathered_twice() -> None:
    pytest.importorskip("torch")
    freed, kept = ask("sharding_bytes", layers=4, width=32)["settings"]
    parameters = 4 * (32 * 32 + 32) * 4
    assert freed["detail"]["gathered_bytes"] == 2 * parameters
    assert kept["detail"]["gathered_bytes"] == parameters
    assert freed["detail"]["reduced_bytes"] == kept["detail"]["reduced_bytes"] == parameters
    assert freed["value"] == 1.0


def test_a_higher_scale_skips_more_steps() -> None:
    pytest.importorskip("torch")
    low, high = (ask("loss_scale", scale=scale)["settings"][1]["detail"]["skipped"] for scale in (64, 2.0**24))
    assert low == 0 < high


def test_operators_of_the_cpu_agree_with_the_cpu() -> None:
    torch = pytest.importorskip("torch")
    (row,) = ask("operator_coverage", device="cpu")["settings"]
    assert row["value"] == 1.0, row["detail"]
    if not torch.cuda.is_available():
        assert "CUDA" in ask("operator_coverage")["lacks"]
