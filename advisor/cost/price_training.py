"""Predictions for a table of training plans: time, memory, throughput, utilization, energy, cost, bottleneck."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.collect import collect
from advisor.cost.energy import energy_j
from advisor.cost.memory import memory
from advisor.cost.price import BOTTLENECKS, PricedTable
from advisor.cost.terms import GENERATIONS, Terms
from advisor.cost.training import compose
from advisor.cost.traits import family_of
from advisor.cost.uncertainty import sigma
from advisor.hardware.platform import Evidence, Platform
from advisor.model.counts import forward_flops
from advisor.model.records import Model
from advisor.plan.records import Workload
from advisor.plan.table import PlanTable

Floats = npt.NDArray[np.float64]

#: Which bottleneck each part of the time belongs to.
CAUSES: Mapping[str, str] = {
    "gemm": "compute",
    "attention": "compute",
    "recompute": "compute",
    "embedding_and_head": "compute",
    "elementwise": "memory_bandwidth",
    "optimizer": "memory_bandwidth",
    "offload": "communication",
    "tensor_parallel": "communication",
    "context_parallel": "communication",
    "expert_parallel": "communication",
    "parameter_gather": "communication",
    "data_parallel": "communication",
    "pipeline_transfer": "communication",
    "straggler": "communication",
    "pipeline_bubble": "bubble",
    "launch": "launch",
    "fixed": "launch",
}


def price_training(model: Model, workload: Workload, platform: Platform, plans: PlanTable, calibration: Calibration) -> PricedTable:
    """Return the predictions of every training plan."""
    terms = collect(model, workload, platform, plans, calibration)
    parts = compose(terms, calibration)
    time = sum(parts.values(), start=np.zeros(len(terms)))
    held = memory(terms, calibration)
    limit = float(platform.memory_bytes) if platform.memory_bytes else None
    samples = terms.global_batch
    tokens = samples * workload.seq_len
    # Model FLOPs: forward and twice as much backward, no recomputation, attention counted in full (Chowdhery et al. 2022, appendix B).
    flops = 3.0 * forward_flops(model, workload.seq_len) * samples
    known = rows_evidence(terms, plans, calibration)
    spread = {name: sigma(calibration, "training", name) for name in set(known)}
    images = model.sample == "image"
    busy = _share(parts, time, ("compute", "memory_bandwidth"))
    return PricedTable(
        time_s=time,
        time_parts=parts,
        memory_bytes=held.device,
        memory_parts=held.parts,
        memory_limit_bytes=limit,
        fits=np.ones(len(terms), dtype=bool) if limit is None else held.device <= limit,
        throughput=(samples if images else tokens) / time,
        throughput_unit="images/s" if images else "tokens/s",
        tokens_per_s_per_device=tokens / time / terms.devices,
        mfu=flops / time / (terms.peak * terms.devices),
        energy_j=energy_j(platform, time, busy, terms.devices),
        cost_usd=None if platform.usd_per_device_hour is None else time * terms.devices * platform.usd_per_device_hour / 3600.0,
        sigma_log=np.array([spread[name] for name in known], dtype=np.float64),
        memory_sigma_log=np.full(len(terms), calibration.sigma.get("memory", 0.1)),
        evidence=max(set(known), key=_WEAKNESS.index, default="spec"),
        row_evidence=known,
        bottleneck=bottlenecks(parts),
        measurements=tuple(point.id for point in platform.points),
    )


def evidence_of(terms: Terms, calibration: Calibration) -> Evidence:
    """Return how well the device is known: its generation was fitted, only others were, or nothing was."""
    if not len(terms):
        return "spec"
    name = GENERATIONS[int(terms.codes["generation"][0])]
    fitted = calibration.parameters.get(f"sustained.{name}")
    if name != "any" and fitted is not None and fitted.spread is not None:
        return "calibrated"
    return "transferred" if any(p.spread is not None for p in calibration.parameters.values()) else "spec"


_WEAKNESS: tuple[Evidence, ...] = ("measured", "calibrated", "transferred", "spec")
#: Fewest published runs of a framework on a generation of devices that count as having measured it.
MIN_RUNS = 5


def rows_evidence(terms: Terms, plans: PlanTable, calibration: Calibration) -> tuple[Evidence, ...]:
    """Return the evidence of each plan: no better than its device's, and ``transferred`` where no run of its framework was fitted there.

    The minimum over thousands of predictions favours whatever is predicted too fast; what nothing measured must say so.
    """
    device = evidence_of(terms, calibration)
    runs = calibration.section("training").get("stacks")
    if device != "calibrated" or runs is None:
        return (device,) * len(terms)
    generation = GENERATIONS[int(terms.codes["generation"][0])]
    each = [runs.get(f"{family_of(name)}.{generation}", 0) >= MIN_RUNS for name in plans.vocabulary["framework"]]
    told: list[Evidence] = ["calibrated" if seen else "transferred" for seen in each]
    return tuple(told[code] for code in plans.columns["framework"].tolist())


def bottlenecks(parts: Mapping[str, Floats]) -> npt.NDArray[np.int8]:
    """Return for each plan the cause that takes the most time, as a code into BOTTLENECKS."""
    n = len(next(iter(parts.values())))
    totals = np.zeros((len(BOTTLENECKS), n))
    for name, seconds in parts.items():
        totals[BOTTLENECKS.index(CAUSES[name])] += seconds
    return np.asarray(totals.argmax(axis=0), dtype=np.int8)


def _share(parts: Mapping[str, Floats], time: Floats, causes: tuple[str, ...]) -> Floats:
    busy = sum((seconds for name, seconds in parts.items() if CAUSES[name] in causes), start=np.zeros_like(time))
    return busy / np.maximum(time, 1e-12)
