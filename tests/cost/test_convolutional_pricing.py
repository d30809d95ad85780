"""Training convolutional models: parts, laws, memory, and data parallelism."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor.cost.convolutional import price_convolutional
from advisor.cost.price import PricedTable, price
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for
from advisor.model.registry import model
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable
from advisor.usecases.calibration import load_calibration


def plan(**changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "framework": "torch",
        "execution": "eager",
        "precision": "bf16",
        "optimizer": "sgd",
        "micro_batch": 64,
        **changes,
    }
    fields["devices"] = fields.get("dp", 1)
    fields["global_batch"] = fields["micro_batch"] * fields.get("dp", 1) * fields.get("grad_accumulation", 1)
    return Plan(**fields)


def train(*plans: Plan, hardware: str = "8xa100-sxm4-80gb", name: str = "resnet-50") -> PricedTable:
    workload = Workload(task="train", seq_len=1)
    return price_convolutional(model(name), workload, platform_for(parse_spec(hardware)), PlanTable.of(plans), load_calibration())


def test_parts_add_up_and_the_entry_leads_here() -> None:
    table = train(plan(), plan(precision="fp32"), plan(micro_batch=256, dp=8))
    assert table.time_s == pytest.approx(sum(table.time_parts.values()))
    assert table.memory_bytes == pytest.approx(sum(table.memory_parts.values()))
    assert np.isfinite(table.time_s).all()
    platform = platform_for(parse_spec("8xa100-sxm4-80gb"))
    same = price(model("resnet-50"), Workload(task="train", seq_len=1), platform, PlanTable.of([plan()]), load_calibration())
    assert same.time_s[0] == pytest.approx(table.time_s[0])


def test_a_larger_batch_takes_longer_and_more_memory_but_not_per_image() -> None:
    table = train(*(plan(micro_batch=b) for b in (1, 8, 64, 256)))
    assert (np.diff(table.time_s) > 0).all()
    assert (np.diff(table.memory_bytes) > 0).all()
    assert (np.diff(table.throughput) > 0).all()


def test_a_real_step_rate_of_an_a100() -> None:
    rate = train(plan(micro_batch=256), hardware="1xa100-sxm4-80gb").throughput[0]
    assert 1000 < rate < 4000, "published ResNet-50 training on A100 in mixed precision: about 2,400 images/s"


def test_data_parallel_scales_and_pays_for_the_reduction() -> None:
    table = train(plan(), plan(dp=8))
    assert table.time_parts["data_parallel"][0] == 0
    assert table.time_parts["data_parallel"][1] > 0
    assert 5 < table.throughput[1] / table.throughput[0] <= 8


def test_accumulation_repeats_the_pass_but_not_the_update() -> None:
    table = train(plan(), plan(grad_accumulation=4))
    assert table.time_parts["convolution"][1] == pytest.approx(4 * table.time_parts["convolution"][0])
    assert table.time_parts["optimizer"][1] == pytest.approx(table.time_parts["optimizer"][0])


def test_recomputation_saves_memory() -> None:
    table = train(plan(), plan(recompute="full"))
    assert table.memory_parts["activations"][1] < table.memory_parts["activations"][0]


def test_depthwise_networks_use_less_of_the_peak() -> None:
    dense, depthwise = (train(plan(micro_batch=128), hardware="1xa100-sxm4-80gb", name=n).mfu[0] for n in ("resnet-50", "efficientnet-b0"))
    assert depthwise < dense < 1
