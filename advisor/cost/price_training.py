"""Predictions for a table of training plans: time, memory, throughput, utilization, energy, cost, bottleneck."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.collect import collect
from advisor.cost.flops import step_flops
from advisor.cost.memory import memory
from advisor.cost.priced import PricedTable, assemble, weakest
from advisor.cost.terms import GENERATIONS, Terms
from advisor.cost.training import compose
from advisor.cost.traits import family_of
from advisor.cost.uncertainty import training_sigma
from advisor.hardware.platform import Evidence, Platform
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
    samples = terms.global_batch
    tokens = samples * workload.seq_len
    flops = model_flops(model, workload, terms) * samples
    known = rows_evidence(terms, plans, calibration)
    experts = model.transformer is not None and model.transformer.experts > 1
    spread = {name: training_sigma(calibration, name, experts=experts) for name in set(known)}
    images = model.sample == "image"
    return assemble(
        platform,
        parts,
        CAUSES,
        held.parts,
        terms.devices,
        memory_bytes=held.device,
        throughput=(samples if images else tokens) / time,
        throughput_unit="images/s" if images else "tokens/s",
        tokens_per_s_per_device=tokens / time / terms.devices,
        mfu=flops / time / (terms.peak * terms.devices),
        sigma_log=np.array([spread[name] for name in known], dtype=np.float64),
        memory_sigma_log=np.full(len(terms), calibration.sigma.get("memory", 0.1)),
        evidence=weakest(set(known)),
        row_evidence=known,
        measurements=terms.measurements,
    )


def model_flops(model: Model, workload: Workload, t: Terms) -> Floats:
    """Return the FLOPs of one sample, float64[n]; an adapter's own parameters count on all its tensor- and pipeline-parallel ranks."""
    whole = step_flops(model, workload.seq_len)
    frozen = step_flops(model, workload.seq_len, adapter=True)
    adapters = 6.0 * t.trained_params * t.tp * t.pp * workload.seq_len
    return np.where(t.adapter > 0, frozen + adapters, whole)


def evidence_of(terms: Terms, calibration: Calibration) -> Evidence:
    """Return how well the device is known: its generation was fitted, only others were, or nothing was."""
    if not len(terms):
        return "spec"
    name = GENERATIONS[int(terms.codes["generation"][0])]
    fitted = calibration.parameters.get(f"sustained.{name}")
    if name != "any" and fitted is not None and fitted.spread is not None:
        return "calibrated"
    return "transferred" if any(p.spread is not None for p in calibration.parameters.values()) else "spec"


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
