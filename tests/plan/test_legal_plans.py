"""Rules of legality, and that the enumerated space obeys them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platforms_for
from advisor.model.registry import model
from advisor.plan.legal import RULES, legal_mask, violations
from advisor.plan.records import PLAN_FIELDS, Plan, Workload
from advisor.plan.table import PlanTable
from advisor.search.degrees import divisors
from advisor.search.space import context_for, enumerate_plans

A100_64 = platforms_for(parse_spec("64xa100-sxm4-80gb"))[0]
GPT = model("gpt-13b")
TRAIN = Workload(task="train", seq_len=2048, global_batch=512)
LEGAL = Plan(
    framework="megatron",
    execution="eager",
    precision="bf16",
    micro_batch=2,
    grad_accumulation=32,
    global_batch=512,
    dp=8,
    tp=2,
    pp=4,
    vpp=2,
    sharding="zero1",
    shard_degree=8,
    sequence_parallel=True,
    recompute="selective",
    devices=64,
)


def test_a_well_made_plan_breaks_no_rule() -> None:
    assert violations(LEGAL, context_for(GPT, TRAIN, A100_64)) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"dp": 7}, "DEGREES"),
        ({"devices": 128, "dp": 16, "grad_accumulation": 16, "shard_degree": 16}, "DEVICES"),
        ({"micro_batch": 3}, "BATCH"),
        ({"tp": 3}, "HEADS"),
        ({"pp": 3}, "LAYERS"),
        ({"vpp": 4}, "LAYERS"),
        ({"pp": 1, "dp": 32, "grad_accumulation": 8, "shard_degree": 32}, "INTERLEAVING"),
        ({"tp": 1, "dp": 16, "grad_accumulation": 16, "shard_degree": 16}, "SEQUENCE"),
        ({"ep": 2}, "EXPERTS"),
        ({"shard_degree": 4}, "SHARD-DEGREE"),
        ({"sharding": "zero3"}, "ZERO-PIPELINE"),
        ({"offload": "params"}, "OFFLOAD"),
        ({"offload": "optimizer", "sharding": "none", "shard_degree": 1}, "OFFLOAD"),
        ({"precision": "fp8"}, "PRECISION"),
        ({"framework": "onnxruntime"}, "FRAMEWORK"),
        ({"execution": "compile"}, "CAPABILITY"),
        ({"dp": 0}, "POSITIVE"),
    ],
)
def test_each_broken_rule_is_named(change: dict[str, object], code: str) -> None:
    broken = violations(replace(LEGAL, **change), context_for(GPT, TRAIN, A100_64))
    assert code in {c for c, _ in broken}
    assert all("{" not in text for _, text in broken)


def test_bf16_is_illegal_below_compute_capability_8() -> None:
    v100 = platforms_for(parse_spec("8xv100-sxm2-32gb"))[0]
    context = context_for(model("gpt-1.3b"), Workload(task="train", seq_len=1024, global_batch=64), v100)
    plans = enumerate_plans(context)
    assert len(plans) > 100
    assert not plans.equals("precision", "bf16").any()
    assert not plans.equals("attention", "flash").any()


@pytest.mark.parametrize(
    ("framework", "hardware", "legal"),
    [
        ("vllm", "v100-sxm2-32gb", False),
        ("vllm", "t4", True),
        ("tensorrt-llm", "t4", False),
        ("tensorrt-llm", "a10", True),
        ("tensorrt-llm", "h100-sxm5-80gb", True),
        ("vllm", "mi300x", True),
    ],
)
def test_an_engine_serves_no_device_older_than_it_states(framework: str, hardware: str, legal: bool) -> None:
    platform = platforms_for(parse_spec(hardware))[0]
    context = context_for(model("gpt-1.3b"), Workload(task="serve", seq_len=1024, input_len=512, output_len=128), platform)
    plan = Plan(framework=framework, execution="engine", precision="fp16", optimizer="none", attention="paged")
    assert [code for code, _ in violations(plan, context)] == ([] if legal else ["COMPUTE-CAPABILITY"])


def test_a_family_that_overflows_fp16_is_never_trained_in_it() -> None:
    v100 = platforms_for(parse_spec("8xv100-sxm2-32gb"))[0]
    context = context_for(model("t5-large"), Workload(task="train", seq_len=512, global_batch=64), v100)
    plans = enumerate_plans(context)
    assert len(plans)
    assert set(plans.vocabulary["precision"]) == {"fp32"}


def test_key_value_heads_are_replicated_only_for_inference() -> None:
    llama = model("llama-2-70b")
    training = enumerate_plans(context_for(llama, Workload(task="train", seq_len=4096, global_batch=1024), A100_64))
    serving = enumerate_plans(context_for(llama, Workload(task="infer", seq_len=640, input_len=512, output_len=128), A100_64))
    assert training.columns["tp"].max() == 8
    assert serving.columns["tp"].max() > 8


def test_offload_can_be_left_out() -> None:
    context = context_for(GPT, TRAIN, A100_64)
    with_, without = enumerate_plans(context), enumerate_plans(context, offload=False)
    assert (~with_.equals("offload", "none")).any()
    assert without.equals("offload", "none").all()


def test_weights_are_offloaded_only_where_they_are_sharded() -> None:
    plans = enumerate_plans(context_for(GPT, TRAIN, A100_64))
    hosted = plans.equals("offload", "params")
    assert {plans.vocabulary["sharding"][code] for code in plans.columns["sharding"][hosted]} <= {"zero3", "fsdp", "hsdp"}
    assert hosted.any()


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(
        ["gpt-125m", "gpt-1.3b", "gpt-13b", "llama-2-7b", "llama-3-8b", "mixtral-8x7b", "bert-base", "t5-large", "vit-l", "resnet-50"]
    ),
    hardware=st.sampled_from(
        ["1xa100-sxm4-80gb", "8xv100-sxm2-32gb", "16xh100-sxm5-80gb", "3xa100-sxm4-40gb", "64xmi300x", "tpu-v4-64", "6xl40s"]
    ),
    task=st.sampled_from(["train", "finetune", "infer", "serve"]),
    seq=st.sampled_from([1, 128, 512, 1000]),
    batch=st.one_of(st.none(), st.integers(1, 300)),
)
def test_every_enumerated_plan_is_legal_and_every_rule_agrees(name: str, hardware: str, task: str, seq: int, batch: int | None) -> None:
    found = model(name)
    platform = platforms_for(parse_spec(hardware))[0]
    workload = Workload(task=task, seq_len=seq, global_batch=batch, input_len=seq, output_len=0)  # type: ignore[arg-type]
    context = context_for(found, workload, platform)
    plans = enumerate_plans(context)
    if not len(plans):
        return
    assert legal_mask(plans, context).all()
    for row in {0, len(plans) // 2, len(plans) - 1}:
        plan = plans.plan(row)
        assert violations(plan, context) == []
        assert plan.dp * plan.tp * plan.pp * plan.cp == plan.devices == platform.devices
        assert plan.micro_batch * plan.grad_accumulation * plan.dp == plan.global_batch
        assert batch is None or plan.global_batch == batch
        assert all(getattr(plan, field) is not None for field in PLAN_FIELDS)


def test_the_space_holds_no_plan_twice() -> None:
    plans = enumerate_plans(context_for(GPT, TRAIN, A100_64))
    rows = np.stack([plans.columns[name].astype(np.int64) for name in PLAN_FIELDS], axis=1)
    assert len(np.unique(rows, axis=0)) == len(plans)


def test_a_brute_force_over_megatron_finds_no_more() -> None:
    """All combinations of small degrees, filtered by the rules alone, are exactly the enumerated ones."""
    platform = platforms_for(parse_spec("8xa100-sxm4-80gb"))[0]
    workload = Workload(task="train", seq_len=1024, global_batch=16)
    context = context_for(model("gpt-1.3b"), workload, platform)
    fixed = {"framework": "megatron", "precision": "bf16", "recompute": "none", "cp": "1", "execution": "eager"}
    found = {p for row in range(len(t)) if (p := t.plan(row))} if (t := enumerate_plans(context, fixed)) else set()
    brute = set()
    for tp in range(1, 9):
        for pp in range(1, 9):
            for vpp in range(1, 17):
                for dp in range(1, 9):
                    if dp * tp * pp != 8:
                        continue
                    for micro in divisors(16):
                        for sharding in ("none", "zero1"):
                            for sp in (False, True):
                                plan = Plan(
                                    framework="megatron", execution="eager", precision="bf16", micro_batch=micro,
                                    grad_accumulation=max(1, 16 // (micro * dp)), global_batch=16, dp=dp, tp=tp, pp=pp, vpp=vpp,
                                    sharding=sharding, shard_degree=dp if sharding == "zero1" else 1, sequence_parallel=sp, devices=8,
                                )  # fmt: skip
                                if not violations(plan, context) and not (sharding == "zero1" and dp == 1):
                                    brute.add(plan)
    assert found == brute


def test_rules_have_distinct_codes() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)


def test_a_table_gives_back_its_plans() -> None:
    plans = [LEGAL, replace(LEGAL, framework="torch", sequence_parallel=False)]
    table = PlanTable.concat([PlanTable.of(plans[:1]), PlanTable.of(plans[1:])])
    assert [table.plan(row) for row in range(2)] == plans
    assert [table.take(np.array([1])).plan(0)] == plans[1:]
