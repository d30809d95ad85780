"""Plans over two processes, and generation, really run on this CPU as the scripts that are exported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.errors import UsageError
from advisor.plan.records import Plan
from advisor.search.space import context_for, enumerate_plans
from advisor.trial.run import trial_of
from advisor.usecases.launched import needs_script, obstacle, read_output, run_script
from advisor.usecases.question import Question, Request, resolve

TINY = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64,
    "vocab_size": 512, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
}  # fmt: skip


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY))
    return str(path)


def asked(model: str, **more: object) -> Question:
    request = Request(model=model, task="train", seq=32, global_batch=4, fixed={"devices": "2"})
    return resolve(replace(request, **more))  # type: ignore[arg-type]


def plan_of(question: Question, **wanted: object) -> Plan:
    table = enumerate_plans(context_for(question.model, question.workload, question.platform), {"devices": 2, **wanted})
    assert len(table), wanted
    return table.plan(0)


@pytest.mark.parametrize(
    "wanted",
    [
        {"framework": "torch", "execution": "eager", "sharding": "fsdp", "dp": 2},
        {"framework": "torch", "execution": "eager", "pp": 2, "sharding": "none"},
        {"framework": "jax", "tp": 2},
    ],
    ids=["fsdp", "pipeline", "jax tensor"],
)
def test_a_plan_over_two_processes_runs_and_is_a_trial(tiny: str, wanted: dict[str, object]) -> None:
    pytest.importorskip(str(wanted["framework"]))
    question = asked(tiny)
    plan = plan_of(question, precision="fp32", recompute="none", adapter="none", **wanted)
    assert plan.devices == 2
    assert needs_script(question, plan)
    assert obstacle(question, plan) is None
    line = run_script(question, plan, budget_s=60.0)
    trial = trial_of(plan, "id", [line], "cpu0", 1.0)
    assert trial.status == "ok", trial.reason
    assert trial.seconds is not None
    assert trial.seconds > 0
    assert trial.samples == 6


def test_tokens_are_generated_by_the_script(tiny: str) -> None:
    pytest.importorskip("torch")
    question = asked(tiny, task="infer", seq=None, input_len=16, output_len=8, global_batch=2, fixed={})
    table = enumerate_plans(
        context_for(question.model, question.workload, question.platform),
        {"framework": "torch", "execution": "eager", "precision": "fp32", "quantization": "none"},
    )
    plan = table.plan(0)
    assert needs_script(question, plan)
    line = run_script(question, plan, budget_s=60.0)
    assert line["status"] == "ok", line["reason"]
    assert line["value"] > 0


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("step 1 loss nan 0.1 s 40 samples/s\n" * 8, "wrong_result"),
        ("step 1 loss 60.0 0.1 s 40 samples/s\n" * 8, "wrong_result"),
        ("Killed\n", "failed"),
        ("step 1 loss 6.3 0.1 s 40 samples/s\n" * 2, "failed"),
        ("step 1 loss 6.3 0.1 s 40 samples/s\n" * 8, "ok"),
    ],
)
def test_only_a_script_that_trained_is_a_measurement(tiny: str, text: str, status: str) -> None:
    question = asked(tiny)
    plan = plan_of(question, framework="torch", dp=2)
    line = read_output(question, plan, text, 0.0)
    assert line["status"] == status
    assert (line["value"] is not None) == (status == "ok")
    assert (line["reason"] is None) == (status == "ok")


def test_the_processes_share_cores_and_memory_of_the_one_cpu(tiny: str) -> None:
    whole, half = asked(tiny, fixed={}), asked(tiny)
    assert half.platform.devices == 2
    assert half.platform.memory_bytes == (whole.platform.memory_bytes or 0) // 2
    assert half.platform.threads == max(1, whole.platform.threads // 2)
    assert any("dealt out to 2 processes" in note for note in half.notes)
    with pytest.raises(UsageError, match="dealt out"):
        asked(tiny, fixed={"devices": "1000"})
