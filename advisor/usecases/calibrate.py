"""Calibrate: fit the cost model's parameters to published or own measurements, or score it on strata it never saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.cost.calibration import Calibration
from advisor.errors import UsageError
from advisor.results.published import read_published
from advisor.usecases.calibration import load_calibration
from advisor.usecases.validate import read_table

Row = Mapping[str, str]
Progress = Callable[[str], None]


def calibrate(
    files: Sequence[Path] = (), *, leave_out: str | None = None, out: Path | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Fit the training model to ``files`` (default: the shipped rows) and write ``training.json`` into ``out``.

    With ``leave_out`` (``group`` or ``device``) nothing is written: validate's document is returned, every stratum predicted from a
    fit that never saw it. Without ``out`` nothing is written either; the document holds the parameters.
    """
    from advisor.accuracy.score import score
    from advisor.accuracy.training_fit import fit_all
    from advisor.accuracy.training_fit import leave_out as left_out
    from advisor.accuracy.training_rows import prepare

    say = progress or (lambda text: None)
    rows: list[Row] = [row for file in files for row in read_table(file)] if files else list(read_published("training"))
    shipped = load_calibration()
    start = Calibration.prior(shipped.sections)
    say("reading rows …")
    prepared = prepare(rows, start)
    if leave_out is not None:
        by = {"group": "group", "device": "hardware"}.get(leave_out)
        if by is None:
            raise UsageError(f"training rows have no {leave_out!r} to leave out", "leave out group or device", "BAD-STRATUM")
        return score("training", list(left_out(prepared, start, by, say)), by)
    say("fitting …")
    fitted = fit_all(prepared, start)
    say("scoring strata left out …")
    unseen = list(left_out(prepared, fitted, "group"))
    document = describe(fitted, spreads(unseen), rows, files)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        path = out / "training.json"
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return {"schema_version": 1, **document, "written": str(path)}
    return {"schema_version": 1, **document}


def spreads(unseen: Sequence[Any]) -> dict[str, float]:
    """Return the spread of predictions by task and evidence, from predictions of strata that were left out of the fit.

    A device whose generation was fitted is ``calibrated``; one that only shares the mean of others is ``transferred``; a data sheet
    alone is given half as much again.
    """
    from advisor.accuracy.training_fit import spread

    time = spread(unseen, "time")
    memory = spread(unseen, "memory")
    found: dict[str, float] = {}
    if time is not None:
        found |= {"training.calibrated": time, "training.transferred": 1.5 * time, "training.spec": 2.25 * time}
    if memory is not None:
        found["memory"] = memory
    return found


def describe(fitted: Calibration, sigma: Mapping[str, float], rows: Sequence[Row], files: Sequence[Path]) -> dict[str, Any]:
    """Return what the data file holds: values with priors, bounds and spreads, the spreads of predictions, and where they come from."""
    groups = sorted({row.get("group", "") for row in rows})
    parameters = {
        name: {"value": p.value, "prior": p.prior, "low": p.low, "high": p.high, "spread": p.spread, "unit": p.unit, "meaning": p.meaning}
        for name, p in sorted(fitted.parameters.items())
    }
    source = ", ".join(file.name for file in files) if files else "db/published/training.csv"
    return {
        "parameters": parameters,
        "sigma": dict(sorted(sigma.items())),
        "provenance": {"rows": str(len(rows)), "source": source, "groups": ", ".join(groups), "command": "advisor calibrate"},
    }
