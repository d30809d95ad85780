"""Predictions of published training rows: described once, priced table by table, as Prediction records."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.accuracy import software
from advisor.accuracy.conditions import SYNCHRONOUS, options_of, settings_of
from advisor.accuracy.records import Prediction, skip
from advisor.accuracy.rows import Described, Row, describe, stated_plans, with_stated_software
from advisor.cost.calibration import Calibration
from advisor.cost.collect import collect
from advisor.cost.kernels.generation import generation_of
from advisor.cost.memory import Memory, memory
from advisor.cost.terms import GENERATIONS, Terms
from advisor.cost.training import compose
from advisor.cost.traits import traits_of
from advisor.cost.uncertainty import Z_80, training_sigma
from advisor.hardware.platform import Platform
from advisor.model.records import Model
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable

#: Share of tensor-parallel exchanges beside products where they are split and pipelined with them: that of Megatron's user buffers.
OVERLAP_SPLIT_TENSOR = traits_of("megatron-tuned", "eager").overlap_tensor
#: Chooses a plan as a recommendation would, with some of its fields fixed.
Chooser = Callable[[Model, Workload, Platform, Calibration, Mapping[str, Any] | None], Plan | None]


@dataclass(slots=True)
class Prepared:
    """Rows with a plan, and their terms in the same order; the terms do not depend on the training parameters."""

    described: list[Described]
    plans: list[Plan]
    assumed: list[bool]
    terms: Terms | None
    skipped: list[tuple[Row, str]]

    def take(self, rows: list[int]) -> Prepared:
        """Return the chosen rows; the skipped ones come along only when none is chosen."""
        terms = self.terms.take(np.array(rows, dtype=np.int64)) if self.terms is not None and rows else None
        picked = ([self.described[i] for i in rows], [self.plans[i] for i in rows], [self.assumed[i] for i in rows])
        return Prepared(*picked, terms, [] if rows else self.skipped)


def stratum_of(d: Described, by: str) -> str:
    """Return the row's group, or its device under ``hardware``."""
    return d.row.get("group", "") if by == "group" else d.platform.profile.id


def prepare(rows: Iterable[Row], calibration: Calibration, choose: Chooser | None = None) -> Prepared:
    """Describe ``rows`` and collect the terms of all that have a plan (published, or chosen by ``choose`` where it is not)."""
    done = Prepared([], [], [], None, [])
    for row in rows:
        if row.get("status", "ok") == "suspect":
            done.skipped.append((row, "the source is inconsistent (suspect)"))
            continue
        found = describe(row)
        if isinstance(found, str):
            done.skipped.append((row, found))
            continue
        plan, assumed = found.plan, found.plan is None
        if plan is None and choose is not None and found.model.transformer is not None:
            plan = _chosen(found, choose, calibration)
        if plan is None:
            done.skipped.append((row, "the layout is not stated" if choose is None else "the layout is not stated and no plan fits"))
            continue
        done.described.append(found)
        done.plans.append(_that_fits(found, plan, calibration))
        done.assumed.append(assumed)
    done.terms = _terms(done.described, done.plans, calibration)
    return done


def _chosen(d: Described, choose: Chooser, calibration: Calibration) -> Plan | None:
    """Return the plan a recommendation would choose within what the row states: its degrees, its software, its precision."""
    options = stated_plans(d)
    if options:
        terms = collect(d.model, d.workload, d.platform, PlanTable.of(options), calibration)
        time = sum(compose(terms, calibration).values(), start=np.zeros(len(options)))
        limit = d.platform.memory_bytes or math.inf
        return options[int(np.argmin(np.where(memory(terms, calibration).device <= limit, time, np.inf)))]
    stated = d.row.get("precision", "")
    fixed = {"precision": software.precision_of(stated, "", d.platform.profile.dense_tflops)} if stated else None
    plan = choose(d.model, d.workload, d.platform, calibration, fixed) or choose(d.model, d.workload, d.platform, calibration, None)
    return None if plan is None else with_stated_software(d, plan)


def _that_fits(d: Described, plan: Plan, calibration: Calibration) -> Plan:
    """Return ``plan``, with the least recomputation that fits where the table does not say and the run can only have fitted with some.

    Vendors' tuned configurations avoid recomputation by other means, and keep none.
    """
    limit = d.platform.memory_bytes
    stated = d.row.get("activation_checkpointing", "") or d.row.get("status", "ok") != "ok"
    if stated or limit is None or plan.recompute != "none" or plan.framework in software.TUNED:
        return plan
    options = [plan, *(replace(plan, recompute=name) for name in ("selective", "full"))]
    held = memory(collect(d.model, d.workload, d.platform, PlanTable.of(options), calibration), calibration).device
    fitting = [option for option, size in zip(options, held, strict=True) if size <= limit]
    return fitting[0] if fitting else plan


def _terms(described: list[Described], plans: list[Plan], calibration: Calibration) -> Terms | None:
    """Collect terms table by table (one model, workload and platform each), and put them back into row order."""
    groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for index, item in enumerate(described):
        groups[(id(item.model), item.workload.seq_len, id(item.platform))].append(index)
    if not groups:
        return None
    parts, order = [], []
    for indices in groups.values():
        first = described[indices[0]]
        parts.append(collect(first.model, first.workload, first.platform, PlanTable.of(plans[i] for i in indices), calibration))
        order += indices
    terms = Terms.concat(parts).take(np.argsort(np.array(order)))
    asynchronous = np.array(["async-tp" in options_of(d.row) for d in described])
    terms.columns["overlap_tensor"] = np.where(asynchronous, OVERLAP_SPLIT_TENSOR, terms.overlap_tensor)
    terms.columns["synchronous"] = np.array([float(SYNCHRONOUS in settings_of(d.row, d.platform.devices)) for d in described])
    return terms


def predict(prepared: Prepared, calibration: Calibration) -> Iterator[Prediction]:
    """Yield the time and memory predictions of every prepared row, then the rows that were skipped."""
    if prepared.terms is not None:
        time = sum(compose(prepared.terms, calibration).values(), start=np.zeros(len(prepared.terms)))
        held = memory(prepared.terms, calibration)
        for index, item in enumerate(prepared.described):
            yield from _row(index, item, prepared, float(time[index]), held, calibration)
    for row, reason in prepared.skipped:
        yield skip(row, reason)


def _row(index: int, d: Described, prepared: Prepared, time: float, held: Memory, calibration: Calibration) -> Iterator[Prediction]:
    row, plan, assumed = d.row, prepared.plans[index], prepared.assumed[index]
    limit = d.platform.memory_bytes
    fits = None if limit is None or assumed else bool(held.device[index] <= limit)
    common = {
        "id": row["id"],
        "group": row.get("group", ""),
        "hardware": row.get("hw_class") or row.get("hardware", ""),
        "assumed": assumed,
        "experts": has_experts(d),
    }
    status = row.get("status", "ok")
    if status == "oom":
        yield Prediction(**common, quantity="memory", measured=None, predicted=float(held.device[index]), status="oom", fits=fits)
        return
    if d.time_s is None:
        yield Prediction(**common, measured=None, predicted=None, skipped="no time, rate or FLOP/s is stated", status=status, fits=fits)
    else:
        factor = math.exp(Z_80 * row_sigma(calibration, d))
        family = _family(row)
        yield Prediction(
            **common,
            measured=d.time_s,
            predicted=time,
            low=time / factor,
            high=time * factor,
            fits=fits,
            family=None if assumed else family,
            plan=plan_key(plan),
        )
    if d.memory_bytes is not None:
        kind = d.memory_kind
        value = float({"allocated": held.allocated, "reserved": held.reserved, "device": held.device}.get(kind, held.reserved)[index])
        factor = math.exp(Z_80 * calibration.sigma.get("memory", 0.1))
        yield Prediction(
            **common, quantity="memory", measured=d.memory_bytes, predicted=value, low=value / factor, high=value * factor, mem_kind=kind
        )


def has_experts(d: Described) -> bool:
    """Tell whether the row's model is a mixture of experts."""
    return d.model.transformer is not None and d.model.transformer.experts > 1


def row_sigma(calibration: Calibration, d: Described) -> float:
    """Return the spread of log(measured / predicted) of the time for a row's device and model."""
    name = generation_of(d.platform.profile)
    known = name in GENERATIONS and name != "any"
    return training_sigma(calibration, "calibrated" if known else "transferred", experts=has_experts(d))


def _family(row: Row) -> tuple[str, ...] | None:
    values = tuple(row.get(name, "") for name in ("group", "model_name", "hardware", "n_devices", "seq_len", "global_batch"))
    # A name alone does not tell the shape: one source calls every model of about the same size alike.
    shape = tuple(row.get(name, "") for name in ("n_layers", "hidden", "n_heads", "n_kv_heads", "ffn_hidden", "vocab"))
    return values + shape if all(values) else None


def plan_key(plan: Plan) -> str:
    """Return the plan as text, so that equal plans are equal strings."""
    return ",".join(f"{key}={value}" for key, value in plan.to_dict().items())
