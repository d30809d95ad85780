"""Stored verdicts become advice where they concern the question, and only for the machine they were measured on."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.claims.library import shipped
from advisor.search.advice.proven import TIPS, proven_advice


def result(name: str, **changes: Any) -> dict[str, Any]:
    one = next(claim for claim in shipped() if claim.id == name)
    fields: dict[str, Any] = {
        "id": name, "claim": one.to_dict(), "verdict": "refuted", "basis": "measured", "value": 0.6, "low": 0.5, "high": 0.7,
        "meaning": "Begin with none.", "measurement": "0123456789ab", "measured_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return {**fields, **changes}


def reasons(model: str, task: str, results: list[dict[str, Any]], *, local: bool = True, **plan: Any) -> list[Any]:
    from types import SimpleNamespace

    from advisor.model.registry import model as known

    w = SimpleNamespace(is_training=task in ("train", "finetune"), task=task)
    p = SimpleNamespace(**{"devices": 1, "sharding": "none", **plan})
    return list(proven_advice(known(model), w, p, results, local=local))  # type: ignore[arg-type]


def test_every_tip_names_a_shipped_claim() -> None:
    names = {claim.id for claim in shipped()}
    assert {tip.claim for tip in TIPS} <= names
    assert len({tip.claim for tip in TIPS}) == len(TIPS)


def test_a_verdict_is_cited_with_its_number_and_its_id() -> None:
    (reason,) = reasons("bert-base", "train", [result("workers-2x-cpus")])
    assert reason.code == "PROVEN"
    assert reason.value == 0.6
    assert "01234567" in reason.text
    assert "advisor claims show workers-2x-cpus" in reason.text
    assert "Begin with none." in reason.text
    assert reason.detail["interval"] == [0.5, 0.7]


@pytest.mark.parametrize(
    ("model", "task", "name", "told"),
    [
        ("bert-base", "infer", "workers-2x-cpus", False),
        ("resnet-50", "train", "lmdb-10x", True),
        ("bert-base", "train", "lmdb-10x", False),
        ("bert-base", "train", "hf-datasets-mmap-ms", True),
        ("bert-base", "infer", "dynamic-quant-cpu", True),
        ("resnet-50", "infer", "dynamic-quant-cpu", False),
        ("resnet-50", "infer", "static-qat-edge", True),
        ("gpt-13b", "serve", "triton-batching-util", True),
    ],
)
def test_tips_go_to_the_questions_they_concern(model: str, task: str, name: str, told: bool) -> None:
    assert bool(reasons(model, task, [result(name)])) == told


def test_what_was_measured_here_is_not_said_of_other_hardware() -> None:
    measured, predicted = result("mp-above-10b"), result("mp-above-10b", basis="predicted")
    assert reasons("gpt-13b", "train", [measured], local=False, devices=64) == []
    (reason,) = reasons("gpt-13b", "train", [predicted], local=False, devices=64)
    assert "by the cost model" in reason.text


@pytest.mark.parametrize("change", [{"verdict": "inconclusive"}, {"verdict": "not_testable", "value": None}])
def test_what_tells_nothing_is_not_said(change: dict[str, Any]) -> None:
    assert reasons("bert-base", "train", [result("workers-2x-cpus", **change)]) == []
