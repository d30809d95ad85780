"""Steps of convolutional and encoder models under a framework's stack: terms at the kernel curves, composed linearly.

``price_convolutional`` prices training plans of convolutional networks; ``step_terms`` and ``compose_step`` also serve the scores on
published measurements of vision and BERT-class models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.curves import DeviceCurves, collective_seconds, curves_for, stream_seconds
from advisor.cost.forward import Numbers, forward
from advisor.cost.priced import PricedTable, RowEvidence, assemble, plan_groups, weakest
from advisor.cost.stacks import POWER, Stack, stack_for
from advisor.cost.uncertainty import sigma
from advisor.hardware.platform import Evidence, Platform
from advisor.model.records import Model
from advisor.plan.records import Workload
from advisor.plan.table import PlanTable
from advisor.units import GIB, MIB

Floats = npt.NDArray[np.float64]

CAUSES: Mapping[str, str] = {
    "convolution": "compute",
    "gemm": "compute",
    "elementwise": "memory_bandwidth",
    "optimizer": "memory_bandwidth",
    "data_parallel": "communication",
    "launch": "launch",
    "fixed": "input",
}
#: Bytes an optimizer moves for each parameter: weights, gradients and states read and written (fp32 states; SGD keeps one, AdamW two).
_OPTIMIZER_BYTES: Mapping[str, float] = {"adamw": 28.0, "adam8bit": 18.0, "sgd": 20.0, "none": 0.0}
_STATE_BYTES: Mapping[str, float] = {"adamw": 8.0, "adam8bit": 2.0, "sgd": 4.0, "none": 0.0}
#: Framework, context and library workspaces of a training process.
_CONTEXT_BYTES = 0.9 * GIB
_WORKSPACE_BYTES = 512.0 * MIB


@dataclass(frozen=True, slots=True)
class StepTerms:
    """Linear terms of a step, float64[n] seconds at the curves.

    ``kernels`` counts launches of the forward pass; ``training`` and ``images`` are 1 where there is a backward pass and where the
    model is convolutional, else 0.
    """

    gemm: Floats
    dense: Floats
    grouped: Floats
    depthwise: Floats
    stream: Floats
    scores: Floats
    kernels: Floats
    optimizer: Floats
    optimizer_kernels: Floats
    reduce: Floats
    training: Floats
    images: Floats
    flops: Floats
    micro: Floats

    def __len__(self) -> int:
        return len(self.gemm)


def step_terms(
    model: Model,
    curves: DeviceCurves,
    platform: Platform,
    numbers: Numbers,
    *,
    batch: Any,
    seq: Any,
    training: bool,
    devices: Any = 1.0,
    micro_batches: Any = 1.0,
    optimizer: str = "adamw",
) -> StepTerms:
    """Return the terms of a step over ``batch`` samples a device and micro-batch; the gradient is reduced once a step.

    Times are of one micro-batch, except ``optimizer`` and ``reduce``, which are of one step.
    """
    b, s, n, micro = (np.asarray(x, dtype=np.float64) for x in np.broadcast_arrays(batch, seq, devices, micro_batches))
    work = forward(model, curves, numbers, batch=b, query=s, keys=s, last_only=False, fused=False)
    parameters = float(model.parameters)
    zero = np.zeros(b.shape)
    update, reduced = zero, zero
    tensors = sum(op.count * block.repeat for block in model.blocks for op in block.operators)
    if training:
        update = stream_seconds(curves, np.full(b.shape, parameters * _OPTIMIZER_BYTES.get(optimizer, 28.0)))
        if platform.tiers:
            reduced = collective_seconds("all_reduce", parameters * numbers.activation_bytes, n, platform.tiers, curves)
    return StepTerms(
        gemm=work.gemm + work.attention,
        dense=work.conv,
        grouped=work.grouped,
        depthwise=work.depthwise,
        stream=work.stream,
        scores=work.scores,
        kernels=np.full(b.shape, work.kernels),
        optimizer=update,
        optimizer_kernels=np.full(b.shape, float(tensors) if training else 0.0),
        reduce=reduced,
        training=np.full(b.shape, float(training)),
        images=np.full(b.shape, float(model.kind == "convolutional")),
        flops=work.flops,
        micro=micro,
    )


def compose_step(t: StepTerms, stack: Stack) -> dict[str, Floats]:
    """Return the named parts of a step (all its micro-batches) under a stack; they add up to it."""
    v = stack.values
    passes = 1.0 + v["backward"] * t.training
    products = v["matrix"] * v["width"] * (1.0 + 2.0 * t.training)
    # At inference the normalization and activation of a convolution are folded into it.
    folded = np.where((t.images > 0) & (t.training < 1), v["folded"], 1.0)
    parts = {
        "convolution": t.micro * products * (v["dense"] * t.dense + v["grouped"] * t.grouped + v["depthwise"] * t.depthwise),
        "gemm": t.micro * products * t.gemm,
        "elementwise": t.micro * passes * (v["passes"] * folded * t.stream + v["scores"] * t.scores),
        "optimizer": t.optimizer,
    }
    device: Floats = sum(parts.values(), start=np.zeros(len(t)))
    host = v["kernel_s"] * (t.micro * t.kernels * passes + t.optimizer_kernels)
    parts["launch"] = (device**POWER + host**POWER) ** (1.0 / POWER) - device
    parts["data_parallel"] = v["reduce"] * t.reduce
    parts["fixed"] = np.zeros(len(t)) + v["start_s"]
    return parts


def price_convolutional(model: Model, workload: Workload, platform: Platform, plans: PlanTable, calibration: Calibration) -> PricedTable:
    """Return the predictions of training plans of a convolutional model (data parallel, accumulation)."""
    n = len(plans)
    parts = {name: np.zeros(n) for name in CAUSES}
    flops, peak, spread = np.zeros(n), np.ones(n), np.zeros(n)
    known = RowEvidence(n)
    batch, micro, devices = plans.ints("micro_batch"), plans.ints("grad_accumulation"), plans.ints("devices")
    for group in plan_groups(plans, platform, ("framework", "precision", "optimizer", "execution")):
        rows, framework, precision = group.rows, group.choice["framework"], group.choice["precision"]
        curves = curves_for(platform, framework, calibration, group.threads, group.choice["execution"])
        stack = stack_for(calibration, framework, curves.generation, precision)
        numbers = Numbers(compute=precision, weight_bytes=2.0 if precision in ("fp16", "bf16") else 4.0)
        terms = step_terms(
            model,
            curves,
            platform,
            numbers,
            batch=batch[rows],
            seq=1.0,
            training=True,
            devices=plans.ints("dp")[rows],
            micro_batches=micro[rows],
            optimizer=group.choice["optimizer"],
        )
        for name, seconds in compose_step(terms, stack).items():
            parts[name][rows] = seconds
        flops[rows], peak[rows] = 3.0 * terms.flops * micro[rows], curves.peak(precision)
        evidence: Evidence = stack.evidence if curves.local is None else curves.local.evidence
        known.add(rows, evidence, curves.measurements)
        spread[rows] = step_sigma(calibration, evidence)
    time = sum(parts.values(), start=np.zeros(n))
    samples = batch * micro * plans.ints("dp")
    return assemble(
        platform,
        parts,
        CAUSES,
        training_memory(model, plans),
        devices,
        throughput=samples / time,
        throughput_unit="images/s" if model.sample == "image" else "samples/s",
        tokens_per_s_per_device=samples / time / devices,
        mfu=flops / time / peak,
        sigma_log=spread,
        memory_sigma_log=np.full(n, calibration.sigma.get("memory", 0.15)),
        evidence=weakest(known.rows),
        row_evidence=tuple(known.rows),
        measurements=tuple(known.measurements),
    )


def training_memory(model: Model, plans: PlanTable) -> dict[str, Floats]:
    """Return memory parts in bytes per device of training a convolutional model."""
    parameters = float(model.parameters)
    narrow = plans.equals("precision", "fp16") | plans.equals("precision", "bf16")
    element = np.where(narrow, 2.0, 4.0)
    share = np.maximum(plans.ints("shard_degree"), 1.0)
    kept = float(sum(b.activation_elements_per_token * b.repeat for b in model.blocks))
    states = plans.lookup("optimizer", _STATE_BYTES, 8.0)
    full = plans.equals("recompute", "full")
    # With full recomputation the inputs of the blocks stay, about the square root of all activations beside one block's own.
    live = np.where(full, 2.0 * kept / np.sqrt(max(len(model.blocks), 1)), kept)
    return {
        "weights": parameters * (element + np.where(narrow, 4.0, 0.0)) * np.ones(len(plans)),
        "gradients": parameters * element,
        "optimizer_states": parameters * states / share,
        "activations": plans.ints("micro_batch") * live * element,
        "workspace": np.full(len(plans), _WORKSPACE_BYTES),
        "context": np.full(len(plans), _CONTEXT_BYTES),
    }


def step_sigma(calibration: Calibration, evidence: Evidence) -> float:
    """Return the spread of log(measured / predicted) of a step under a software stack, by evidence."""
    fitted = calibration.section("classic").get("sigma", {}).get(evidence)
    return float(fitted) if fitted is not None else 1.3 * sigma(calibration, "training", evidence)
