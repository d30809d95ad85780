"""Fit the engines' parameters on published inference rows: for each engine on each generation, held by the engine's own mean.

The latency is linear in all parameters, so a fit takes milliseconds. Rows that differ in nothing but their result are ambiguous (a
column that tells them apart was not published) and are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.accuracy.inference_queries import InferenceQuery, UndescribedError, query_of
from advisor.accuracy.inference_terms import Prepared, prepare
from advisor.cost.calibration import Calibration
from advisor.cost.engines import BUILT, PARAMETERS, Engine

Floats = npt.NDArray[np.float64]
Row = Mapping[str, str]
Values = dict[str, float]
_NAMES = tuple(p.name for p in PARAMETERS)
_ROBUST = 0.10
#: Pull of a prior in log space beside the root of the rows' number: one e-fold counts as this much log error of every row.
_HOLD = 0.03
#: Rows alike in every column whose times differ by more than this factor cannot be told apart.
_ALIKE = 1.5


def queries_of(rows: Iterable[Row]) -> list[InferenceQuery]:
    """Return the questions of the rows that say enough and name their batch."""
    found = []
    for row in rows:
        try:
            query = query_of(row)
        except UndescribedError:
            continue
        if query.batch is not None and query.measured_s:
            found.append(query)
    return found


def unambiguous(queries: Sequence[InferenceQuery]) -> list[InferenceQuery]:
    """Return the queries without those that are alike but for their result."""
    groups: dict[tuple[Any, ...], list[InferenceQuery]] = defaultdict(list)
    for q in queries:
        groups[q.group, *q.stratum, q.batch, q.tp, q.pp, q.prompt, q.output, q.chunk].append(q)
    kept = []
    for members in groups.values():
        times = [q.measured_s or 0.0 for q in members]
        if max(times) <= _ALIKE * min(times):
            kept.extend(members)
    return kept


def fit_engines(prepared: Sequence[Prepared]) -> Values:
    """Return ``engine.<name>.<engine>.<generation>``, the engine's mean ``engine.<name>.<engine>`` and ``engine.<name>.any``."""
    groups: dict[tuple[str, str], list[Prepared]] = defaultdict(list)
    for p in prepared:
        groups[p.queries[0].engine, p.generation].append(p)
    prior = {p.name: p.prior for p in PARAMETERS}
    first = {key: _fit(members, {**prior, **BUILT.get(key[0], {})}) for key, members in sorted(groups.items())}
    engines = sorted({e for e, _ in groups})
    means = {e: _mean([v for (other, _), v in first.items() if other == e], {**prior, **BUILT.get(e, {})}) for e in engines}
    second = {key: _fit(members, means[key[0]]) for key, members in sorted(groups.items())}
    out: Values = {}
    for (engine, generation), values in second.items():
        out |= {f"engine.{name}.{engine}.{generation}": v for name, v in values.items()}
    for engine, values in means.items():
        out |= {f"engine.{name}.{engine}": v for name, v in values.items()}
    overall = _mean([means[e] for e in means if e not in _PECULIAR], prior)
    return out | {f"engine.{name}.any": v for name, v in overall.items()}


#: Engines that serve one sequence at a time or split layers over devices: no guide for others.
_PECULIAR = ("llama.cpp", "megatron")


def _mean(values: Sequence[Mapping[str, float]], prior: Mapping[str, float]) -> Values:
    """Return the geometric mean, the prior counting as one more engine."""
    rows = [*values, prior]
    return {name: float(np.exp(np.mean([np.log(row[name]) for row in rows]))) for name in _NAMES}


def _fit(members: Sequence[Prepared], prior: Mapping[str, float]) -> Values:
    from scipy import optimize

    measured = np.log(np.concatenate([p.measured for p in members]))
    weight = _HOLD * np.sqrt(len(measured))
    center = np.log([prior[name] for name in _NAMES])
    low, high = np.log([p.low for p in PARAMETERS]), np.log([p.high for p in PARAMETERS])

    def residual(x: Floats) -> Floats:
        engine = Engine("", dict(zip(_NAMES, np.exp(x), strict=True)), "spec")
        predicted = np.concatenate([p.seconds(engine) for p in members])
        return np.concatenate([np.log(predicted) - measured, weight * (x - center)])

    start = np.clip(center, low + 1e-6, high - 1e-6)
    found = optimize.least_squares(residual, start, bounds=(low, high), loss="soft_l1", f_scale=_ROBUST, max_nfev=80)
    return dict(zip(_NAMES, (float(v) for v in np.exp(found.x)), strict=True))


def fit_section(rows: Iterable[Row], calibration: Calibration, source: str = "db/published/inference.csv") -> dict[str, Any]:
    """Return the calibration section ``inference`` fitted on ``rows``: parameters, spreads by evidence, provenance."""
    queries = unambiguous(queries_of(rows))
    prepared = prepare(queries, calibration)
    values = fit_engines(prepared)
    declared = {p.name: p for p in PARAMETERS}
    parameters = {
        name: {
            "value": float(np.format_float_positional(value, 5, fractional=False)),
            "prior": declared[name.split(".")[1]].prior,
            "low": declared[name.split(".")[1]].low,
            "high": declared[name.split(".")[1]].high,
            "unit": declared[name.split(".")[1]].unit,
            "meaning": declared[name.split(".")[1]].meaning,
        }
        for name, value in sorted(values.items())
    }
    groups = ", ".join(sorted({q.group for q in queries}))
    return {
        "parameters": parameters,
        "sigma": {},
        "provenance": {"rows": str(len(queries)), "source": source, "groups": groups, "command": "advisor calibrate --kind inference"},
    }
