"""The verdict of an answer: the sentence that comes first, and the words for a plan and for what is wrong with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.plan.records import Plan
from advisor.search.records import Candidate, Nearest, Rejected
from advisor.units import format_bytes, format_rate, format_seconds

if TYPE_CHECKING:
    from advisor.search.analytic import Ranking
    from advisor.usecases.question import Question

_DOING = {"train": "training", "finetune": "fine-tuning", "infer": "inference", "serve": "serving"}
#: How a limit is told: its unit, and whether more or less is asked for.
_SECONDS = ("ttft_s", "tpot_s", "latency_s")


def verdict(
    question: Question, ranking: Ranking, candidates: Sequence[Candidate], rejected: Sequence[Rejected], nearest: Sequence[Nearest]
) -> str:
    """Return yes or no with the number that decides it."""
    model, platform = question.model, question.platform
    doing = _DOING[question.workload.task]
    where = f"{platform.devices} × {platform.profile.name}"
    if not candidates:
        way = next((n for n in nearest if n.hardware != platform.name), nearest[0] if nearest else None)
        out = f" The smallest that does it: {way.change}." if way is not None else ""
        missed = missed_limits(ranking)
        if missed:
            return f"No: {doing} {model.name} fits {where}, but no plan keeps {missed}.{out}"
        excess = next((r.text for r in rejected if r.code == "DOES-NOT-FIT"), "no plan keeps the limits")
        return f"No: {doing} {model.name} does not fit {where}; {excess}.{states_sentence(question)}{out}"
    best = candidates[0]
    text = f"Yes: {doing} {model.name} on {where} with {best.plan.framework}, {summary(best.plan)}"
    if best.estimate.step_time_s is not None and question.workload.is_training:
        text += f": {format_seconds(best.estimate.step_time_s.value)} a step"
    elif best.estimate.latency_s is not None:
        text += f": {format_seconds(best.estimate.latency_s.value)} a batch of {best.plan.global_batch}"
    if best.estimate.throughput is not None:
        text += f", {format_rate(best.estimate.throughput.value, best.estimate.throughput_unit)}"
    if best.plan.offload != "none" and only_offload(ranking):
        text += f". Only with offload to the host.{states_sentence(question)}"
    return text if text.endswith(".") else text + "."


def only_offload(ranking: Ranking) -> bool:
    """Tell whether nothing is possible without offload to the host."""
    return not bool((ranking.possible & ranking.plans.equals("offload", "none")).any())


def missed_limits(ranking: Ranking) -> str:
    """Return the limits of the question that no plan which fits the memory keeps, each with the best that was reached; else ''."""
    limits = ranking.context.workload.limits
    fitting = ranking.constraints.get("memory_bytes")
    rows = (fitting <= 0) if fitting is not None else ranking.score == ranking.score
    if not limits or not rows.any():
        return ""
    words = []
    for name, limit in limits.items():
        broken = ranking.constraints[name][rows]
        if float(broken.min()) > 0:
            reached = limit - float(broken.min()) if name == "throughput" else limit + float(broken.min())
            words.append(f"{name} {_amount(name, limit)} (the best reaches {_amount(name, reached)})")
    if words:
        return " and ".join(words)
    return " together with ".join(f"{name} {_amount(name, limit)}" for name, limit in limits.items())


def _amount(name: str, value: float) -> str:
    if name in _SECONDS:
        return format_seconds(value)
    return format_bytes(value) if name == "memory_bytes_per_device" else f"{value:,.4g}"


def states_sentence(question: Question) -> str:
    """Return what the model states alone take, unsharded: the number behind most of the noes."""
    p = question.model.parameters
    if question.workload.is_training and question.request.fixed.get("adapter", "none") == "none":
        return f" The states alone (weights, gradients, Adam) take {16 * p / 1e9:.0f} GB, 16 B a parameter."
    return f" The weights alone take {2 * p / 1e9:.1f} GB in 16 bits, {p / 1e9:.1f} GB in 8, {p / 2e9:.1f} GB in 4."


def excess(ranking: Ranking, row: int) -> str:
    """Return what keeps the plan of ``row`` from being the answer, with the number."""
    from advisor.search.objective import SOFT

    broken = {name: float(values[row]) for name, values in ranking.constraints.items() if float(values[row]) > 0}
    if "memory_bytes" in broken and ranking.priced.memory_limit_bytes is not None:
        need, limit = float(ranking.priced.memory_bytes[row]), float(ranking.priced.memory_limit_bytes)
        if need > limit:
            return f"needs {format_bytes(need)} per device, {format_bytes(limit)} can be used: {format_bytes(need - limit)} too much"
        return f"needs more host memory than is known to be there ({format_bytes(need)} on the device fits)"
    hard = {name: value for name, value in broken.items() if name not in SOFT}
    if hard:
        limits = ranking.context.workload.limits
        return ", ".join(
            f"misses --limit {name} {_amount(name, limits.get(name, 0.0))} by {_amount(name, value)}" for name, value in hard.items()
        )
    if "adapter" in broken:
        return f"fits with {ranking.plans.plan(row).adapter} only, which trains less than the answer does"
    if "weight_bits" in broken:
        return "four-bit weights change the output, and plans with eight bits or more fit"
    if "server" in broken:
        return "no server of its own: an engine takes requests as they come"
    if "host_memory" in broken:
        return "offload to the host is a way to fit, and plans without it fit"
    if "headroom_bytes" in broken:
        need, limit = float(ranking.priced.memory_bytes[row]), float(ranking.priced.memory_limit_bytes or 0.0)
        return f"leaves only {format_bytes(max(limit - need, 0.0))} of {format_bytes(limit)} free: one longer batch may end it"
    if "evidence" in broken:
        return "no run of its framework was measured on this kind of device"
    return "slower at the chosen batch"


def summary(plan: Plan) -> str:
    """Return a plan in a few words: what differs from the plain way."""
    words = [plan.precision]
    if plan.quantization != "none":
        words.append(plan.quantization)
    words += [
        f"{name}={degree}"
        for name, degree in (("dp", plan.dp), ("tp", plan.tp), ("pp", plan.pp), ("vpp", plan.vpp), ("cp", plan.cp), ("ep", plan.ep))
        if degree > 1
    ]
    if plan.sharding != "none":
        words.append(plan.sharding)
    words.append(f"micro-batch {plan.micro_batch}" + (f" × {plan.grad_accumulation}" if plan.grad_accumulation > 1 else ""))
    if plan.adapter != "none":
        words.append(f"{plan.adapter} rank {plan.adapter_rank}")
    if plan.recompute != "none":
        words.append(f"{plan.recompute} recompute")
    if plan.offload != "none":
        words.append(f"{plan.offload} offloaded")
    if plan.execution not in ("eager", "engine"):
        words.append(plan.execution)
    return ", ".join(words)
