"""Scores of predictions, as the ``validate`` document states them: errors, memory, out-of-memory, ranking."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from advisor.accuracy.ranking import kendall_tau
from advisor.accuracy.records import Prediction

#: A ranking family needs so many plans that differ.
MIN_PLANS = 4

Document = dict[str, Any]


def score(kind: str, predictions: Sequence[Prediction], by: str = "group", *, rows: bool = False) -> Document:
    """Return validate's document for one kind of rows.

    ``by`` names the attribute of Prediction that strata are made of (``group``, ``hardware``); rows that carry a stratum of
    their own (microbenchmarks) are grouped by that under ``group``. Errors are percent of time: 100 * (predicted / measured - 1).
    """
    told = [p for p in predictions if p.error is not None]
    times = [p for p in told if p.quantity == "time" and not p.assumed]
    seen = {p.id for p in predictions}
    memory = [p for p in told if p.quantity == "memory" and not p.assumed]
    document: Document = {
        "schema_version": 1,
        "kind": kind,
        "rows": len(seen),
        "scored": len({p.id for p in told}),
        "skipped": dict(Counter(p.skipped for p in predictions if p.skipped).most_common()),
        "overall": errors(times),
        "by": {name: errors(part) for name, part in sorted(_strata(times, by).items())},
        "assumed": errors([p for p in told if p.quantity == "time" and p.assumed]),
        "memory": {"overall": memory_errors(memory), "by": {k: memory_errors(v) for k, v in sorted(_grouped(memory, "mem_kind").items())}},
        "oom": out_of_memory(predictions),
        "ranking": ranking(times),
    }
    if rows:
        document["predictions"] = [p.to_dict() for p in predictions]
    return document


def errors(predictions: Sequence[Prediction]) -> Document:
    """Return n, the median, mean and 90th percentile of |error| in percent, the signed median, and the share inside the interval."""
    values = np.array([100.0 * p.error for p in predictions if p.error is not None])
    if not len(values):
        nothing = ("median_abs_pct_error", "mean_abs_pct_error", "p90_abs_pct_error", "median_pct_error", "coverage_80")
        return {"n": 0, **dict.fromkeys(nothing)}
    inside = [p.low <= p.measured <= p.high for p in predictions if p.low is not None and p.high is not None and p.measured is not None]
    sizes = np.abs(values)
    return {
        "n": len(values),
        "median_abs_pct_error": float(np.median(sizes)),
        "mean_abs_pct_error": float(np.mean(sizes)),
        "p90_abs_pct_error": float(np.percentile(sizes, 90)),
        "median_pct_error": float(np.median(values)),
        "coverage_80": float(np.mean(inside)) if inside else None,
    }


def memory_errors(predictions: Sequence[Prediction]) -> Document:
    """Return n, the median and the largest |error| in percent."""
    values = np.array([abs(100.0 * p.error) for p in predictions if p.error is not None])
    if not len(values):
        return {"n": 0, "median_abs_pct_error": None, "max_abs_pct_error": None}
    return {"n": len(values), "median_abs_pct_error": float(np.median(values)), "max_abs_pct_error": float(np.max(values))}


def out_of_memory(predictions: Iterable[Prediction]) -> Document:
    """Count runs that ran out of memory and were predicted to, and runs that fitted and were predicted not to."""
    judged = {(p.id, p.status): p.fits for p in predictions if p.fits is not None}
    true_oom = [fits for (_, status), fits in judged.items() if status == "oom"]
    ran = [fits for (_, status), fits in judged.items() if status == "ok"]
    return {"true_oom": len(true_oom), "caught": true_oom.count(False), "false_alarms": ran.count(False), "fits": len(ran)}


def ranking(times: Sequence[Prediction]) -> Document:
    """Return how well plans of one family are ordered, overall and by group."""
    families: dict[tuple[str, ...], list[Prediction]] = defaultdict(list)
    for p in times:
        if p.family is not None and p.plan is not None:
            families[p.family].append(p)
    scored: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for members in families.values():
        plans: dict[str, list[Prediction]] = defaultdict(list)
        for p in members:
            plans[str(p.plan)].append(p)
        if len(plans) < MIN_PLANS:
            continue
        measured = np.array([float(np.median([p.measured or 0.0 for p in same])) for same in plans.values()])
        predicted = np.array([float(np.median([p.predicted or 0.0 for p in same])) for same in plans.values()])
        regret = float(measured[int(np.argmin(predicted))] / measured.min() - 1.0)
        scored[members[0].group].append((kendall_tau(predicted, measured), regret))
    whole = _ranked([pair for pairs in scored.values() for pair in pairs])
    return {**whole, "by": {name: _ranked(pairs) for name, pairs in sorted(scored.items())}}


def _ranked(pairs: Sequence[tuple[float, float]]) -> Document:
    if not pairs:
        return {"families": 0, "kendall_tau_median": None, "top1_regret_median": None, "top1_regret_mean": None, "top1_regret_p90": None}
    tau, regret = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    known = tau[np.isfinite(tau)]
    return {
        "families": len(pairs),
        "kendall_tau_median": float(np.median(known)) if len(known) else None,
        "top1_regret_median": float(np.median(regret)),
        "top1_regret_mean": float(np.mean(regret)),
        "top1_regret_p90": float(np.percentile(regret, 90)),
    }


def _strata(predictions: Sequence[Prediction], by: str) -> dict[str, list[Prediction]]:
    return _grouped(predictions, "stratum" if by == "group" and any(p.stratum for p in predictions) else by)


def _grouped(predictions: Sequence[Prediction], attribute: str) -> dict[str, list[Prediction]]:
    found: dict[str, list[Prediction]] = defaultdict(list)
    for p in predictions:
        found[str(getattr(p, attribute) or "unstated")].append(p)
    return found
