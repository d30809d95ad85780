"""The analytic search: enumerate, price all plans at once, and order them; Optuna keeps the best (see ``study``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.cost.uncertainty import Z_80
from advisor.frameworks import all_frameworks
from advisor.plan.legal import Context
from advisor.plan.records import Plan
from advisor.plan.table import Array, PlanTable
from advisor.search.degrees import Grid
from advisor.search.families import family_codes
from advisor.search.objective import HEADROOM, SOFT, constraints, knee_mask, scores
from advisor.search.space import context_for, enumerate_plans
from advisor.search.verified import low_precision_mask, unverified_mask

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
    possible: Array
    """bool[n]: plans that keep every constraint but the soft ones (``objective.SOFT``)."""
    unverified: Array
    """bool[n]: plans in eight bits or fewer whose gain nothing measured supports (``verified``)."""
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
    grid: Grid = "full",
) -> Ranking:
    """Return the whole legal space of a question, priced and ordered. Ties in score go to the simpler plan, deterministically.

    ``grid`` says how densely an open batch is swept (see ``space.batches``).
    """
    from advisor.cost.price import price

    context = context_for(model, workload, platform)
    plans = enumerate_plans(context, fixed, offload=offload, grid=grid)
    priced = price(model, workload, platform, plans, calibration)
    return order_plans(context, plans, priced, unverified_mask(model, workload, platform, plans, priced, calibration))


def order_plans(context: Context, plans: PlanTable, priced: PricedTable, unverified: Array) -> Ranking:
    """Return a priced table as a Ranking."""
    workload = context.workload
    score = scores(plans, priced, workload)
    broken = constraints(plans, priced, workload, score, unverified)
    possible = np.isfinite(score)
    for name, values in broken.items():
        if name not in SOFT:
            possible &= values <= 0
    feasible = possible.copy()
    for name in SOFT:
        if name in broken:
            feasible &= broken[name] <= 0
    names, codes = family_codes(plans, workload)
    pool = _sure_pool(plans, priced, score, feasible, unverified)
    rows = np.flatnonzero(feasible & knee_mask(plans, score, pool, workload))
    order = rows[np.lexsort((*simplicity(plans, rows), score[rows]))]
    order = _answer_first(plans, priced, score, order, order[pool[order]])
    return Ranking(
        context=context,
        plans=plans,
        priced=priced,
        score=score,
        constraints=broken,
        feasible=feasible,
        possible=possible,
        unverified=unverified,
        order=order,
        family_names=names,
        families=codes,
    )


#: Plans within this of the best are one to the model and to any stopwatch: the one that is easiest to run goes first.
SAME = 0.005


def _sure_pool(plans: PlanTable, priced: PricedTable, score: Array, feasible: Array, unverified: Array) -> Array:
    """Return bool[n]: the plans among which the answer is chosen.

    All feasible ones, unless the best is in eight bits or fewer on the word of the data sheet alone and its gain over the best in 16
    bits or more lies inside the interval of the prediction: then that gain is no reason, and only the latter stand to choice.
    """
    if not (feasible & unverified).any():
        return feasible
    best = int(np.flatnonzero(feasible)[np.argmin(score[feasible])])
    plain = feasible & ~low_precision_mask(plans)
    factor = float(np.exp(Z_80 * priced.sigma_log[best]))
    return plain if unverified[best] and plain.any() and score[plain].min() <= factor * score[best] else feasible


def _answer_first(plans: PlanTable, priced: PricedTable, score: Array, order: Array, pool: Array) -> Array:
    """Return ``order`` (best first) with the answer in front: of the rows of ``pool`` that are as good as its best, the simplest."""
    if not len(pool):
        return order
    alike = pool[score[pool] <= (1.0 + SAME) * score[pool[0]]]
    low = low_precision_mask(plans)
    alike = alike[low[alike] == low[pool[0]]]
    hosted = ~plans.equals("offload", "none")[alike]
    # Of equal predictions the one that rests on more goes first: the least of thousands favours what is predicted too fast.
    unsure = priced.sigma_log[alike]
    first = alike[np.lexsort((score[alike], *simplicity(plans, alike), _tight(priced, alike), unsure, hosted))[0]]
    # Then the rest of the pool, so that every kind of runner-up is shown as the answer is: in the same number of bits.
    rest = order[~np.isin(order, pool)]
    return np.concatenate([[first], pool[pool != first], rest])


def _tight(priced: PricedTable, rows: Array) -> Array:
    """Return bool[n]: rows that leave less than ``HEADROOM`` of the memory free."""
    if priced.memory_limit_bytes is None:
        return np.zeros(len(rows), dtype=bool)
    return np.asarray(priced.memory_bytes[rows] > (1.0 - HEADROOM) * priced.memory_limit_bytes)


def simplicity(plans: PlanTable, rows: Array) -> tuple[Array, ...]:
    """Return sort keys, least important first, by which equal scores are told apart: what is easier to run comes first."""
    column = plans.columns
    eager = {name: float(i) for i, name in enumerate(("eager", "jit", "graph", "engine", "script", "compile"))}
    # Of frameworks that are alike in all else the one that does more goes first: it is the one that is there already, or is needed anyway.
    breadth = {spec.name: len(spec.capabilities) for spec in all_frameworks()}
    names = sorted(plans.vocabulary["framework"], key=lambda name: (-breadth.get(name, 0), name))
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
