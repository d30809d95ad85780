"""States on the host, frozen weights, and what a framework's descriptor says of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.cost.flops import step_flops
from advisor.cost.price import PricedTable, price
from advisor.cost.traits import family_of, traits_of
from advisor.frameworks import all_frameworks
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for
from advisor.model.counts import forward_flops
from advisor.model.registry import model
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable
from advisor.usecases.calibration import load_calibration

GPT = model("gpt-1.3b")
EIGHT = platform_for(parse_spec("8xa100-sxm4-80gb"))


def priced(*plans: Plan) -> PricedTable:
    work = Workload(task="train", seq_len=2048, global_batch=plans[0].global_batch)
    return price(GPT, work, EIGHT, PlanTable.of(plans), load_calibration())


def sharded(**changes: object) -> Plan:
    plan = Plan(framework="deepspeed", execution="eager", precision="bf16", dp=8, devices=8, sharding="zero3", shard_degree=8,
                micro_batch=1, grad_accumulation=1, global_batch=8)  # fmt: skip
    return replace(plan, **changes)  # type: ignore[arg-type]


def test_fully_sharded_training_keeps_no_whole_gradient() -> None:
    table = priced(sharded(), sharded(sharding="none", shard_degree=1))
    shard, whole = table.memory_parts["gradients"]
    assert shard == pytest.approx(whole / 8, rel=1e-9)
    assert whole == pytest.approx(2.0 * GPT.parameters, rel=1e-6)


def test_the_host_holds_the_gradients_it_adds_up() -> None:
    table = priced(sharded(), sharded(offload="optimizer"))
    assert table.memory_parts["gradients"][0] > 0
    assert table.memory_parts["gradients"][1] == 0
    assert table.memory_parts["optimizer_states"][1] == 0


def test_the_update_on_the_host_is_that_of_all_its_ranks() -> None:
    """2.57 s for 10 billion parameters on all cores of a node, whoever owns them (ZeRO-Offload, table 4)."""
    optimizer = float(priced(sharded(offload="optimizer")).time_parts["optimizer"][0])
    updates = GPT.parameters * 2.57e-10
    link = GPT.parameters / 8 * (4.0 + 2.0) / float(EIGHT.host_link_bytes_per_s or 0)
    assert optimizer == pytest.approx(updates + link, rel=0.03)


def test_more_micro_batches_cross_the_host_link_more_often() -> None:
    """Two transfers a micro-batch but the first; exposed where a pass is too short to hide them."""
    slow = replace(EIGHT, host_link_bytes_per_s=1e8)
    work = Workload(task="train", seq_len=2048, global_batch=64)
    plans = [sharded(offload="optimizer", grad_accumulation=m, global_batch=8 * m) for m in (1, 2, 8)]
    table = price(GPT, work, slow, PlanTable.of(plans), load_calibration())
    each = table.time_parts["offload"] / np.array([1.0, 2.0, 8.0])
    assert 0 < each[0] < each[1] < each[2] < 2.2 * each[0]


def test_an_adapter_needs_no_gradient_of_frozen_weights() -> None:
    whole, frozen = step_flops(GPT, 2048), step_flops(GPT, 2048, adapter=True)
    attention = 4.0 * GPT.transformer.layers * GPT.transformer.hidden * 2048**2
    assert whole == 3 * forward_flops(GPT, 2048)
    assert frozen == pytest.approx(2 * forward_flops(GPT, 2048) + attention, rel=1e-9)
    plan = sharded(framework="torch", sharding="none", shard_degree=1)
    tuned = replace(plan, adapter="lora", adapter_rank=16)
    full, lora = priced(plan), priced(tuned)
    rate = [float(t.mfu[0] * t.time_s[0]) for t in (full, lora)]
    assert frozen / whole < rate[1] / rate[0] < frozen / whole + 0.02


def test_every_framework_that_trains_on_accelerators_says_how() -> None:
    for spec in all_frameworks():
        trains = any("train" in can.tasks and not all(t.startswith("cpu") for t in can.targets) for can in spec.capabilities)
        assert (spec.training is not None) == trains, spec.name
        for stack in spec.stacks:
            assert family_of(stack) == spec.name


def test_compiling_fuses_and_targets_differ() -> None:
    assert traits_of("torch", "eager").fusion == "eager"
    assert traits_of("torch", "compile").fusion == "compiled"
    assert traits_of("jax", "jit", "tpu").fusion == "xla"
    assert traits_of("jax", "jit", "cuda").fusion == "compiled"
    assert family_of("unheard-of") == "unheard-of"
