"""Calibrate the training model: time parameters, memory parameters, and the spread of predictions for groups never seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from advisor.accuracy.fit import fit, weights_of
from advisor.accuracy.records import Prediction
from advisor.accuracy.training_rows import Prepared, predict, stratum_of
from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import generation_of
from advisor.cost.memory import memory
from advisor.cost.parameters import MEMORY_PARAMETERS, TIME_PARAMETERS
from advisor.cost.terms import Terms
from advisor.cost.training import compose
from advisor.cost.traits import family_of
from advisor.cost.uncertainty import EXPERTS_UNSEEN, Z_80
from advisor.errors import UsageError

Floats = npt.NDArray[np.float64]

#: Fewest rows a fit is made from; with fewer the priors would decide.
MIN_ROWS = 10


@dataclass(frozen=True, slots=True)
class Sample:
    """The rows of one quantity that a fit sees: indices into the prepared rows, their measured values and groups."""

    rows: npt.NDArray[np.int64]
    measured: Floats
    groups: list[str]


def time_sample(prepared: Prepared) -> Sample:
    """Return the rows with a measured time and a published layout."""
    chosen = [i for i, d in enumerate(prepared.described) if d.time_s and d.row.get("status", "ok") == "ok" and not prepared.assumed[i]]
    return _sample(prepared, chosen, [prepared.described[i].time_s or 0.0 for i in chosen])


def memory_sample(prepared: Prepared) -> Sample:
    """Return the rows with a measured memory of a stated definition and a published layout."""
    chosen = [
        i
        for i, d in enumerate(prepared.described)
        if d.memory_bytes and d.row.get("status", "ok") == "ok" and not prepared.assumed[i] and d.memory_kind != "unstated"
    ]
    return _sample(prepared, chosen, [prepared.described[i].memory_bytes or 0.0 for i in chosen])


def _sample(prepared: Prepared, chosen: list[int], measured: list[float]) -> Sample:
    return Sample(np.array(chosen, dtype=np.int64), np.array(measured), [prepared.described[i].row.get("group", "") for i in chosen])


def stacks(prepared: Prepared) -> dict[str, int]:
    """Return how many measured runs there are of each ``framework.generation``, frameworks by the one they are measured for."""
    rows = [int(i) for i in time_sample(prepared).rows]
    pairs = [(family_of(prepared.plans[i].framework), generation_of(prepared.described[i].platform.profile)) for i in rows]
    return {f"{name}.{generation}": count for (name, generation), count in sorted(Counter(pairs).items())}


def without(prepared: Prepared, sample: Sample, by: str, stratum: str) -> Sample:
    """Return the sample less the rows of ``stratum``."""
    keep = np.array([stratum_of(prepared.described[int(i)], by) != stratum for i in sample.rows], dtype=bool)
    return Sample(sample.rows[keep], sample.measured[keep], [g for g, k in zip(sample.groups, keep, strict=True) if k])


def fit_time(terms: Terms, sample: Sample, start: Calibration) -> Calibration:
    """Return ``start`` with its time parameters fitted to ``sample``; UsageError where there is too little to fit."""
    if len(sample.rows) < MIN_ROWS:
        raise UsageError(f"{len(sample.rows)} rows can be described, a calibration needs {MIN_ROWS}", code="TOO-FEW-ROWS")
    part = terms.take(sample.rows)

    def predicted(k: Calibration) -> Floats:
        return sum(compose(part, k).values(), start=np.zeros(len(part)))

    found = fit(TIME_PARAMETERS, predicted, sample.measured, weights_of(sample.groups), start)
    return start.with_values(found.values, found.spreads)


def fit_memory(prepared: Prepared, sample: Sample, start: Calibration) -> Calibration:
    """Return ``start`` with its memory parameters fitted, each row by its own definition; unchanged where no row states one."""
    if len(sample.rows) < MIN_ROWS or prepared.terms is None:
        return start
    part = prepared.terms.take(sample.rows)
    kinds = np.array([prepared.described[int(i)].memory_kind for i in sample.rows])

    def predicted(k: Calibration) -> Floats:
        held = memory(part, k)
        return np.select([kinds == "allocated", kinds == "reserved"], [held.allocated, held.reserved], held.device)

    found = fit(MEMORY_PARAMETERS, predicted, sample.measured, weights_of(sample.groups), start, scale=0.02)
    return start.with_values(found.values, found.spreads)


def fit_all(prepared: Prepared, start: Calibration) -> Calibration:
    """Return ``start`` with time and memory parameters fitted to all prepared rows."""
    if prepared.terms is None:
        raise UsageError("no row can be described", code="TOO-FEW-ROWS")
    return fit_memory(prepared, memory_sample(prepared), fit_time(prepared.terms, time_sample(prepared), start))


def leave_out(prepared: Prepared, whole: Calibration, by: str, progress: Callable[[str], None] | None = None) -> Iterator[Prediction]:
    """Yield every prediction from a fit that never saw the row's stratum (``group`` or ``hardware``), then the skipped rows.

    Each fit starts from ``whole`` (the fit to everything) but its minimum knows nothing of the stratum; intervals come from the
    residuals of the other strata.
    """
    if prepared.terms is None:
        yield from predict(prepared, whole)
        return
    times, memories = time_sample(prepared), memory_sample(prepared)
    strata = sorted({stratum_of(d, by) for d in prepared.described})
    found: dict[str, list[Prediction]] = {}
    for name in strata:
        if progress is not None:
            progress(f"leaving out {name} …")
        start = prior_of(whole)
        fitted = fit_time(prepared.terms, without(prepared, times, by, name), start)
        fitted = fit_memory(prepared, without(prepared, memories, by, name), fitted)
        rows = [i for i, d in enumerate(prepared.described) if stratum_of(d, by) == name]
        found[name] = list(predict(prepared.take(rows), fitted))
    for name in strata:
        others = [p for other, part in found.items() if other != name for p in part]
        yield from _with_interval(found[name], others)
    yield from predict(prepared.take([]), whole)


def prior_of(calibration: Calibration) -> Calibration:
    """Return ``calibration`` with its parameters at their priors and its sections kept."""
    return replace(Calibration.prior(calibration.sections), provenance=calibration.provenance)


def spread(predictions: Sequence[Prediction], quantity: str) -> float | None:
    """Return the log spread whose 80 % interval holds 80 % of ``predictions``, rows weighted as in the fit; None if few.

    A group of n rows counts like the square root of n: a group never seen is one more draw from the groups, but a group of three rows
    says less of how wrong predictions are than one of a hundred. Memory of an unstated definition is left out, as in the fit.
    """
    told = [p for p in predictions if p.quantity == quantity and p.error is not None and not p.assumed and p.mem_kind != "unstated"]
    if len(told) < MIN_ROWS:
        return None
    size = np.abs(np.log([p.predicted / p.measured for p in told if p.predicted and p.measured]))
    weight = weights_of([p.group for p in told]) ** 2
    order = np.argsort(size)
    share = np.cumsum(weight[order]) / weight.sum()
    groups = len({p.group for p in told})
    return float(size[order][int(np.searchsorted(share, 0.8))] / Z_80) * few_groups(groups)


def experts_factor(predictions: Sequence[Prediction]) -> float:
    """Return how much wider mixtures of experts are predicted than everything together, 1 at least; the prior where few were seen."""
    whole = spread(predictions, "time")
    mixtures = [p for p in predictions if p.experts]
    width = spread(mixtures, "time")
    if whole is None or width is None:
        return EXPERTS_UNSEEN
    # Both without the allowance for few groups: mixtures come from one or two.
    groups, few = (len({p.group for p in part if p.error is not None}) for part in (predictions, mixtures))
    return max(1.0, (width / few_groups(few)) / (whole / few_groups(groups)))


def few_groups(groups: int) -> float:
    """Return by how much an interval for one more group is wider when the spread is known from ``groups`` of them only.

    Student's t in place of the normal distribution (Cornish-Fisher to first order) and the variance of the mean.
    """
    freedom = max(groups - 1, 1)
    return (1.0 + (Z_80**2 + 1.0) / (4.0 * freedom)) * float(np.sqrt(1.0 + 1.0 / max(groups, 1)))


def _with_interval(part: Sequence[Prediction], others: Sequence[Prediction]) -> Iterator[Prediction]:
    widths = {quantity: spread(others, quantity) for quantity in ("time", "memory")}
    wider = experts_factor(others)
    for p in part:
        sigma = widths[p.quantity]
        if sigma is None or p.predicted is None:
            yield p
            continue
        factor = float(np.exp(Z_80 * sigma * (wider if p.experts and p.quantity == "time" else 1.0)))
        yield replace(p, low=p.predicted / factor, high=p.predicted * factor)
