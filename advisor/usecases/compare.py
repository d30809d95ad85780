"""Compare: one question on several kinds of hardware, by performance and by price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from advisor.search.records import Recommendation
from advisor.usecases.question import Request
from advisor.usecases.recommend import recommend


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
