"""Estimate one plan; sweep one knob; compare several kinds of hardware; find the smallest that does it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.cost.records import Estimate
from advisor.errors import UsageError
from advisor.plan.records import PLAN_FIELDS, Plan
from advisor.search.records import Nearest, Reason, Recommendation, plan_id
from advisor.usecases.answer import what_if
from advisor.usecases.question import Question, Request, resolve
from advisor.usecases.recommend import rank_question, recommend, with_fixed

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration
    from advisor.search.analytic import Ranking


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEstimate:
    """The document of ``advisor estimate --json``: one plan, priced."""

    assumed: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    task: str
    objective: str
    plan_id: str
    plan: Plan
    estimate: Estimate
    why: tuple[Reason, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"schema_version": 1, **asdict(self)}


def estimate(request: Request, plan: Mapping[str, Any] | None = None, *, database_url: str | None = None) -> PlanEstimate:
    """Price one plan. Fields that ``plan`` leaves out are chosen as ``recommend`` would choose them.

    UsageError with every broken rule if no legal plan has these fields.
    """
    from advisor.search.advice import Case
    from advisor.search.why import reasons
    from advisor.usecases.calibration import load_calibration
    from advisor.usecases.nearby import nearby

    question = resolve(request, database_url)
    calibration = load_calibration()
    fixed = {**question.request.fixed, **(plan or {})}
    ranking, row = _one_plan(question, fixed, calibration)
    chosen = ranking.plans.plan(row)
    beside = _beside(question, chosen, calibration)
    value = ranking.priced.estimate(row)
    case = Case(model=question.model, workload=question.workload, platform=question.platform, plan=chosen, estimate=value, ranking=beside)
    return PlanEstimate(
        assumed={**question.assumed, **({"global_batch": chosen.global_batch} if "global_batch" in question.assumed else {})},
        model=question.model_document(),
        hardware=question.hardware.document(),
        task=question.workload.task,
        objective=question.workload.objective,
        plan_id=plan_id(question.identity(), chosen),
        plan=chosen,
        estimate=value,
        why=(*reasons(case, ()), *nearby(question, chosen)),
        notes=question.notes,
    )


#: Fields in which the plans beside an estimate may differ from it: what a reader would change to relieve its memory or its time.
_FREE = ("execution", "recompute", "attention", "sharding", "shard_degree", "offload")


def _beside(question: Question, plan: Plan, calibration: Calibration) -> Ranking | None:
    """Return the plans that differ from ``plan`` in how it is run alone (recomputation, attention, sharding, offload, compiling)."""
    pinned = {name: value for name, value in plan.to_dict().items() if name not in _FREE}
    found = []
    for attention in dict.fromkeys((plan.attention, "flash")):
        try:
            found.append(rank_question(with_fixed(question, {**pinned, "attention": attention}), calibration))
        except UsageError:
            continue  # this framework or device has no such attention
    if len(found) < 2:
        return found[0] if found else None
    from advisor.cost.price import price
    from advisor.plan.table import PlanTable
    from advisor.search.analytic import order_plans
    from advisor.search.verified import unverified_mask

    plans = PlanTable.concat([r.plans for r in found])
    context = found[0].context
    priced = price(context.model, context.workload, context.platform, plans, calibration)
    doubtful = unverified_mask(context.model, context.workload, context.platform, plans, priced, calibration)
    return order_plans(context, plans, priced, doubtful)


def read_plan(text: str) -> dict[str, Any]:
    """Return a plan's fields from ``KEY=VALUE,…`` or a JSON or YAML file (a plan, or an answer that holds one)."""
    from advisor.usecases.pairs import pairs
    from advisor.yamlio import read_yaml

    path = Path(text)
    if "=" in text and not path.is_file():
        return dict(pairs([text], "--plan"))
    document = read_yaml(path)
    for key in ("recommendation", "plan"):
        if isinstance(document, dict) and isinstance(document.get(key), dict):
            document = document[key]
    if not isinstance(document, dict) or not document:
        raise UsageError(f"{text} holds no plan", "a mapping of plan fields is expected", code="NOT-A-PLAN")
    if any(isinstance(value, dict | list) or value is None for value in document.values()):
        raise UsageError(f"{text}: every field of a plan is one value", code="NOT-A-PLAN")
    return {str(key): value for key, value in document.items()}


def _one_plan(question: Question, fixed: Mapping[str, Any], calibration: Calibration) -> tuple[Ranking, int]:
    """Return the ranking of the plans with these fields and the row to show: the best, or the least infeasible."""
    from advisor.search.space import check_fixed

    pinned = check_fixed(fixed)
    question = with_fixed(question, pinned)
    try:
        ranking = rank_question(question, calibration)
    except UsageError as error:
        if error.code != "NO-LEGAL-PLAN":
            raise
        raise UsageError(error.message, code="ILLEGAL-PLAN") from error
    if len(ranking.order):
        return ranking, int(ranking.order[0])
    return ranking, int(np.lexsort((ranking.score, ranking.priced.memory_bytes))[0])


def sweep(request: Request, field: str, *, database_url: str | None = None) -> dict[str, Any]:
    """Return one knob of the plan over its legal values, the rest chosen anew for each value (the best plan that has it)."""
    from advisor.search.space import check_fixed
    from advisor.usecases.calibration import load_calibration

    if field not in PLAN_FIELDS:
        check_fixed({field: "1"})
    question = resolve(request, database_url)
    ranking = rank_question(question, load_calibration())
    values = [getattr(ranking.plans.plan(row), field) for row in _first_of_each(ranking, field)]
    points = []
    for row in _first_of_each(ranking, field):
        plan = ranking.plans.plan(row)
        points.append({"value": getattr(plan, field), "plan": plan.to_dict(), "estimate": ranking.priced.estimate(row).to_dict()})
    points.sort(key=lambda p: (isinstance(p["value"], str), p["value"]))
    feasible = [p for p in points if p["estimate"]["fits"]]
    best = int(ranking.order[0]) if len(ranking.order) else None
    return {
        "schema_version": 1,
        "assumed": question.assumed,
        "model": question.model_document(),
        "hardware": question.hardware.document(),
        "task": question.workload.task,
        "param": field,
        "best": None if best is None else getattr(ranking.plans.plan(best), field),
        "points": points,
        "feasible": bool(feasible) and bool(values),
    }


def _first_of_each(ranking: Ranking, field: str) -> list[int]:
    """Return for each value of ``field`` the row of the best plan that has it: feasible ones first, then the least infeasible."""
    plans, priced = ranking.plans, ranking.priced
    infeasible = ~ranking.feasible
    order = np.lexsort((ranking.score, np.where(infeasible, priced.memory_bytes, 0.0), infeasible))
    _, first = np.unique(plans.columns[field][order], return_index=True)
    return [int(order[i]) for i in first]


def compare(request: Request, hardware: Sequence[str], *, database_url: str | None = None) -> dict[str, Any]:
    """Answer one question on several kinds of hardware; each answer whole, and a ranking by the objective.

    With prices the table also ranks by cost; without, by performance alone, and says so.
    """
    given = request.given | {"hardware"}
    answers = [recommend(replace(request, hardware=text, given=given), database_url=database_url, save=False) for text in hardware]
    rows = [_comparison_row(text, answer) for text, answer in zip(hardware, answers, strict=True)]
    best = min((r for r in rows if r["feasible"]), key=lambda r: r["rank_value"], default=None)
    for row in rows:
        row["ratio"] = None if best is None or not row["feasible"] or not best["rank_value"] else row["rank_value"] / best["rank_value"]
    _mark_pareto(rows)
    priced = all(a.recommendation is None or a.recommendation.estimate.cost_usd is not None for a in answers)
    note = "ranked by the objective" if priced else "no prices were given: ranked by performance alone (--price PROFILE=USD_PER_HOUR)"
    return {
        "schema_version": 1,
        "task": request.task,
        "objective": request.objective,
        "feasible": best is not None,
        "best": None if best is None else best["hardware"],
        "ranking": sorted(rows, key=lambda r: (not r["feasible"], r["rank_value"] if r["feasible"] else 0.0)),
        "note": note,
        "answers": [answer.to_dict() for answer in answers],
    }


def _comparison_row(text: str, answer: Recommendation) -> dict[str, Any]:
    best = answer.recommendation
    if best is None:
        return {"hardware": text, "feasible": False, "rank_value": None, "verdict": answer.verdict}
    e = best.estimate
    value = {
        "throughput": 1.0 / e.throughput.value if e.throughput else None,
        "latency": e.latency_s.value if e.latency_s else (e.step_time_s.value if e.step_time_s else None),
        "memory": e.memory_bytes_per_device.value if e.memory_bytes_per_device else None,
        "cost": e.cost_usd.value / best.plan.global_batch if e.cost_usd else None,
        "energy": e.energy_j.value / best.plan.global_batch if e.energy_j else None,
    }[answer.objective]
    return {
        "hardware": text,
        "feasible": True,
        "rank_value": value,
        "plan": best.plan.to_dict(),
        "estimate": e.to_dict(),
        "verdict": answer.verdict,
        "bound": e.bottleneck,
        "usd_per_unit": _usd_per_unit(answer),
    }


def _usd_per_unit(answer: Recommendation) -> float | None:
    """Return the price of a million units of throughput (tokens, images), None without a price."""
    best = answer.recommendation
    if best is None or best.estimate.cost_usd is None or best.estimate.throughput is None:
        return None
    time_s = best.estimate.step_time_s or best.estimate.latency_s
    if time_s is None or not time_s.value or not best.estimate.throughput.value:
        return None
    return 1e6 * best.estimate.cost_usd.value / time_s.value / best.estimate.throughput.value


def _mark_pareto(rows: list[dict[str, Any]]) -> None:
    """Mark the rows that no other beats in both throughput and price of a unit; without prices those of the best throughput alone."""
    for row in rows:
        row["pareto"] = row["feasible"] and not any(_beats(other, row) for other in rows if other is not row and other["feasible"])


def _beats(other: dict[str, Any], row: dict[str, Any]) -> bool:
    rate, rival = row["estimate"]["throughput"]["value"], other["estimate"]["throughput"]["value"]
    price, offer = row["usd_per_unit"], other["usd_per_unit"]
    if price is None or offer is None:
        return bool(rival > rate)
    return bool(rival >= rate and offer <= price and (rival > rate or offer < price))


def fit(request: Request, profiles: Sequence[str] | None = None, *, database_url: str | None = None) -> dict[str, Any]:
    """Return the smallest hardware that does it: for each product the fewest devices, without offload.

    ``profiles`` limits the products (names or aliases); by default the usual ones of every vendor.
    """
    from advisor.hardware.load import all_profiles, profile
    from advisor.search.nearest import USUAL, smallest_count
    from advisor.usecases.calibration import load_calibration

    start = time.perf_counter()
    names = list(profiles) if profiles else [n for n in USUAL if n in all_profiles()]
    first = profile(names[0])
    question = resolve(replace(request, hardware=f"1x{first.id}", given=request.given | {"hardware"}), database_url)
    calibration = load_calibration()
    found: list[Nearest] = []
    refused: list[str] = []
    for name in names:
        product = profile(name)
        best = smallest_count(question.model, question.workload, product, calibration, what_if, question.request.fixed)
        if best is None:
            refused.append(product.id)
            continue
        text, ranking = best
        row = int(ranking.order[0])
        count = ranking.context.platform.devices
        found.append(
            Nearest(change=f"{count} × {product.name}", hardware=text, plan=ranking.plans.plan(row), estimate=ranking.priced.estimate(row))
        )
    found.sort(key=lambda n: (n.plan.devices, n.estimate.memory_bytes_per_device.value if n.estimate.memory_bytes_per_device else 0.0))
    return {
        "schema_version": 1,
        "assumed": question.assumed,
        "model": question.model_document(),
        "task": question.workload.task,
        "feasible": bool(found),
        "smallest": found[0].hardware if found else None,
        "nearest": [asdict(n) for n in found],
        "refused": refused,
        "seconds": time.perf_counter() - start,
    }
