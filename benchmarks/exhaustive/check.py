"""One case: the answer that a user gets against the optimum of the whole space."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from advisor.plan.records import PLAN_FIELDS, Plan
from advisor.plan.table import NAME_COLUMNS, PlanTable
from advisor.search.objective import scores
from advisor.search.space import check_fixed, context_for, enumerate_plans
from advisor.usecases.calibration import load_calibration
from advisor.usecases.question import Request, resolve
from advisor.usecases.recommend import recommend
from benchmarks.exhaustive.whole import optimum, whole

#: How far an answer may be from the optimum.
ALLOWED = 1.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """``ratio`` is the score of the answer over the optimum's; ``missing``: legal plans that the search does not enumerate."""

    legal: int
    missing: int
    ratio: float
    answer_s: float
    whole_s: float

    @property
    def right(self) -> bool:
        """Tell whether the answer is the optimum or as good."""
        return self.ratio <= ALLOWED


def check(request: Request) -> Checked:
    """Answer ``request`` and judge the answer."""
    start = time.perf_counter()
    answer = recommend(request, save=False)
    answered = time.perf_counter()
    question = resolve(request)
    fixed = check_fixed(question.request.fixed)
    context = context_for(question.model, question.workload, question.platform)
    plans = whole(context, fixed)
    best, kept, priced = optimum(context, plans, load_calibration())
    enumerated = enumerate_plans(context, fixed)
    if answer.recommendation is None:
        ratio = float("inf") if kept.any() else 1.0
    else:
        row = _row(plans, answer.recommendation.plan)
        ratio = float("inf") if row is None else float(scores(plans, priced, context.workload)[row]) / best
    return Checked(
        legal=len(plans),
        missing=len(plans) - len(enumerated),
        ratio=ratio,
        answer_s=answered - start,
        whole_s=time.perf_counter() - answered,
    )


def _row(plans: PlanTable, plan: Plan) -> int | None:
    mask = np.ones(len(plans), dtype=bool)
    for name in PLAN_FIELDS:
        value = getattr(plan, name)
        mask &= plans.equals(name, value) if name in NAME_COLUMNS else plans.columns[name] == int(value)
    rows = np.flatnonzero(mask)
    return int(rows[0]) if len(rows) else None
