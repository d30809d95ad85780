"""Reasons for an answer, each with its number, in the order a reader asks: does it fit, how fast, what limits it, why not otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from advisor.cost.inference_terms import numbers_of
from advisor.cost.records import Estimate
from advisor.hardware.platform import Platform
from advisor.model.records import Model
from advisor.plan.precision import precision_obstacle
from advisor.plan.records import Plan, Workload
from advisor.search.advice import Case, advice
from advisor.search.objective import SAFE_BITS, weight_bits
from advisor.search.records import Candidate, Reason
from advisor.search.verified import low_precision_mask
from advisor.units import format_bytes, format_rate, format_seconds

if TYPE_CHECKING:
    from advisor.plan.table import Array, PlanTable
    from advisor.search.analytic import Ranking

_BOTTLENECK = {
    "compute": "arithmetic takes the largest share of the step",
    "memory_bandwidth": "reading and writing device memory takes the largest share",
    "communication": "waiting for the network takes the largest share",
    "bubble": "the pipeline's fill and drain take the largest share",
    "launch": "launching kernels takes the largest share: the work per kernel is too small",
    "input": "reading the input takes the largest share",
}


def reasons(case: Case, others: Sequence[Candidate]) -> tuple[Reason, ...]:
    """Return why the plan of ``case`` is the answer; ``others`` are the runners-up in order."""
    model, workload, platform, plan, estimate = case.model, case.workload, case.platform, case.plan, case.estimate
    found = [
        *_memory(estimate, platform),
        _bottleneck(estimate),
        *_precision(model, platform, plan, workload),
        *_parallelism(platform, plan, others),
        *_tie(plan, others),
        *_quantization(case),
        *_recompute(plan, estimate, platform),
        *_batch(case),
        _evidence(estimate),
        *advice(case),
    ]
    return tuple(found)


def _memory(estimate: Estimate, platform: Platform) -> list[Reason]:
    memory = estimate.memory_bytes_per_device
    if memory is None or not platform.memory_bytes:
        return []
    largest = sorted(estimate.memory_parts_bytes.items(), key=lambda kv: -kv[1])[:3]
    parts = ", ".join(f"{name.replace('_', ' ')} {format_bytes(value)}" for name, value in largest if value > 0)
    text = f"{format_bytes(memory.value)} of {format_bytes(platform.memory_bytes)} per device: {parts}"
    return [Reason(code="MEMORY", text=text, value=memory.value)]


def _bottleneck(estimate: Estimate) -> Reason:
    total = sum(estimate.time_parts_s.values()) or 1.0
    name, value = max(estimate.time_parts_s.items(), key=lambda kv: kv[1], default=("", 0.0))
    text = f"bottleneck {estimate.bottleneck.replace('_', ' ')}: {_BOTTLENECK[estimate.bottleneck]}"
    if name:
        text += f"; the largest single part is {name.replace('_', ' ')}, {format_seconds(value)} or {100 * value / total:.0f} %"
    return Reason(code="BOTTLENECK", text=text, value=estimate.bottleneck)


def _precision(model: Model, platform: Platform, plan: Plan, workload: Workload) -> list[Reason]:
    bf16 = precision_obstacle("bf16", platform, model)
    peak = platform.profile.dense_tflops.get(plan.precision)
    rate = f" ({format_rate(peak * 1e12, 'flops_per_s')} dense peak)" if peak else ""
    if plan.precision == "bf16":
        text = f"bf16{rate}: the range of fp32, so no loss scaling" if workload.is_training else f"bf16{rate}"
    elif plan.precision == "fp16":
        text = f"fp16{rate}" + (f", because {bf16}" if bf16 else "")
        if workload.is_training:
            text += "; needs dynamic loss scaling"
    elif plan.precision == "fp32" and bf16 and not platform.is_cpu:
        text = f"fp32, because {bf16}"
    else:
        text = f"{plan.precision}{rate}"
    return [Reason(code="PRECISION", text=text, value=plan.precision)]


def _quantization(case: Case) -> list[Reason]:
    plan = case.plan
    if plan.quantization == "none":
        return []
    few = plan.quantization.startswith(("int4", "nf4", "fp4"))
    text = f"{plan.quantization} weights"
    if case.workload.output_len and numbers_of(plan.precision, plan.quantization).cache_bytes == 1.0:
        text += ", and keys and values in 8 bits"
    if few and _none_fits(case.ranking, narrow=lambda plans: weight_bits(plans) < SAFE_BITS):
        text += ", because nothing with eight bits or more fits"
    elif not few and _none_fits(case.ranking, narrow=low_precision_mask):
        text += ", because nothing in 16 bits fits"
    text += ": the output changes a little, so check it on your own task (`--fix quantization=none` leaves it out)"
    return [Reason(code="QUANTIZATION", text=text, value=plan.quantization)]


def _none_fits(ranking: Ranking | None, *, narrow: Callable[[PlanTable], Array]) -> bool:
    """Tell whether plans that are not ``narrow`` were priced and none of them is possible."""
    if ranking is None:
        return False
    wide = ~narrow(ranking.plans)
    return bool(wide.any()) and not bool((wide & ranking.possible).any())


def _tie(plan: Plan, others: Sequence[Candidate]) -> list[Reason]:
    """Say that there is a tie, and how it is broken."""
    tied = [o for o in others if o.tie]
    if not tied:
        return []
    names = ", ".join(dict.fromkeys(f"{o.family} through {o.plan.framework}" for o in tied[:4]))
    first = max(tied, key=lambda o: o.ratio)
    text = (
        f"a tie within the error of the prediction ({100 * abs(first.ratio - 1.0):.1f} % at most) with {names}; broken by the "
        f"prediction, and within 0.5 % of it "
        "by what is better known and easier to run: no offload, runs measured, memory to spare, fewer kinds of parallelism, eager before "
        "compiled, the larger micro-batch. "
        "Choose by features where you know one of them better"
    )
    return [Reason(code="TIE", text=text, value=float(len(tied)))]


def _parallelism(platform: Platform, plan: Plan, others: Sequence[Candidate]) -> list[Reason]:
    if platform.devices == 1 and plan.devices == 1:
        return []
    used = [
        f"{word} {degree}"
        for word, degree in (("data", plan.dp), ("tensor", plan.tp), ("pipeline", plan.pp), ("context", plan.cp))
        if degree > 1
    ]
    text = "parallelism " + (" × ".join(used) or "none")
    if plan.sharding != "none":
        text += f", {plan.sharding} over {plan.shard_degree}"
    slower = {f"{o.family} through {o.plan.framework}": o.ratio for o in reversed(others) if o.ratio > 1}
    if slower:
        nearest = sorted(slower.items(), key=lambda pair: pair[1])[:3]
        text += "; next best: " + "; ".join(f"{name} {100 * (ratio - 1):.1f} % worse" for name, ratio in nearest)
    return [Reason(code="PARALLELISM", text=text, value=f"dp{plan.dp} tp{plan.tp} pp{plan.pp} cp{plan.cp}")]


def _recompute(plan: Plan, estimate: Estimate, platform: Platform) -> list[Reason]:
    cost = estimate.time_parts_s.get("recompute", 0.0)
    if plan.recompute == "none":
        return []
    total = sum(estimate.time_parts_s.values()) or 1.0
    text = (
        f"{plan.recompute} recomputation of activations costs {format_seconds(cost)} a step ({100 * cost / total:.0f} %); "
        "without it the plan is slower or does not fit"
    )
    return [Reason(code="RECOMPUTE", text=text, value=cost)]


def _batch(case: Case) -> list[Reason]:
    if case.workload.global_batch is not None:
        return []
    if case.workload.objective != "throughput":
        return [
            Reason(
                code="BATCH-CHOSEN",
                text=f"batch {case.plan.global_batch} is the best for {case.workload.objective}",
                value=case.plan.global_batch,
            )
        ]
    text = (
        f"batch {case.plan.global_batch} is the knee: the smallest that reaches 95 % of the best throughput; "
        "a larger one only costs memory and latency, and fewer updates for the same samples in training"
    )
    return [Reason(code="BATCH-KNEE", text=text, value=case.plan.global_batch)]


_EVIDENCE: Mapping[str, str] = {
    "measured": "measured on this machine",
    "calibrated": "fitted on published measurements of this product",
    "transferred": "fitted on measurements of related products, carried over by the data sheet",
    "spec": "from the data sheet and priors alone: no measurement of this kind of device is known",
}


def _evidence(estimate: Estimate) -> Reason:
    text = f"evidence {estimate.evidence}: {_EVIDENCE[estimate.evidence]}"
    if estimate.measurements:
        count = len(estimate.measurements)
        named = ", ".join(estimate.measurements[:3]) + (" …" if count > 3 else "")
        text += f"; rests on {count} stored measurement{'s' if count != 1 else ''} ({named})"
    return Reason(code="EVIDENCE", text=text, value=estimate.evidence)


def loses(best: Estimate, other: Estimate, ratio: float, *, tie: bool) -> str:
    """Return one sentence: why ``other`` is not the answer, by the part of the time that grew most."""
    if tie:
        return f"within the model's own error ({100 * (ratio - 1):+.1f} %): a tie"
    names = dict.fromkeys([*other.time_parts_s, *best.time_parts_s])
    grown = {name: other.time_parts_s.get(name, 0.0) - best.time_parts_s.get(name, 0.0) for name in names}
    name = max(grown, key=lambda key: grown[key], default="")
    text = f"{100 * (ratio - 1):.1f} % worse" if ratio >= 1 else f"{100 * (1 / ratio - 1):.1f} % better by the objective"
    if name and grown[name] > 0 and ratio >= 1:
        text += f": {format_seconds(grown[name])} more {name.replace('_', ' ')}"
    return text
