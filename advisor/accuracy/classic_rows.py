"""Predict published vision and BERT-class rows: seconds of one step under the stack's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from advisor.accuracy.classic_fit import Prepared, described, fit_stacks, prepare
from advisor.accuracy.classic_queries import ClassicQuery, queries_of
from advisor.accuracy.records import Prediction, skip
from advisor.cost.calibration import Calibration
from advisor.cost.stacks import stack_for
from advisor.cost.uncertainty import Z_80

Row = Mapping[str, str]
#: Spread of log(measured / predicted) by evidence before a calibration states it.
_SIGMA = {"calibrated": 0.25, "transferred": 0.45, "spec": 0.6}


def predict_rows(rows: Iterable[Row], calibration: Calibration) -> Iterator[Prediction]:
    """Yield Predictions of all rows; one that does not say enough is skipped with the reason."""
    queries: list[ClassicQuery] = []
    for found in queries_of(rows):
        if isinstance(found, ClassicQuery):
            queries.append(found)
        else:
            yield skip(*found)
    for group in prepare(queries, calibration):
        yield from predict_prepared(group, calibration)


def predict_prepared(group: Prepared, calibration: Calibration) -> Iterator[Prediction]:
    """Yield the step times of one stratum under a calibration's stacks."""
    first = group.queries[0]
    stack = stack_for(calibration, first.stack, group.generation, first.precision)
    fitted = calibration.section("classic").get("sigma", {})
    spread = float(fitted.get(stack.evidence, _SIGMA.get(stack.evidence, 0.6)))
    for query, predicted, measured in zip(group.queries, group.seconds(stack), group.measured, strict=True):
        yield Prediction(
            id=query.id,
            group=query.group,
            hardware=query.hardware,
            measured=float(measured),
            predicted=float(predicted),
            low=float(predicted * np.exp(-Z_80 * spread)),
            high=float(predicted * np.exp(Z_80 * spread)),
        )


def left_out(rows: Sequence[Row], calibration: Calibration, by: str = "group") -> Iterator[Prediction]:
    """Yield predictions of every stratum (``group`` or ``device``) under stacks fitted on all other strata."""
    for group, held in _strata(rows, calibration, by):
        yield from predict_prepared(group, held)


def _strata(rows: Sequence[Row], calibration: Calibration, by: str) -> Iterator[tuple[Prepared, Calibration]]:
    """Yield each prepared part of each stratum with the calibration that never saw the stratum."""
    usable = described(rows)

    def key(query: ClassicQuery) -> str:
        return query.group if by == "group" else query.hardware

    for stratum in sorted({key(q) for q in usable}):
        values = fit_stacks(prepare([q for q in usable if key(q) != stratum], calibration))
        held = with_stacks(calibration, values)
        for group in prepare([q for q in usable if key(q) == stratum], calibration):
            yield group, held


def spreads(rows: Sequence[Row], calibration: Calibration) -> dict[str, float]:
    """Return the spread of log(measured / predicted) by evidence: the width that holds 80 % of rows of groups and devices left out."""
    found: dict[str, list[float]] = {}
    for by in ("group", "device"):
        for group, held in _strata(rows, calibration, by):
            first = group.queries[0]
            stack = stack_for(held, first.stack, group.generation, first.precision)
            found.setdefault(stack.evidence, []).extend(np.abs(np.log(group.seconds(stack) / group.measured)).tolist())
    wide = {evidence: float(np.quantile(errors, 0.8)) / Z_80 for evidence, errors in found.items()}
    wide.setdefault("spec", 1.4 * max(wide.values(), default=0.5))
    return {evidence: round(value, 3) for evidence, value in sorted(wide.items())}


def with_stacks(calibration: Calibration, values: Mapping[str, float]) -> Calibration:
    """Return ``calibration`` with the stacks' parameters replaced, spreads kept."""
    section = {**calibration.section("classic"), "parameters": {name: {"value": v} for name, v in values.items()}}
    return replace(calibration, sections={**calibration.sections, "classic": section})
