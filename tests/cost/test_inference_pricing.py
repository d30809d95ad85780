"""Inference plans: parts add up, laws of hardware and work, memory, and what the terms mean."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cost.inference import price_inference
from advisor.cost.inference_terms import numbers_of
from advisor.cost.price import PricedTable
from advisor.hardware import load
from advisor.hardware.platform import Platform
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for
from advisor.model.registry import model
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable
from advisor.usecases.calibration import load_calibration


def plan(**changes: Any) -> Plan:
    fields: dict[str, Any] = {"framework": "vllm", "execution": "engine", "precision": "bf16", "optimizer": "none", "attention": "paged"}
    fields |= {"threads": 0, **changes}
    fields["devices"] = fields.get("dp", 1) * fields.get("tp", 1) * fields.get("pp", 1)
    fields["global_batch"] = fields.get("micro_batch", 1) * fields.get("dp", 1)
    return Plan(**fields)


def price(
    *plans: Plan, hardware: str | Platform = "8xa100-sxm4-80gb", name: str = "llama-3-8b", prompt: int = 512, output: int = 128
) -> PricedTable:
    platform = platform_for(parse_spec(hardware)) if isinstance(hardware, str) else hardware
    workload = Workload(task="infer", seq_len=prompt, input_len=prompt, output_len=output)
    return price_inference(model(name), workload, platform, PlanTable.of(plans), load_calibration())


def with_sheet(**changes: float) -> Platform:
    sheet = load.profile("a100-sxm4-80gb")
    changed = {key: value for key, value in changes.items() if key != "peak"}
    if "peak" in changes:
        changed["dense_tflops"] = {d: v * changes["peak"] for d, v in sheet.dense_tflops.items()}  # type: ignore[assignment]
    return Platform(name="changed", profile=msgspec.structs.replace(sheet, **changed), devices=1, nodes=1, memory_bytes=80 << 30)


def test_parts_add_up_and_everything_is_finite() -> None:
    table = price(*(plan(micro_batch=b, tp=t, framework=f) for b in (1, 16) for t in (1, 4) for f in ("vllm", "tensorrt-llm", "torch")))
    assert table.time_s == pytest.approx(sum(table.time_parts.values()))
    assert table.memory_bytes == pytest.approx(sum(table.memory_parts.values()))
    for column in (table.time_s, table.ttft_s, table.tpot_s, table.throughput, table.mfu, table.energy_j):
        assert column is not None
        assert np.isfinite(column).all()
        assert (column > 0).all()
    assert (table.ttft_s < table.time_s).all()  # type: ignore[operator]


def test_utilization_is_the_same_work_over_the_time_and_all_devices() -> None:
    plans = (plan(micro_batch=8), plan(micro_batch=8, tp=8), plan(micro_batch=8, tp=4, pp=2), plan(micro_batch=8, pp=8))
    table = price(*plans)
    work = table.mfu * table.time_s * [p.devices for p in plans]
    assert work == pytest.approx(work[0], rel=0.01)


@settings(max_examples=25, deadline=None)
@given(
    batch=st.integers(1, 128), prompt=st.integers(2, 4096), output=st.integers(2, 1024),
    what=st.sampled_from(["batch", "prompt", "output"]), more=st.integers(1, 256),
)  # fmt: skip
def test_more_work_is_never_faster(batch: int, prompt: int, output: int, what: str, more: int) -> None:
    small = {"batch": batch, "prompt": prompt, "output": output}
    large = {**small, what: small[what] + more}
    first, second = (
        price(plan(micro_batch=s["batch"]), hardware="1xa100-sxm4-80gb", prompt=s["prompt"], output=s["output"]) for s in (small, large)
    )
    assert second.time_s[0] >= first.time_s[0] * (1 - 1e-9)
    assert second.memory_bytes[0] >= first.memory_bytes[0]


@settings(max_examples=15, deadline=None)
@given(batch=st.integers(1, 64), what=st.sampled_from(["peak", "memory_gb_per_s"]), factor=st.floats(1.0, 5.0))
def test_faster_hardware_is_never_slower(batch: int, what: str, factor: float) -> None:
    base = 1.0 if what == "peak" else 2039.0
    slow, fast = (price(plan(micro_batch=batch), hardware=with_sheet(**{what: base * f})) for f in (1.0, factor))
    assert fast.time_s[0] <= slow.time_s[0] * (1 + 1e-9)


def test_a_step_of_one_sequence_reads_the_weights() -> None:
    table = price(plan(), hardware="1xa100-sxm4-80gb", prompt=16, output=64)
    read = table.time_parts["decode_weights"][0] / 63
    assert 1.0 < read * 2.039e12 / (2 * 8.03e9) < 2.0
    assert table.evidence == "calibrated"


def test_four_bit_weights_decode_faster_and_take_less_memory() -> None:
    full, awq = price(plan(), hardware="1xa100-sxm4-80gb"), price(plan(quantization="int4-awq"), hardware="1xa100-sxm4-80gb")
    assert awq.time_s[0] < full.time_s[0] < 4 * awq.time_s[0]
    assert awq.memory_parts["weights"][0] < 0.4 * full.memory_parts["weights"][0]


def test_an_encoder_is_one_pass_and_has_no_first_token() -> None:
    table = price(plan(framework="torch", execution="eager", attention="flash"), name="bert-base", prompt=128, output=0)
    assert table.ttft_s is None
    assert table.tpot_s is None
    assert table.memory_parts["kv_cache"][0] == 0
    assert table.throughput_unit == "sequences/s"


def test_images_are_counted_as_images() -> None:
    table = price(plan(framework="torch", execution="eager", micro_batch=32), name="resnet-50", prompt=1, output=0)
    assert table.throughput_unit == "images/s"
    assert table.throughput[0] == pytest.approx(32 / table.time_s[0])


def test_tensor_parallel_divides_weights_and_adds_communication() -> None:
    table = price(plan(), plan(tp=4), name="llama-2-70b")
    assert table.memory_parts["weights"][1] == pytest.approx(table.memory_parts["weights"][0] / 4)
    assert table.time_parts["communication"][0] == 0
    assert table.time_parts["communication"][1] > 0
    assert table.time_s[1] < table.time_s[0]


def test_what_does_not_fit_is_said() -> None:
    table = price(plan(), plan(tp=4), name="llama-2-70b")
    assert not table.fits[0]
    assert table.fits[1]


@pytest.mark.parametrize(
    ("precision", "quantization", "compute", "stored"),
    [("bf16", "none", "bf16", 2.0), ("fp16", "int8", "fp16", 1.0), ("bf16", "fp8", "fp8", 1.0), ("fp32", "int8-dynamic", "int8", 1.0)],
)
def test_how_numbers_are_held(precision: str, quantization: str, compute: str, stored: float) -> None:
    numbers = numbers_of(precision, quantization)
    assert numbers.compute == compute
    assert numbers.weight_bytes == stored


def test_dynamic_int8_leaves_attention_and_activations_at_the_plans_precision() -> None:
    assert numbers_of("fp32", "int8-dynamic").other == "fp32"
    assert numbers_of("fp32", "int8-dynamic").activation_bytes == 4
    assert numbers_of("fp8", "none").other == "bf16"


def test_requests_wait_longer_the_faster_they_come() -> None:
    platform, table = platform_for(parse_spec("1xa100-sxm4-80gb")), PlanTable.of([plan(micro_batch=16)])
    given = {"seq_len": 512, "input_len": 512, "output_len": 128}
    free = price_inference(model("llama-3-8b"), Workload(task="serve", **given), platform, table, load_calibration())
    most = 16 / free.time_s[0]
    waits = []
    for share in (0.1, 0.6, 0.95, 2.0):
        priced = price_inference(
            model("llama-3-8b"), Workload(task="serve", request_rate=share * most, **given), platform, table, load_calibration()
        )
        assert priced.time_s[0] == pytest.approx(sum(column[0] for column in priced.time_parts.values()))
        assert priced.throughput[0] == pytest.approx(min(share, 1.0) * most * 128)
        assert np.isfinite(priced.ttft_s[0])  # type: ignore[index]
        waits.append(float(priced.time_parts["queue"][0]))
    assert waits == sorted(waits)
    assert waits[0] < 0.01 * free.time_s[0] < waits[-1]


def test_an_empty_table_is_priced() -> None:
    assert len(price()) == 0


def test_experts_are_dealt_out_over_devices() -> None:
    """Weights of experts divide by ep, the rest does not; tokens then travel, and no device computes less than its mean share."""
    whole, shared = price(plan(tp=1, dp=8, micro_batch=8), plan(tp=1, dp=8, ep=8, micro_batch=8), name="mixtral-8x7b").memory_parts[
        "weights"
    ]
    mixtral = model("mixtral-8x7b")
    experts = 2.0 * sum(b.expert_parameters * b.repeat for b in mixtral.blocks)
    assert whole - shared == pytest.approx(experts * 7 / 8, rel=1e-6)


def test_expert_parallel_decoding_reads_fewer_weights_and_sends_tokens() -> None:
    table = price(plan(tp=1, dp=8, micro_batch=4), plan(tp=1, dp=8, ep=8, micro_batch=4), name="mixtral-8x7b")
    assert table.time_parts["decode_weights"][1] < 0.5 * table.time_parts["decode_weights"][0]
    assert table.time_parts["communication"][0] == 0
    assert table.time_parts["communication"][1] > 0
    assert table.row_evidence is not None
    assert table.row_evidence[1] in ("transferred", "spec")


@settings(max_examples=20, deadline=None)
@given(batch=st.integers(1, 64), tp=st.sampled_from([1, 2, 4, 8]), ep=st.sampled_from([1, 2, 4, 8]))
def test_the_busiest_device_has_at_least_the_mean_of_the_experts(batch: int, tp: int, ep: int) -> None:
    """Prompt products of all devices together are never less than those of one replica under tensor parallelism alone."""
    alone, shared = price(
        plan(tp=tp, dp=8 // tp, micro_batch=batch),
        plan(tp=tp, dp=8 // tp, ep=ep, micro_batch=batch),
        name="mixtral-8x7b",
        prompt=512,
        output=1,
    ).time_parts["prefill"]
    assert shared >= 0.8 * alone


def test_a_dense_model_has_no_experts_to_share() -> None:
    table = price(plan(tp=2, dp=4), plan(tp=2, dp=4, ep=4), name="llama-3-8b")
    assert table.time_s[0] == table.time_s[1]
    assert table.memory_bytes[0] == table.memory_bytes[1]
