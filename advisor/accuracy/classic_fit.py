"""Fit the parameters of software stacks on published vision and BERT-class rows: few for a framework, one for a width of numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.accuracy.classic_queries import ClassicQuery, queries_of
from advisor.cost.calibration import Calibration
from advisor.cost.convolutional import StepTerms, compose_step, step_terms
from advisor.cost.curves import curves_for
from advisor.cost.forward import Numbers
from advisor.cost.kernels.generation import KernelParameter
from advisor.cost.stacks import GLOBAL, PER_FRAMEWORK, PER_NUMBERS, PER_WIDTH, Stack, prior_of, width_of

Floats = npt.NDArray[np.float64]
Row = Mapping[str, str]
Values = dict[str, float]
_ROBUST = 0.12
#: Pull of a prior in log space beside the root of the rows' number.
_HOLD = 0.02


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows of one stratum with their terms."""

    queries: tuple[ClassicQuery, ...]
    generation: str
    terms: StepTerms
    measured: Floats

    def seconds(self, stack: Stack) -> Floats:
        """Return the predicted seconds of each row's step."""
        total: Floats = sum(compose_step(self.terms, stack).values(), start=np.zeros(len(self.queries)))
        return total


def described(rows: Iterable[Row]) -> list[ClassicQuery]:
    """Return the questions of the rows that say enough."""
    return [q for q in queries_of(rows) if isinstance(q, ClassicQuery)]


def prepare(queries: Sequence[ClassicQuery], calibration: Calibration) -> list[Prepared]:
    """Return the terms of all rows, grouped so that each group is one vectorised call."""
    groups: dict[tuple[str, ...], list[ClassicQuery]] = defaultdict(list)
    for query in queries:
        groups[query.stratum].append(query)
    out = []
    for members in groups.values():
        first = members[0]
        platform = max((q.platform for q in members), key=lambda p: p.devices)
        curves = curves_for(platform, first.stack, calibration)
        narrow = 2.0 if first.precision in ("fp16", "bf16") else 1.0 if first.precision == "int8" else 4.0
        batch, seq, devices, micro = (
            np.array([float(getattr(q, name)) for q in members]) for name in ("batch", "seq", "devices", "micro_batches")
        )
        terms = step_terms(
            first.model,
            curves,
            platform,
            Numbers(compute=first.precision, weight_bytes=narrow),
            batch=batch,
            seq=seq,
            training=first.training,
            devices=devices,
            micro_batches=micro,
            optimizer="adamw" if first.model.transformer is not None else "sgd",
        )
        out.append(Prepared(tuple(members), curves.generation, terms, np.array([q.measured_s for q in members])))
    return out


def _names(prepared: Sequence[Prepared]) -> dict[str, KernelParameter]:
    """Return every parameter of these rows by full name."""
    names: dict[str, KernelParameter] = {}
    for p in prepared:
        first = p.queries[0]
        names |= {f"stack.{q.name}.{first.stack}": q for q in PER_FRAMEWORK}
        names |= {f"stack.{q.name}.{width_of(first.precision)}.{p.generation}": q for q in PER_WIDTH}
        names |= {f"stack.{q.name}.{width_of(first.precision)}": q for q in PER_NUMBERS}
    return dict(sorted(names.items())) | {f"stack.{q.name}.any": q for q in GLOBAL}


def _stack(p: Prepared, values: Mapping[str, float]) -> Stack:
    first = p.queries[0]
    mine = {q.name: values[f"stack.{q.name}.{first.stack}"] for q in PER_FRAMEWORK}
    mine |= {q.name: values[f"stack.{q.name}.{width_of(first.precision)}.{p.generation}"] for q in PER_WIDTH}
    mine |= {q.name: values[f"stack.{q.name}.{width_of(first.precision)}"] for q in PER_NUMBERS}
    return Stack(first.stack, mine | {q.name: values[f"stack.{q.name}.any"] for q in GLOBAL}, "spec")


def _joined(prepared: Sequence[Prepared]) -> Prepared:
    """Return all rows as one table, so that a fit evaluates them in one call."""
    queries = tuple(q for p in prepared for q in p.queries)
    columns = {f.name: np.concatenate([getattr(p.terms, f.name) for p in prepared]) for f in fields(StepTerms)}
    return Prepared(queries, "", StepTerms(**columns), np.concatenate([p.measured for p in prepared]))


def _columns(prepared: Sequence[Prepared], names: Sequence[str]) -> dict[str, npt.NDArray[np.intp]]:
    """Return for each parameter of a Stack the index of its value for every row."""
    place = {name: index for index, name in enumerate(names)}
    rows: dict[str, list[int]] = defaultdict(list)
    for p in prepared:
        first, n = p.queries[0], len(p.queries)
        for q in PER_FRAMEWORK:
            rows[q.name] += [place[f"stack.{q.name}.{first.stack}"]] * n
        for q in PER_WIDTH:
            rows[q.name] += [place[f"stack.{q.name}.{width_of(first.precision)}.{p.generation}"]] * n
        for q in PER_NUMBERS:
            rows[q.name] += [place[f"stack.{q.name}.{width_of(first.precision)}"]] * n
        for q in GLOBAL:
            rows[q.name] += [place[f"stack.{q.name}.any"]] * n
    return {name: np.array(index) for name, index in rows.items()}


def fit_stacks(prepared: Sequence[Prepared]) -> Values:
    """Return all stack parameters by name, and ``stack.<name>.any``: the mean over frameworks for one that nobody measured."""
    from scipy import optimize

    if not prepared:
        return {}
    declared = _names(prepared)
    names = list(declared)
    joined = _joined(prepared)
    weight = _HOLD * np.sqrt(len(joined.measured))
    center = np.log([prior_of(n.split(".")[1], n.split(".", 2)[2], declared[n].prior) for n in names])
    low, high = np.log([declared[n].low for n in names]), np.log([declared[n].high for n in names])
    columns = _columns(prepared, names)

    def residual(x: Floats) -> Floats:
        values = np.exp(x)
        stack = Stack("", {name: values[index] for name, index in columns.items()}, "spec")
        return np.concatenate([np.log(joined.seconds(stack) / joined.measured), weight * (x - center)])

    found = optimize.least_squares(residual, center, bounds=(low, high), loss="soft_l1", f_scale=_ROBUST, max_nfev=80)
    values = dict(zip(names, (float(v) for v in np.exp(found.x)), strict=True))
    stacks = sorted({p.queries[0].stack for p in prepared})
    for q in PER_FRAMEWORK:
        values[f"stack.{q.name}.any"] = float(np.exp(np.mean([np.log(q.prior), *(np.log(values[f"stack.{q.name}.{s}"]) for s in stacks)])))
    return values


def fit_section(rows: Iterable[Row], calibration: Calibration, source: str = "db/published/classic.csv") -> dict[str, Any]:
    """Return the calibration section ``classic`` fitted on ``rows``: parameters, spreads by evidence, provenance."""
    queries = described(rows)
    values = fit_stacks(prepare(queries, calibration))
    declared = {p.name: p for p in (*PER_FRAMEWORK, *PER_WIDTH, *PER_NUMBERS, *GLOBAL)}
    parameters = {}
    for name, value in sorted(values.items()):
        p = declared[name.split(".")[1]]
        rounded = float(np.format_float_positional(value, 5, fractional=False))
        parameters[name] = {"value": rounded, "prior": p.prior, "low": p.low, "high": p.high, "unit": p.unit, "meaning": p.meaning}
    groups = ", ".join(sorted({q.group for q in queries}))
    return {
        "parameters": parameters,
        "sigma": {},
        "provenance": {"rows": str(len(queries)), "source": source, "groups": groups, "command": "advisor calibrate --kind classic"},
    }
