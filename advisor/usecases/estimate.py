"""Estimate one plan; sweep one knob; compare several kinds of hardware; find the smallest that does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.cost.records import Estimate
from advisor.errors import UsageError
from advisor.plan.records import Plan
from advisor.search.records import Reason, plan_id
from advisor.usecases.question import Question, Request, resolve
from advisor.usecases.ranking import rank_question, with_fixed

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
