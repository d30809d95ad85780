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
from advisor.usecases.validate import kind_of, read_table

Row = Mapping[str, str]
Progress = Callable[[str], None]


def calibrate(
    files: Sequence[Path] = (),
    *,
    kind: str | None = None,
    leave_out: str | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Fit the parameters of ``kind`` (default: from the columns, training without files) and write its data file into ``out``.

    With ``leave_out`` (``group``, ``device``, ``shape``) nothing is written: validate's document is returned, every stratum predicted
    from a fit that never saw it. Without ``out`` nothing is written either; the document holds the parameters.
    """
    say = progress or (lambda text: None)
    tables = [read_table(file) for file in files]
    name = kind or (kind_of(tables[0], str(files[0])) if tables else "training")
    rows: list[Row] = [row for table in tables for row in table] if tables else list(read_published(name))
    source = ", ".join(file.name for file in files) if files else f"db/published/{name}.csv"
    if name == "training":
        document, section = _training(rows, source, leave_out, say), "training"
    else:
        document, section = _other(name, rows, leave_out, say)
    if out is None or leave_out is not None:
        return {"schema_version": 1, **document}
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{section}.json"
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return {"schema_version": 1, **document, "written": str(path)}


def _training(rows: Sequence[Row], source: str, leave_out: str | None, say: Progress) -> dict[str, Any]:
    from advisor.accuracy.score import score
    from advisor.accuracy.training_fit import fit_all, stacks
    from advisor.accuracy.training_fit import leave_out as left_out
    from advisor.accuracy.training_rows import prepare

    start = Calibration.prior(load_calibration().sections)
    say("reading rows …")
    prepared = prepare(rows, start)
    if leave_out is not None:
        by = {"group": "group", "device": "hardware"}.get(leave_out)
        if by is None:
            raise UsageError(f"training rows have no {leave_out} to leave out", "leave out group or device", "BAD-STRATUM")
        return score("training", list(left_out(prepared, start, by, say)), by)
    say("fitting …")
    fitted = fit_all(prepared, start)
    say("scoring strata left out …")
    document = describe(fitted, spreads(list(left_out(prepared, fitted, "group"))), rows, source)
    return {**document, "stacks": stacks(prepared)}


def _other(kind: str, rows: Sequence[Row], leave_out: str | None, say: Progress) -> tuple[dict[str, Any], str]:
    from advisor.accuracy.score import score
    from advisor.accuracy.sections import SECTIONS, fit_section, left_out

    calibration = load_calibration()
    if leave_out is not None:
        say(f"leaving out each {leave_out} …")
        return score(kind, list(left_out(kind, rows, calibration, leave_out))), SECTIONS[kind]
    say("fitting …")
    return fit_section(kind, rows, calibration), SECTIONS[kind]


def spreads(unseen: Sequence[Any]) -> dict[str, float]:
    """Return the spread of predictions by task and evidence, from predictions of strata that were left out of the fit.

    A device whose generation was fitted is ``calibrated``; one that only shares the mean of others is ``transferred``; a data sheet
    alone is given half as much again.
    """
    from advisor.accuracy.training_fit import experts_factor, spread

    time = spread(unseen, "time")
    memory = spread(unseen, "memory")
    found: dict[str, float] = {}
    if time is not None:
        found |= {"training.calibrated": time, "training.transferred": 1.5 * time, "training.spec": 2.25 * time}
        found["training.experts"] = experts_factor(unseen)
    if memory is not None:
        found["memory"] = memory
    return found


def describe(fitted: Calibration, sigma: Mapping[str, float], rows: Sequence[Row], source: str) -> dict[str, Any]:
    """Return what the data file holds: values with priors, bounds and spreads, the spreads of predictions, and where they come from."""
    groups = sorted({row.get("group", "") for row in rows})
    parameters = {
        name: {"value": p.value, "prior": p.prior, "low": p.low, "high": p.high, "spread": p.spread, "unit": p.unit, "meaning": p.meaning}
        for name, p in sorted(fitted.parameters.items())
    }
    return {
        "parameters": parameters,
        "sigma": dict(sorted(sigma.items())),
        "provenance": {"rows": str(len(rows)), "source": source, "groups": ", ".join(groups), "command": "advisor calibrate"},
    }
