"""One entry for the calibration sections beside the training model: kernels, inference engines, software stacks.

``fit_section`` returns what a data file ``db/calibration/<section>.json`` holds; ``fit`` puts it into a Calibration; ``left_out`` predicts
every stratum from a fit that never saw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from advisor.accuracy import classic_fit, classic_rows, inference_fit, inference_rows, kernel_section, microbench_rows
from advisor.accuracy.kernel_fit import Values
from advisor.accuracy.records import Prediction
from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import generation_of
from advisor.errors import UsageError

Row = Mapping[str, str]
#: Kind of published rows to the section that is fitted on them.
SECTIONS: Final[Mapping[str, str]] = {"microbench": "kernels", "inference": "inference", "classic": "classic"}
#: Shapes are left out in this many parts, every n-th row of the table in turn.
_FOLDS = 3


def fit_section(kind: str, rows: Iterable[Row], calibration: Calibration, *, spreads: bool = True) -> dict[str, Any]:
    """Return the section of ``kind`` fitted on ``rows``; with ``spreads`` also the widths of intervals from strata left out."""
    table = list(rows)
    if kind == "microbench":
        return kernel_section.fit_section(table)
    if kind == "inference":
        section = inference_fit.fit_section(table, calibration)
        section["sigma"] = (
            inference_rows.spreads(table, calibration) if spreads else dict(calibration.section("inference").get("sigma", {}))
        )
        return section
    if kind == "classic":
        section = classic_fit.fit_section(table, calibration)
        section["sigma"] = classic_rows.spreads(table, calibration) if spreads else dict(calibration.section("classic").get("sigma", {}))
        return section
    raise UsageError(f"nothing beside the training model is fitted on {kind!r} rows", f"one of {', '.join(SECTIONS)}", "BAD-KIND")


def fit(kind: str, rows: Iterable[Row], calibration: Calibration) -> Calibration:
    """Return ``calibration`` with the section of ``kind`` fitted on ``rows``."""
    section = fit_section(kind, rows, calibration, spreads=False)
    return replace(calibration, sections={**calibration.sections, SECTIONS[kind]: section})


def left_out(kind: str, rows: Sequence[Row], calibration: Calibration, by: str) -> Iterator[Prediction]:
    """Yield predictions of every stratum (``group``, ``device`` or ``shape``) from a fit that never saw it."""
    if kind == "microbench":
        yield from _kernels_left_out(rows, calibration, by)
    elif by == "shape":
        for fold in range(_FOLDS):
            fitted = fit(kind, [row for i, row in enumerate(rows) if i % _FOLDS != fold], calibration)
            reader = inference_rows.predict_rows if kind == "inference" else classic_rows.predict_rows
            yield from reader([row for i, row in enumerate(rows) if i % _FOLDS == fold], fitted)
    elif kind == "inference":
        yield from inference_rows.left_out(rows, calibration, by)
    elif kind == "classic":
        yield from classic_rows.left_out(rows, calibration, by)
    else:
        raise UsageError(f"nothing beside the training model is fitted on {kind!r} rows", f"one of {', '.join(SECTIONS)}", "BAD-KIND")


def _kernels_left_out(rows: Sequence[Row], calibration: Calibration, by: str) -> Iterator[Prediction]:
    """A device is left out with its generation: the others' values stand for it, so one fit serves all devices."""
    if by == "device":
        values = kernel_section.fit_kernels(kernel_section.queries_of(rows))
        for generation in sorted({generation_of(q.sheet) for q in kernel_section.queries_of(rows)}):
            held = _with(calibration, kernel_section.without(values, generation))
            yield from microbench_rows.predict_rows([row for row in rows if kernel_section.generation_of_row(row) == generation], held)
        return
    strata = {row["group"] for row in rows} if by == "group" else {str(fold) for fold in range(_FOLDS)}
    for stratum in sorted(strata):
        mine = [(by == "group" and row["group"] == stratum) or (by != "group" and str(i % _FOLDS) == stratum) for i, row in enumerate(rows)]
        values = kernel_section.fit_kernels(kernel_section.queries_of(row for row, out in zip(rows, mine, strict=True) if not out))
        yield from microbench_rows.predict_rows([row for row, out in zip(rows, mine, strict=True) if out], _with(calibration, values))


def _with(calibration: Calibration, values: Values) -> Calibration:
    section = {**calibration.section("kernels"), "parameters": {name: {"value": v} for name, v in values.items()}}
    return kernel_section.with_kernels(calibration, section)
