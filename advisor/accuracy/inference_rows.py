"""Predict published inference rows: the latency of a batch, and the memory where it was printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from advisor.accuracy.inference_fit import fit_engines, queries_of, unambiguous
from advisor.accuracy.inference_queries import InferenceQuery, UndescribedError, query_of
from advisor.accuracy.inference_terms import Prepared, prepare
from advisor.accuracy.records import Prediction, skip
from advisor.cost.calibration import Calibration
from advisor.cost.engines import engine_for
from advisor.cost.inference_memory import inference_memory
from advisor.cost.uncertainty import Z_80
from advisor.plan.records import Plan
from advisor.plan.table import PlanTable

Row = Mapping[str, str]
#: Spread of log(measured / predicted) by evidence before a calibration states it.
_SIGMA = {"calibrated": 0.2, "transferred": 0.45, "spec": 0.6}


def predict_rows(rows: Iterable[Row], calibration: Calibration) -> Iterator[Prediction]:
    """Yield Predictions of all rows; a row at maximal load is predicted at the batch its cache holds and marked ``assumed``."""
    queries: list[InferenceQuery] = []
    for row in rows:
        try:
            query = query_of(row)
        except UndescribedError as error:
            yield skip(row, error.message)
            continue
        if query.measured_s is None and not (query.rate and query.output > 0):
            yield skip(row, "neither a latency nor a rate is given")
            continue
        queries.append(query)
    for group in prepare(queries, calibration):
        yield from predict_prepared(group, calibration)
        yield from _memory(group, calibration)


def predict_prepared(group: Prepared, calibration: Calibration) -> Iterator[Prediction]:
    """Yield the latencies of one stratum under a calibration's engines."""
    engine = engine_for(calibration, group.queries[0].engine, group.generation)
    seconds = group.seconds(engine)
    fitted = calibration.section("inference").get("sigma", {})
    spread = float(fitted.get(engine.evidence, _SIGMA[engine.evidence]))
    for query, predicted, measured in zip(group.queries, seconds, group.measured, strict=True):
        yield Prediction(
            id=query.id,
            group=query.group,
            hardware=query.hardware,
            measured=float(measured),
            predicted=float(predicted),
            low=float(predicted * np.exp(-Z_80 * spread)),
            high=float(predicted * np.exp(Z_80 * spread)),
            assumed=query.batch is None,
            stratum=None if query.batch is not None else "at maximal load",
        )


def _memory(group: Prepared, calibration: Calibration) -> Iterator[Prediction]:
    """Yield the memory of rows that print it: what nvidia-smi shows of one device, in GB."""
    for query, batch in zip(group.queries, group.batch, strict=True):
        if query.memory_bytes is None:
            continue
        plan = Plan(
            framework=query.engine,
            execution="engine",
            precision=query.precision,
            quantization=query.quantization,
            micro_batch=int(batch),
            global_batch=int(batch),
            tp=query.tp,
            pp=query.pp,
            devices=query.tp * query.pp,
            threads=0,
        )
        held = inference_memory(query.model, PlanTable.of([plan]), query.prompt + query.output, calibration)
        predicted = float(sum(part[0] for part in held.values()))
        spread = calibration.sigma.get("memory", 0.1)
        yield Prediction(
            id=query.id,
            group=query.group,
            hardware=query.hardware,
            quantity="memory",
            measured=query.memory_bytes,
            predicted=predicted,
            low=predicted * float(np.exp(-Z_80 * spread)),
            high=predicted * float(np.exp(Z_80 * spread)),
            mem_kind="device",
        )


def left_out(rows: Sequence[Row], calibration: Calibration, by: str = "group") -> Iterator[Prediction]:
    """Yield predictions of every stratum (``group`` or ``device``) under engines fitted on all other strata."""
    for group, held in _strata(rows, calibration, by):
        yield from predict_prepared(group, held)


def _strata(rows: Sequence[Row], calibration: Calibration, by: str) -> Iterator[tuple[Prepared, Calibration]]:
    """Yield each prepared part of each stratum with the calibration that never saw the stratum."""
    usable = queries_of(rows)

    def key(query: InferenceQuery) -> str:
        return query.group if by == "group" else query.hardware

    for stratum in sorted({key(q) for q in usable}):
        others = [q for q in usable if key(q) != stratum]
        held = with_engines(calibration, fit_engines(prepare(unambiguous(others), calibration)))
        for group in prepare([q for q in usable if key(q) == stratum], calibration):
            yield group, held


def spreads(rows: Sequence[Row], calibration: Calibration) -> dict[str, float]:
    """Return the spread of log(measured / predicted) by evidence, from strata left out: groups and devices.

    It is the width that holds 80 % of those rows, so that a few engines far off do not widen every interval.
    """
    found: dict[str, list[float]] = {}
    for by in ("group", "device"):
        for group, held in _strata(rows, calibration, by):
            engine = engine_for(held, group.queries[0].engine, group.generation)
            errors = np.abs(np.log(group.seconds(engine) / group.measured))
            found.setdefault(engine.evidence, []).extend(errors.tolist())
    wide = {evidence: float(np.quantile(errors, 0.8)) / Z_80 for evidence, errors in found.items()}
    wide.setdefault("spec", 1.4 * max(wide.values(), default=0.5))
    return {evidence: round(value, 3) for evidence, value in sorted(wide.items())}


def with_engines(calibration: Calibration, values: Mapping[str, float]) -> Calibration:
    """Return ``calibration`` with the engines' parameters replaced, spreads kept."""
    section = {**calibration.section("inference"), "parameters": {name: {"value": v} for name, v in values.items()}}
    return replace(calibration, sections={**calibration.sections, "inference": section})
