"""Number formats: which the device has, at what dense peak, what was measured, and what a format asks of the training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from advisor.plan.precision import precision_obstacle
from advisor.plan.records import Plan
from advisor.search.advice._case import Case
from advisor.search.records import Reason
from advisor.search.verified import low_precision_mask
from advisor.units import format_rate

_TABLE = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")
#: Dynamic loss scaling as torch.amp.GradScaler and DeepSpeed start it: the scale doubles after so many steps without an overflow.
LOSS_SCALE = {"initial_scale": 65536, "growth_factor": 2, "backoff_factor": 0.5, "growth_interval": 2000}
#: Above this a utilization says that the peak belongs to another device.
_IMPOSSIBLE_MFU = 1.0


def number_advice(case: Case) -> Iterator[Reason]:
    """Yield the table of formats, loss scaling, eight bits without proof, and the peak that utilization is counted against."""
    yield _table(case)
    if case.plan.precision == "fp16" and case.workload.is_training:
        s = LOSS_SCALE
        text = (
            f"fp16 training scales the loss: start at {s['initial_scale']}, double after {s['growth_interval']} steps without "
            f"overflow, halve on "
            "one and skip that step; keep fp32 master weights, and clip gradients after unscaling"
        )
        yield Reason(code="LOSS-SCALE", text=text, value=float(s["initial_scale"]), detail=dict(s))
    yield from _unverified(case)
    yield from _peak(case)


def measured_rates(case: Case) -> dict[str, float]:
    """Return the best product measured on this device by dtype, in FLOP/s."""
    best: dict[str, float] = {}
    for point in case.platform.points:
        if point.kind == "gemm":
            best[point.dtype] = max(best.get(point.dtype, 0.0), point.rate)
    return best


def _table(case: Case) -> Reason:
    measured, sheet = measured_rates(case), case.platform.profile.dense_tflops
    rows = {}
    words = []
    for name in _TABLE:
        obstacle = precision_obstacle(name, case.platform, case.model)
        peak = sheet.get(name, sheet.get(f"{name}_vector"))
        rows[name] = {
            "dense_flops_per_s": None if peak is None else peak * 1e12,
            "measured_flops_per_s": measured.get(name),
            "obstacle": obstacle,
        }
        if obstacle is None and (peak is not None or name in measured):
            told = format_rate(peak * 1e12, "flops_per_s") if peak is not None else "peak unknown"
            words.append(f"{name} {told}" + (f" (measured {format_rate(measured[name], 'flops_per_s')})" if name in measured else ""))
    tail = "" if measured else "; none measured here: `advisor bench gemm` does"
    return Reason(code="PRECISIONS", text="dense peaks: " + ", ".join(words) + tail, value=case.plan.precision, detail=rows)


def _unverified(case: Case) -> Iterator[Reason]:
    if case.ranking is None or not len(case.ranking.order):
        return
    chosen = case.sibling()
    low = case.plan.precision if case.plan.precision in ("fp8", "fp4", "int8") else case.plan.quantization
    if case.estimate.evidence == "measured" and case.estimate.measurements:
        return  # this very plan was run, or this machine's own products in eight bits were
    if chosen is not None and case.ranking.unverified[chosen]:
        text = (
            f"{low} is unverified: no {low} product of this size was measured on this kind of device, the gain is the data "
            f"sheet's; measure it (`advisor bench gemm --dtype {low.split('-')[0]}`) before you rely on it"
        )
        text += _wider(case)
        yield Reason(code="UNVERIFIED", text=text, value=low)
        return
    feasible, score = case.ranking.possible, case.ranking.score
    doubtful = feasible & case.ranking.unverified
    if chosen is None or not doubtful.any():
        return
    gain = float(score[chosen] / score[doubtful].min() - 1.0)
    if gain > 0:
        text = (
            f"eight bits or fewer are predicted {100 * gain:.0f} % better, which is unverified on this device and within the "
            f"interval of the "
            "prediction: not recommended before a measurement"
        )
        yield Reason(code="UNVERIFIED", text=text, value=gain)


def _wider(case: Case) -> str:
    """Return what to type for the best plan in 16 bits or more, with its price; or that there is none."""
    ranking, chosen = case.ranking, case.sibling()
    if ranking is None or chosen is None:
        return ""
    batch = ranking.plans.columns["global_batch"]
    rows = np.flatnonzero(ranking.possible & ~low_precision_mask(ranking.plans))
    same = rows[batch[rows] == batch[chosen]]
    rows = same if len(same) else rows
    if not len(rows):
        return "; in 16 bits nothing fits here, so there is no safe way out on these devices"
    best = int(rows[np.argmin(ranking.score[rows])])
    plan = ranking.plans.plan(best)
    pins = " ".join(f"--fix {name}={getattr(plan, name)}" for name in ("precision", "quantization") if _differs(plan, case.plan, name))
    return (
        f", or take {pins or f'--fix precision={plan.precision}'}: {100 * (ranking.score[best] / ranking.score[chosen] - 1.0):.0f} % worse"
    )


def _differs(plan: Plan, other: Plan, name: str) -> bool:
    return bool(getattr(plan, name) != getattr(other, name))


def _peak(case: Case) -> Iterator[Reason]:
    peak = case.platform.profile.dense_tflops.get(case.plan.precision)
    if case.estimate.mfu is None or peak is None or case.platform.is_cpu:
        return
    told = format_rate(peak * 1e12, "flops_per_s")
    text = f"utilization counts against the dense peak of {told}"
    if (case.platform.profile.arch or "").removesuffix("a") in _SPARSE and case.plan.precision not in ("fp32", "fp64"):
        text += f"; figures of {format_rate(2 * peak * 1e12, 'flops_per_s')} are with 2:4 sparsity, which dense weights do not use"
    if case.estimate.mfu.value > _IMPOSSIBLE_MFU:
        text = f"utilization above 100 %: the peak of {told} is wrong for this device"
    yield Reason(code="DENSE-PEAK", text=text, value=peak * 1e12)


#: Generations whose vendor also quotes a 2:4-sparse rate, twice the dense one.
_SPARSE = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "gfx942", "gfx950")
