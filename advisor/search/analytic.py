"""The analytic search: enumerate, price all plans at once, and order them; Optuna keeps the best (see ``study``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.plan.legal import Context
from advisor.plan.records import Plan
from advisor.plan.table import Array, PlanTable
from advisor.search.families import family_codes
from advisor.search.objective import constraints, knee_mask, scores
from advisor.search.space import context_for, enumerate_plans

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration
    from advisor.cost.price import PricedTable
    from advisor.hardware.platform import Platform
    from advisor.model.records import Model
    from advisor.plan.records import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """A priced space in order of preference.

    ``order`` holds row numbers: plans that keep every constraint at the chosen batch, best first. ``violation`` is the
    largest relative excess over any constraint, 0 where all are kept.
    """

    context: Context
    plans: PlanTable
    priced: PricedTable
    score: Array
    constraints: Mapping[str, Array]
    feasible: Array
    order: Array
    family_names: tuple[str, ...]
    families: Array

    def best_of_families(self) -> dict[str, int]:
        """Return for each family with a feasible plan the row of its best one."""
        best: dict[str, int] = {}
        for row in self.order:
            best.setdefault(self.family_names[int(self.families[row])], int(row))
        return best

    def least_infeasible(self, family: str) -> int | None:
        """Return the row of ``family`` that comes nearest to fitting, or None if the family has no legal plan."""
        rows = np.flatnonzero(self.families == self.family_names.index(family))
        if not len(rows):
            return None
        return int(rows[np.lexsort((self.score[rows], self.priced.memory_bytes[rows]))[0]])


def rank(
    model: Model,
    workload: Workload,
    platform: Platform,
    calibration: Calibration,
    fixed: Mapping[str, Any] | None = None,
    *,
    offload: bool = True,
) -> Ranking:
    """Return the whole legal space of a question, priced and ordered. Ties in score go to the simpler plan, deterministically."""
    from advisor.cost.price import price

    context = context_for(model, workload, platform)
    plans = enumerate_plans(context, fixed, offload=offload)
    priced = price(model, workload, platform, plans, calibration)
    return order_plans(context, plans, priced)


def order_plans(context: Context, plans: PlanTable, priced: PricedTable) -> Ranking:
    """Return a priced table as a Ranking."""
    workload = context.workload
    score = scores(plans, priced, workload)
    broken = constraints(plans, priced, workload)
    feasible = np.isfinite(score)
    for values in broken.values():
        feasible &= values <= 0
    names, codes = family_codes(plans, workload)
    rows = np.flatnonzero(feasible & knee_mask(plans, score, feasible, workload))
    order = rows[np.lexsort((*simplicity(plans, rows), score[rows]))]
    return Ranking(
        context=context,
        plans=plans,
        priced=priced,
        score=score,
        constraints=broken,
        feasible=feasible,
        order=order,
        family_names=names,
        families=codes,
    )


def simplicity(plans: PlanTable, rows: Array) -> tuple[Array, ...]:
    """Return sort keys, least important first, by which equal scores are told apart: what is easier to run comes first."""
    column = plans.columns
    eager = {name: float(i) for i, name in enumerate(("eager", "jit", "graph", "engine", "script", "compile"))}
    names = sorted(plans.vocabulary["framework"])
    return (
        plans.lookup("framework", {name: float(i) for i, name in enumerate(names)})[rows],
        column["threads"][rows],
        -column["micro_batch"][rows],
        column["shard_degree"][rows],
        plans.lookup("execution", eager, default=9.0)[rows],
        (column["vpp"] + column["ep"])[rows],
        (column["tp"] * column["pp"] * column["cp"])[rows],
    )


def best_plan(
    model: Model, workload: Workload, platform: Platform, calibration: Calibration, fixed: Mapping[str, Any] | None = None
) -> Plan | None:
    """Return the plan that a recommendation would choose, or None if nothing fits."""
    ranking = rank(model, workload, platform, calibration, fixed)
    return ranking.plans.plan(int(ranking.order[0])) if len(ranking.order) else None
