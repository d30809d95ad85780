"""An answer cites the measurements that it rests on, and moves with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.main import run

Ask = Callable[..., dict[str, Any]]
LINE = {
    "benchmark": "gemm", "backend": "torch", "backend_version": "2.9.0", "device": "a100-sxm4-80gb", "device_profile": "a100-sxm4-80gb",
    "dtype": "bf16", "params": {"m": 8192, "n": 8192, "k": 8192}, "metric": "flops_per_s", "unit": "FLOP/s", "value": 2.85e14,
    "samples": 40,
    "status": "ok",
}  # fmt: skip
TRAIN = "recommend --model gpt-13b --hardware 64xa100-sxm4-80gb --seq 2048 --global-batch 512 --fix framework=megatron"
SERVE = "recommend --model llama-2-7b --task infer --hardware 1xa100-sxm4-80gb --input-len 2048 --output-len 8 --global-batch 16"


def stored(tmp_path: Path, capsys: pytest.CaptureFixture[str], **changes: Any) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text(json.dumps(LINE | changes) + "\n")
    assert run(["results", "import", str(file)]) == 0, capsys.readouterr().err
    capsys.readouterr()


def time_of(document: dict[str, Any]) -> float:
    estimate = document["recommendation"]["estimate"]
    return float((estimate["step_time_s"] or estimate["latency_s"])["value"])


@pytest.mark.parametrize("question", [TRAIN, SERVE])
def test_a_faster_product_of_the_product_is_cited_and_shortens_the_answer(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    before = ask(question, status=0)
    assert before["recommendation"]["estimate"]["measurements"] == []
    stored(tmp_path, capsys)
    after = ask(question, status=0)
    cited = after["recommendation"]["estimate"]["measurements"]
    assert len(cited) == 1
    assert any(cited[0] in r["text"] for r in after["recommendation"]["why"] if r["code"] == "EVIDENCE")
    assert 0.9 * time_of(before) < time_of(after) < time_of(before)


@pytest.mark.parametrize("changes", [
    {"value": 6.0e14},  # above the dense peak: sparse, or of another device
    {"device": "v100-sxm2-32gb", "device_profile": "v100-sxm2-32gb"},
    {"params": {"m": 64, "n": 64, "k": 64}, "value": 1e11},  # times the launch
])  # fmt: skip
def test_what_was_not_used_is_not_cited(ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]) -> None:
    before = time_of(ask(TRAIN, status=0))
    stored(tmp_path, capsys, **changes)
    after = ask(TRAIN, status=0)
    assert after["recommendation"]["estimate"]["measurements"] == []
    assert time_of(after) == before
