"""Memory terms against published arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.cost.collect import collect
from advisor.cost.memory import TIGHT_RESERVE, memory
from advisor.cost.price import price
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for
from advisor.model.registry import model
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable
from advisor.usecases.calibration import load_calibration

ONE = platform_for(parse_spec("1xa100-sxm4-80gb"))
EIGHT = platform_for(parse_spec("8xa100-sxm4-80gb"))
TRAIN = Workload(task="train", seq_len=2048, global_batch=8)


def test_states_of_13b_on_one_device_are_16_bytes_a_parameter() -> None:
    gpt = model("gpt-13b")
    plan = Plan(framework="torch", execution="eager", precision="bf16", grad_accumulation=8, global_batch=8)
    table = price(gpt, TRAIN, ONE, PlanTable.of([plan]), load_calibration())
    states = sum(float(table.memory_parts[name][0]) for name in ("weights", "gradients", "optimizer_states"))
    assert states == pytest.approx(16 * gpt.parameters, rel=1e-6)
    assert states == pytest.approx(205.65e9, rel=1e-3)
    assert not table.fits[0]


@pytest.mark.parametrize(("tp", "sp", "per_sbh"), [(1, False, 34.0), (8, False, 10 + 24 / 8), (8, True, 34 / 8)])
def test_kept_activations_of_a_layer(tp: int, sp: bool, per_sbh: float) -> None:
    """Korthikanti et al. 2022, table 2, flash attention: 34 sbh; 10 + 24/t with tensor, 34/t with sequence parallelism."""
    gpt = model("gpt-13b")
    plan = Plan(framework="megatron-2021", execution="eager", precision="fp16", tp=tp, devices=tp, sequence_parallel=sp, global_batch=1)
    terms = collect(gpt, TRAIN, ONE if tp == 1 else EIGHT, PlanTable.of([plan]), load_calibration())
    assert float(terms.kept_layer[0]) == pytest.approx(per_sbh * 2048 * gpt.transformer.hidden, rel=1e-3)


def test_unfused_attention_keeps_five_bytes_a_score() -> None:
    gpt = model("gpt-13b")
    plans = [Plan(framework="megatron-2021", execution="eager", precision="fp16", attention=a) for a in ("flash", "math")]
    terms = collect(gpt, TRAIN, ONE, PlanTable.of(plans), load_calibration())
    assert float(terms.kept_layer[1] - terms.kept_layer[0]) == pytest.approx(5 * gpt.transformer.heads * 2048**2, rel=1e-9)


def test_the_fullest_stage_is_reported_and_definitions_nest() -> None:
    gpt = model("gpt-2.7b")
    plans = [
        Plan(framework="megatron", execution="eager", precision="bf16", pp=pp, dp=8 // pp, devices=8, grad_accumulation=8, global_batch=8)
        for pp in (1, 2, 4, 8)
    ]
    k = load_calibration()
    held = memory(collect(gpt, TRAIN, EIGHT, PlanTable.of(plans), k), k)
    assert (held.allocated < held.reserved).all()
    assert (held.reserved < held.device).all()
    weights = held.parts["weights"]
    assert (np.diff(weights) < 0).all()


def test_the_allocator_gives_back_its_reserve_before_a_run_fails() -> None:
    """Reserve shrinks when memory is short: reported device memory stays under the limit as long as the tensors fit."""
    gpt = model("gpt-2.7b")
    plans = [
        Plan(framework="megatron", execution="eager", precision="bf16", micro_batch=m, dp=8, devices=8, sharding="zero1", shard_degree=8)
        for m in range(1, 24)
    ]
    k = load_calibration()
    held = memory(collect(gpt, TRAIN, EIGHT, PlanTable.of(plans), k), k)
    share = held.parts["allocator_reserve"] / held.allocated
    assert share.max() == pytest.approx(k["memory.reserved"])
    assert share.min() == pytest.approx(TIGHT_RESERVE)
    assert (np.diff(held.device) >= -1).all()
