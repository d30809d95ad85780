"""The calibration section ``kernels``: every kernel parameter with prior, bounds and meaning, and where its value comes from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.accuracy.kernel_fit import Values, fit_attention, fit_gemm
from advisor.accuracy.kernel_fit_collective import fit_collective
from advisor.accuracy.kernel_queries import KernelQuery, UndescribedError, query_of
from advisor.accuracy.published_hardware import profile_of
from advisor.cost.calibration import Calibration
from advisor.cost.kernels import attention, collective, gemm
from advisor.cost.kernels.generation import KernelParameter, generation_of
from advisor.cost.uncertainty import Z_80

Row = Mapping[str, str]


def queries_of(rows: Iterable[Row]) -> list[KernelQuery]:
    """Return the questions of the rows that say enough, in order."""
    found = []
    for row in rows:
        try:
            found.append(query_of(row))
        except UndescribedError:
            continue
    return found


def fit_kernels(queries: Sequence[KernelQuery]) -> Values:
    """Return all kernel parameters by name, fitted on ``queries`` alone; deterministic."""
    by_kind: dict[str, list[KernelQuery]] = defaultdict(list)
    for query in queries:
        by_kind[query.kind].append(query)
    return {**fit_gemm(by_kind["gemm"]), **fit_attention(by_kind["attention"]), **fit_collective(by_kind["collective"])}


def with_kernels(calibration: Calibration, section: Mapping[str, Any]) -> Calibration:
    """Return ``calibration`` with the section ``kernels`` replaced."""
    return replace(calibration, sections={**calibration.sections, "kernels": section})


def fit_section(rows: Iterable[Row], source: str = "db/published/microbench.csv") -> dict[str, Any]:
    """Return the section fitted on ``rows``: ``parameters``, ``sigma`` (by kind and evidence, from left-out strata) and ``provenance``."""
    table = list(rows)
    queries = queries_of(table)
    values = fit_kernels(queries)
    groups = sorted({q.group for q in queries})
    return {
        "parameters": {name: _describe(name, value) for name, value in sorted(values.items())},
        "sigma": spreads(table, values),
        "provenance": {
            "rows": str(len(queries)),
            "source": source,
            "groups": ", ".join(groups),
            "command": "advisor calibrate --kind microbench",
        },
    }


def spreads(rows: Sequence[Row], values: Mapping[str, float]) -> dict[str, float]:
    """Return the spread of log(measured / predicted) by kind and evidence: the width that holds 80 % of the rows.

    ``calibrated`` is that of the fit itself (there are a hundred times as many shapes as parameters); ``transferred`` predicts each
    generation from the mean over the others.
    """
    from advisor.accuracy.microbench_rows import predict_rows

    found: dict[str, list[float]] = defaultdict(list)
    for p in predict_rows(rows, _calibration(values)):
        if p.predicted and p.measured:
            found[f"{p.stratum}.calibrated"].append(abs(float(np.log(p.predicted / p.measured))))
    generations = sorted({generation_of(q.sheet) for q in queries_of(rows)})
    for generation in generations:
        mine = [row for row in rows if generation_of_row(row) == generation]
        for p in predict_rows(mine, _calibration(without(values, generation))):
            if p.predicted and p.measured:
                found[f"{p.stratum}.transferred"].append(abs(float(np.log(p.predicted / p.measured))))
    return {name: round(float(np.quantile(errors, 0.8)) / Z_80, 3) for name, errors in sorted(found.items())}


def without(values: Mapping[str, float], generation: str) -> Values:
    """Return the values as they would stand had nobody measured ``generation``: its own are gone, the means are over the others."""
    kept = {name: v for name, v in values.items() if name.rpartition(".")[2] not in (generation, "any")}
    groups: dict[str, list[float]] = defaultdict(list)
    for name, value in kept.items():
        stem, _, last = name.rpartition(".")
        if f"{stem}.any" in values and last != "any":
            groups[stem].append(value)
    means = {f"{stem}.any": float(np.exp(np.mean(np.log(group)))) for stem, group in groups.items()}
    untouched = {name: v for name, v in values.items() if name.endswith(".any") and name not in means}
    return {**kept, **untouched, **means}


def _calibration(values: Mapping[str, float]) -> Calibration:
    return with_kernels(Calibration.prior(), {"parameters": {name: {"value": v} for name, v in values.items()}})


def generation_of_row(row: Row) -> str | None:
    """Return the generation of a row's device, None where it is not named."""
    sheet = profile_of(row)
    return None if sheet is None else generation_of(sheet)


def _declared() -> dict[str, KernelParameter]:
    names = {f"gemm.{p.name}": p for p in (*gemm.PER_GENERATION, *gemm.PER_CLASS)}
    names |= {f"attention.{p.name}": p for p in attention.PARAMETERS}
    names |= {f"collective.{p.name}": p for p in (*collective.PER_GENERATION, *collective.PER_KIND, *collective.GLOBAL)}
    return names


def _describe(name: str, value: float) -> dict[str, Any]:
    p = _declared()[".".join(name.split(".")[:2])]
    rounded = float(np.format_float_positional(value, 5, fractional=False))
    return {"value": rounded, "prior": p.prior, "low": p.low, "high": p.high, "unit": p.unit, "meaning": p.meaning}
