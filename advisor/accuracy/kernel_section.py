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
from advisor.cost.calibration import Calibration
from advisor.cost.kernels import attention, collective, gemm
from advisor.cost.kernels.generation import KernelParameter

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
        "sigma": {},
        "provenance": {
            "rows": str(len(queries)),
            "source": source,
            "groups": ", ".join(groups),
            "command": "advisor calibrate --kind microbench",
        },
    }


def _declared() -> dict[str, KernelParameter]:
    names = {f"gemm.{p.name}": p for p in (*gemm.PER_GENERATION, *gemm.PER_CLASS)}
    names |= {f"attention.{p.name}": p for p in attention.PARAMETERS}
    names |= {f"collective.{p.name}": p for p in (*collective.PER_GENERATION, *collective.PER_KIND, *collective.GLOBAL)}
    return names


def _describe(name: str, value: float) -> dict[str, Any]:
    p = _declared()[".".join(name.split(".")[:2])]
    return {
        "value": float(np.format_float_positional(value, 5, fractional=False)),
        "prior": p.prior,
        "low": p.low,
        "high": p.high,
        "unit": p.unit,
        "meaning": p.meaning,
    }
