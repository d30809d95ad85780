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
from advisor.model.registry import model
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable
from advisor.usecases.calibration import load_calibration

MODEL = model("gpt-1.3b")
CLUSTER = platform_for(parse_spec("16xa100-sxm4-80gb"))
SEQ, BATCH = 2048, 64


def priced(*plans: Plan, platform: Platform = CLUSTER, calibration: Calibration | None = None, seq: int = SEQ) -> PricedTable:
    workload = Workload(task="train", seq_len=seq, global_batch=BATCH)
    return price(MODEL, workload, platform, PlanTable.of(plans), calibration or load_calibration())


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    tp, pp, cp = draw(st.sampled_from([(1, 1, 1), (2, 1, 1), (4, 2, 1), (1, 4, 1), (8, 2, 1), (2, 2, 2), (1, 1, 4), (16, 1, 1)]))
    dp = 16 // (tp * pp * cp)
    micro = draw(st.sampled_from([1, 2, 4]))
    sharding = draw(st.sampled_from(["none", "zero1", "fsdp"]))
    return Plan(
        framework=draw(st.sampled_from(["megatron", "torch", "deepspeed", "unheard-of"])),
        execution=draw(st.sampled_from(["eager", "compile"])),
        precision=draw(st.sampled_from(["bf16", "fp16", "tf32"])),
        micro_batch=micro,
        grad_accumulation=max(1, BATCH // dp // micro),
        global_batch=BATCH,
        dp=dp,
        tp=tp,
        pp=pp,
        cp=cp,
        sharding=sharding,
        shard_degree=1 if sharding == "none" else dp * cp,
        sequence_parallel=tp > 1 and draw(st.booleans()),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        attention=draw(st.sampled_from(["flash", "math"])),
        devices=16,
    )


@settings(max_examples=60, deadline=None)
@given(plans())
def test_parts_add_up_and_nothing_is_negative(plan: Plan) -> None:
    table = priced(plan)
    assert sum(float(part[0]) for part in table.time_parts.values()) == pytest.approx(float(table.time_s[0]), rel=1e-12)
    assert sum(float(part[0]) for part in table.memory_parts.values()) == pytest.approx(float(table.memory_bytes[0]), rel=1e-12)
    assert min(float(part[0]) for part in table.time_parts.values()) >= 0
    assert min(float(part[0]) for part in table.memory_parts.values()) >= 0
    assert 0 < float(table.mfu[0]) < 1
    estimate = table.estimate(0)
    assert estimate.step_time_s is not None
    assert estimate.step_time_s.low < estimate.step_time_s.value < estimate.step_time_s.high


@settings(max_examples=40, deadline=None)
@given(plans(), st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.floats(1.0, 3.0))
def test_a_better_machine_is_never_slower(plan: Plan, compute: float, memory: float, network: float) -> None:
    sheet = CLUSTER.profile
    better = replace(
        CLUSTER,
        profile=msgspec.structs.replace(
            sheet,
            dense_tflops={name: value * compute for name, value in sheet.dense_tflops.items()},
            memory_gb_per_s=sheet.memory_gb_per_s * memory,
            # The same watts for each FLOP/s: a faster part with the same power limit might not be faster.
            tdp_w=sheet.tdp_w * compute,
        ),
        tiers=tuple(replace(t, bandwidth_bytes_per_s=t.bandwidth_bytes_per_s * network) for t in CLUSTER.tiers),
    )
    assert float(priced(plan, platform=better).time_s[0]) <= float(priced(plan).time_s[0]) * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(plans())
def test_memory_never_falls_with_the_micro_batch(plan: Plan) -> None:
    bigger = replace(plan, micro_batch=plan.micro_batch * 2)
    table = priced(plan, bigger)
    assert table.memory_bytes[1] >= table.memory_bytes[0] * (1 - 1e-12)


@settings(max_examples=25, deadline=None)
@given(plans(), st.sampled_from(["zero1", "zero2"]))
def test_sharding_over_one_device_equals_none(plan: Plan, sharding: str) -> None:
    alone = replace(plan, dp=1, tp=1, pp=1, cp=1, devices=1, sequence_parallel=False, sharding="none", shard_degree=1, grad_accumulation=4)
    single = platform_for(parse_spec("1xa100-sxm4-80gb"))
    table = priced(alone, replace(alone, sharding=sharding), platform=single)
    assert table.time_s[0] == pytest.approx(table.time_s[1], rel=1e-9)
    assert table.memory_bytes[0] == pytest.approx(table.memory_bytes[1], rel=1e-9)


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
