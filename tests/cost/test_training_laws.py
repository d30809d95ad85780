"""Laws of the training model: what must hold whatever the parameters are."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cost.calibration import Calibration
from advisor.cost.collect import collect
from advisor.cost.price import PricedTable, comfortable, price
from advisor.cost.terms import Terms
from advisor.cost.training import compose
from advisor.hardware.platform import Platform
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for
from advisor.model.records import Model
from advisor.model.registry import model
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable
from advisor.usecases.calibration import load_calibration

MODEL = model("gpt-1.3b")
MIXTURE = model("mixtral-8x7b")
CLUSTER = platform_for(parse_spec("16xa100-sxm4-80gb"))
SEQ, BATCH = 2048, 64


def priced(
    *plans: Plan, platform: Platform = CLUSTER, calibration: Calibration | None = None, seq: int = SEQ, network: Model = MODEL
) -> PricedTable:
    workload = Workload(task="train", seq_len=seq, global_batch=BATCH)
    return price(network, workload, platform, PlanTable.of(plans), calibration or load_calibration())


LAYOUTS = [(1, 1, 1), (2, 1, 1), (4, 2, 1), (1, 4, 1), (8, 2, 1), (2, 2, 2), (1, 1, 4), (16, 1, 1)]


@st.composite
def plans(draw: st.DrawFn, experts: bool = False) -> Plan:
    """Draw a plan over every field that a training plan has."""
    tp, pp, cp = draw(st.sampled_from(LAYOUTS))
    dp = 16 // (tp * pp * cp)
    micro = draw(st.sampled_from([1, 2, 4]))
    sharding = draw(st.sampled_from(["none", "zero1", "zero2", "zero3", "fsdp", "hsdp"]))
    ranks = dp * cp
    degree = 1 if sharding == "none" else max(1, ranks // 2) if sharding == "hsdp" else ranks
    adapter = draw(st.sampled_from(["none", "none", "lora", "qlora"]))
    return Plan(
        framework=draw(st.sampled_from(["megatron", "torch", "deepspeed", "jax", "nanotron", "unheard-of"])),
        execution=draw(st.sampled_from(["eager", "compile", "jit"])),
        precision=draw(st.sampled_from(["bf16", "fp16", "tf32", "fp32", "fp8"])),
        micro_batch=micro,
        grad_accumulation=max(1, BATCH // dp // micro),
        global_batch=BATCH,
        dp=dp,
        tp=tp,
        pp=pp,
        vpp=draw(st.sampled_from([1, 2])) if pp > 1 else 1,
        cp=cp,
        ep=draw(st.sampled_from([e for e in (1, 2, 4, 8) if ranks % e == 0])) if experts else 1,
        sharding=sharding,
        shard_degree=degree,
        sequence_parallel=tp > 1 and draw(st.booleans()),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        offload=draw(st.sampled_from(["none", "none", "optimizer", "params"])),
        optimizer=draw(st.sampled_from(["adamw", "adam8bit"])),
        adapter=adapter,
        adapter_rank=0 if adapter == "none" else draw(st.sampled_from([8, 64])),
        attention=draw(st.sampled_from(["flash", "fused", "math"])),
        devices=16,
    )


def _better(compute: float, memory: float, network: float, host: float) -> Platform:
    sheet = CLUSTER.profile
    return replace(
        CLUSTER,
        profile=msgspec.structs.replace(
            sheet,
            dense_tflops={name: value * compute for name, value in sheet.dense_tflops.items()},
            memory_gb_per_s=sheet.memory_gb_per_s * memory,
            # The same watts for each FLOP/s: a faster part with the same power limit might not be faster.
            tdp_w=sheet.tdp_w * compute,
        ),
        tiers=tuple(replace(t, bandwidth_bytes_per_s=t.bandwidth_bytes_per_s * network) for t in CLUSTER.tiers),
        host_link_bytes_per_s=CLUSTER.host_link_bytes_per_s * host,
    )


def _check_parts(table: PricedTable) -> None:
    assert sum(float(part[0]) for part in table.time_parts.values()) == pytest.approx(float(table.time_s[0]), rel=1e-12)
    assert sum(float(part[0]) for part in table.memory_parts.values()) == pytest.approx(float(table.memory_bytes[0]), rel=1e-12)
    assert min(float(part[0]) for part in table.time_parts.values()) >= 0
    assert min(float(part[0]) for part in table.memory_parts.values()) >= 0
    assert 0 < float(table.mfu[0]) < 1
    estimate = table.estimate(0)
    assert estimate.step_time_s is not None
    assert estimate.step_time_s.low < estimate.step_time_s.value < estimate.step_time_s.high


@settings(max_examples=80, deadline=None)
@given(plans())
def test_parts_add_up_and_nothing_is_negative(plan: Plan) -> None:
    _check_parts(priced(plan))


@settings(max_examples=40, deadline=None)
@given(plans(experts=True))
def test_parts_of_a_mixture_of_experts_add_up(plan: Plan) -> None:
    _check_parts(priced(plan, network=MIXTURE))


@settings(max_examples=60, deadline=None)
@given(plans(experts=True), st.booleans(), st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.floats(1.0, 3.0))
def test_a_better_machine_is_never_slower(plan: Plan, mixture: bool, compute: float, memory: float, network: float, host: float) -> None:
    model_, plan = (MIXTURE, plan) if mixture else (MODEL, replace(plan, ep=1))
    better = priced(plan, platform=_better(compute, memory, network, host), network=model_)
    assert float(better.time_s[0]) <= float(priced(plan, network=model_).time_s[0]) * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(plans(experts=True), st.booleans())
def test_memory_never_falls_with_the_micro_batch(plan: Plan, mixture: bool) -> None:
    model_, plan = (MIXTURE, plan) if mixture else (MODEL, replace(plan, ep=1))
    bigger = replace(plan, micro_batch=plan.micro_batch * 2)
    table = priced(plan, bigger, network=model_)
    assert table.memory_bytes[1] >= table.memory_bytes[0] * (1 - 1e-12)


@settings(max_examples=40, deadline=None)
@given(plans(), st.sampled_from(["zero1", "zero2", "zero3"]))
def test_sharding_over_one_device_equals_none(plan: Plan, sharding: str) -> None:
    """Of states, gradients and weights. FSDP is apart: its 16-bit copies of fp32 weights exist on one device too."""
    alone = replace(
        plan, dp=1, tp=1, pp=1, vpp=1, cp=1, devices=1, sequence_parallel=False, sharding="none", shard_degree=1, grad_accumulation=4
    )
    if sharding == "zero3":
        alone = replace(alone, framework="deepspeed")
    single = platform_for(parse_spec("1xa100-sxm4-80gb"))
    table = priced(alone, replace(alone, sharding=sharding), platform=single)
    assert table.time_s[0] == pytest.approx(table.time_s[1], rel=1e-9)
    assert table.memory_bytes[0] == pytest.approx(table.memory_bytes[1], rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(plans(), st.sampled_from(["zero1", "zero2", "zero3", "hsdp", "fsdp"]))
def test_sharding_and_moving_to_the_host_never_take_more_states(plan: Plan, sharding: str) -> None:
    """Weights, gradients and optimizer states of a device; what sharding needs besides (buffers) is not a state.

    Without a pipeline: of several stages the fullest is reported, and that may become another one.
    """
    base = replace(plan, sharding="none", shard_degree=1, offload="none", dp=plan.dp * plan.pp, pp=1, vpp=1)
    ranks = base.dp * base.cp
    sharded = replace(base, sharding=sharding, shard_degree=ranks)
    table = priced(base, sharded, replace(sharded, offload="optimizer"), replace(sharded, offload="params"))
    states = sum(table.memory_parts[name] for name in ("weights", "gradients", "optimizer_states"))
    assert (np.diff(states) <= 1e-6 * states[0]).all()


@settings(max_examples=25, deadline=None)
@given(plans())
def test_more_work_is_never_faster(plan: Plan) -> None:
    again = replace(plan, recompute="full")
    base = replace(plan, recompute="none")
    longer = replace(base, grad_accumulation=base.grad_accumulation * 2)
    table = priced(base, again, longer)
    assert table.time_s[1] >= table.time_s[0]
    assert table.time_s[2] >= table.time_s[0]


def test_a_table_is_priced_as_its_rows_are() -> None:
    rows = [
        Plan(framework="megatron", execution="eager", precision="bf16", micro_batch=m, grad_accumulation=BATCH // dp // m,
             global_batch=BATCH, dp=dp, tp=tp, pp=pp, devices=16)
        for m in (1, 2)
        for dp, tp, pp in ((16, 1, 1), (8, 2, 1), (2, 4, 2), (4, 1, 4))
    ]  # fmt: skip
    together = priced(*rows)
    alone = np.array([float(priced(row).time_s[0]) for row in rows])
    np.testing.assert_allclose(together.time_s, alone, rtol=1e-12)


def test_an_empty_table_is_priced() -> None:
    assert len(priced()) == 0


def _sixteen(**changes: object) -> Plan:
    plan = Plan(
        framework="megatron", execution="eager", precision="bf16", dp=16, devices=16, micro_batch=1, grad_accumulation=4, global_batch=BATCH
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


def test_a_framework_nobody_measured_there_is_less_sure() -> None:
    table = priced(_sixteen(), _sixteen(framework="jax", execution="jit", sharding="fsdp", shard_degree=16))
    assert table.row_evidence == ("calibrated", "transferred")
    assert table.evidence == "transferred"
    assert table.sigma_log[1] > table.sigma_log[0]
    assert table.estimate(0).evidence == "calibrated"


def test_waiting_for_every_kernel_is_never_faster() -> None:
    known = load_calibration()
    workload = Workload(task="train", seq_len=SEQ, global_batch=BATCH)
    terms = collect(MODEL, workload, CLUSTER, PlanTable.of([_sixteen(framework="megatron-deepspeed")]), known)
    waiting = Terms({**terms.columns, "synchronous": np.ones(1)}, terms.codes)
    plain, blocking = (sum(float(part[0]) for part in compose(t, known).values()) for t in (terms, waiting))
    assert blocking > plain


def test_a_comfortable_plan_fits_with_room() -> None:
    table = priced(*(_sixteen(micro_batch=micro, grad_accumulation=4 // micro) for micro in (1, 2, 4)))
    limit = float(table.memory_bytes[1]) * 1.01
    tight = replace(table, memory_limit_bytes=limit, fits=table.memory_bytes <= limit)
    assert list(tight.fits) == [True, True, False]
    assert list(comfortable(tight)) == [True, False, False]
    assert comfortable(replace(table, memory_limit_bytes=None)).all()
