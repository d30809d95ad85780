"""Fit: the smallest hardware that does it; and a sweep of one knob on hardware that is given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.plan.records import PLAN_FIELDS
from advisor.search.records import Nearest
from advisor.usecases.answer import what_if
from advisor.usecases.question import Question, Request, resolve
from advisor.usecases.ranking import rank_question

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration
    from advisor.hardware.records import HardwareProfile
    from advisor.search.analytic import Ranking


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
        if found[-1].plan.quantization != "none":
            found += _unquantized(question, product, calibration)
    found.sort(key=lambda n: (n.plan.devices, n.estimate.memory_bytes_per_device.value if n.estimate.memory_bytes_per_device else 0.0))
    return {
        "schema_version": 1,
        "assumed": question.assumed,
        "model": question.model_document(),
        "task": question.workload.task,
        "smallest_unquantized": next((n.hardware for n in found if n.plan.quantization == "none"), None),
        "feasible": bool(found),
        "smallest": found[0].hardware if found else None,
        "nearest": [asdict(n) for n in found],
        "refused": refused,
        "seconds": time.perf_counter() - start,
    }


def _unquantized(question: Question, product: HardwareProfile, calibration: Calibration) -> list[Nearest]:
    """Return the fewest devices of ``product`` that hold the weights as they are, beside the fewest that hold quantized ones."""
    from advisor.search.nearest import smallest_count

    best = smallest_count(
        question.model, question.workload, product, calibration, what_if, {**question.request.fixed, "quantization": "none"}
    )
    if best is None:
        return []
    text, ranking = best
    row = int(ranking.order[0])
    change = f"{ranking.context.platform.devices} × {product.name} (weights as they are)"
    return [Nearest(change=change, hardware=text, plan=ranking.plans.plan(row), estimate=ranking.priced.estimate(row))]


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
