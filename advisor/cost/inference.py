"""Predictions for a table of inference plans: latency of a batch, first and later tokens, throughput, memory.

A decoder reads the prompt in one pass and then makes one token a step; the cache it reads grows, so a step is priced at its mean
length. Encoders, vision and convolutional models are one pass. Tensor parallelism divides products and adds two all-reduces a layer;
pipeline parallelism cuts the batch into as many parts as stages, so a step reads all weights at a smaller batch and hands activations
on. Serving at a concurrency is a batch of that size; at a request rate, places in the batch
are a queue's servers (see ``queueing``), and the wait is part of the latency and of the first token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.convolutional import compose_step, step_sigma, step_terms
from advisor.cost.curves import DeviceCurves, curves_for
from advisor.cost.engines import Engine, engine_for
from advisor.cost.forward import Numbers
from advisor.cost.inference_memory import inference_memory
from advisor.cost.inference_terms import compose, first_token, numbers_of, terms_of
from advisor.cost.priced import PricedTable, RowEvidence, assemble, plan_groups, weakest
from advisor.cost.queueing import waiting_s
from advisor.cost.stacks import stack_for
from advisor.cost.uncertainty import sigma
from advisor.hardware.platform import Evidence, Platform
from advisor.model.records import Model
from advisor.plan.records import Workload
from advisor.plan.table import PlanTable

Floats = npt.NDArray[np.float64]

#: Which bottleneck each part of a latency belongs to.
CAUSES: Mapping[str, str] = {
    "prefill": "compute",
    "decode_weights": "memory_bandwidth",
    "decode_keys": "memory_bandwidth",
    "elementwise": "memory_bandwidth",
    "communication": "communication",
    "launch": "launch",
    "engine": "launch",
    "queue": "input",
}
#: Parts every latency has; a queue only where requests arrive at a rate.
PARTS = tuple(name for name in CAUSES if name != "queue")


def price_inference(model: Model, workload: Workload, platform: Platform, plans: PlanTable, calibration: Calibration) -> PricedTable:
    """Return the predictions of every inference plan; ``time_s`` is the latency of one batch of ``micro_batch`` sequences."""
    n = len(plans)
    prompt, output = lengths(model, workload)
    batch = plans.ints("micro_batch")
    parts = {name: np.zeros(n) for name in PARTS}
    ttft, flops, peak = np.zeros(n), np.zeros(n), np.ones(n)
    known = RowEvidence(n)
    spread = np.zeros(n)
    for group in plan_groups(plans, platform, ("framework", "precision", "quantization", "execution")):
        rows, framework, precision = group.rows, group.choice["framework"], group.choice["precision"]
        curves = curves_for(platform, framework, calibration, group.threads, group.choice["execution"])
        engine = engine_for(calibration, framework, curves.generation, platform.is_cpu)
        numbers = numbers_of(precision, group.choice["quantization"])
        alike, back = _distinct(batch[rows], *(plans.ints(name)[rows] for name in ("tp", "pp", "ep")))
        b, tp, pp, ep = alike
        peak[rows] = curves.peak(numbers.compute)
        if _one_pass_of_a_framework(model, curves, framework, tp * pp):
            # Published steps of vision and BERT-class models calibrate the frameworks that run them.
            stack = stack_for(calibration, framework, curves.generation, precision)
            step = step_terms(model, curves, platform, numbers, batch=b, seq=prompt, training=False)
            seconds = _as_latency(compose_step(step, stack))
            evidence = weakest([curves.evidence, stack.evidence])
            flops[rows], spread[rows] = step.flops[back], step_sigma(calibration, evidence)
        else:
            shares: dict[str, Any] = {"tp": tp, "pp": pp, "ep": ep, "imbalance": calibration["expert_imbalance"]}
            # A framework that generates nothing returns the logits of every token; an engine computes those it samples from.
            shares["last_only"] = None if output > 0 or group.choice["execution"] == "engine" else False
            terms = terms_of(model, curves, platform, numbers, batch=b, prompt=prompt, output=output, **shares)
            seconds = compose(terms, engine)
            ttft[rows] = first_token(terms, engine)[back]
            evidence = _evidence(curves, engine, numbers)
            flops[rows], spread[rows] = terms.flops[back], _sigma(calibration, evidence, curves, numbers)
        for name, column in seconds.items():
            parts[name][rows] = column[back]
        known.add(rows, evidence, curves.measurements, curves.notes)
    # No published row shares experts over devices.
    shared = np.flatnonzero(plans.ints("ep") > 1)
    for row in shared.tolist():
        known.rows[row] = weakest([known.rows[row], "transferred"])
        spread[row] = max(spread[row], _sigma_of(calibration, "transferred"))
    time = sum(parts.values(), start=np.zeros(n))
    replicas, devices = plans.ints("dp"), plans.ints("devices")
    samples = batch * replicas / np.maximum(time, 1e-12)
    if workload.request_rate:
        # No more is served than arrives; what cannot be served waits.
        samples = np.minimum(samples, workload.request_rate)
        parts["queue"] = waiting_s(time, batch * replicas, workload.request_rate)
        time, ttft = time + parts["queue"], ttft + parts["queue"]
    generates = model.kind in ("decoder", "encoder-decoder") and output > 0
    return assemble(
        platform,
        parts,
        CAUSES,
        inference_memory(model, plans, prompt + output, calibration),
        devices,
        throughput=samples * (output if generates else 1.0),
        throughput_unit="tokens/s" if generates else ("images/s" if model.sample == "image" else "sequences/s"),
        tokens_per_s_per_device=samples * (output if generates else prompt) / devices,
        # The operations are those of one tensor-parallel rank, so the ranks divide out.
        mfu=flops / time / (peak * plans.ints("pp")),
        ttft_s=ttft if generates else None,
        tpot_s=(time - ttft) / max(output - 1.0, 1.0) if generates and output > 1 else None,
        sigma_log=spread,
        memory_sigma_log=np.full(n, calibration.sigma.get("memory", 0.1)),
        evidence=weakest(known.rows),
        row_evidence=tuple(known.rows),
        is_training=False,
        measurements=tuple(known.measurements),
        notes=tuple(known.notes),
    )


def _distinct(*columns: Floats) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Return the distinct combinations, float64[columns, u], and the index that rebuilds the rows: placement alone changes no term."""
    unique, back = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return unique, np.asarray(back).ravel()


def _one_pass_of_a_framework(model: Model, curves: DeviceCurves, framework: str, split: Floats) -> bool:
    """Tell whether a step is one undivided pass of an encoder or a vision model in a framework on an accelerator."""
    return (
        model.kind in ("encoder", "vision", "convolutional") and curves.local is None and bool((split <= 1).all()) and framework != "vllm"
    )


def _as_latency(step: Mapping[str, Floats]) -> dict[str, Floats]:
    return {
        "prefill": step["convolution"] + step["gemm"],
        "elementwise": step["elementwise"],
        "launch": step["launch"],
        "engine": step["fixed"],
    }


def lengths(model: Model, workload: Workload) -> tuple[float, float]:
    """Return prompt and output tokens of a sequence: all of ``seq_len`` is read where the workload names neither."""
    if model.kind == "convolutional":
        return 1.0, 0.0
    if model.sample == "image":
        return float(model.default_seq), 0.0
    prompt = float(workload.input_len or workload.seq_len)
    return prompt, float(workload.output_len or 0) if model.kind in ("decoder", "encoder-decoder") else 0.0


def _evidence(curves: DeviceCurves, engine: Engine, numbers: Numbers) -> Evidence:
    if curves.local is not None:
        return "measured" if curves.local.measured(numbers.compute) else "spec"
    return weakest([curves.evidence, engine.evidence])


def _sigma(calibration: Calibration, evidence: Evidence, curves: DeviceCurves, numbers: Numbers) -> float:
    """Return the spread of log(measured / predicted); a dtype that borrows another's points on a CPU is far wider."""
    if curves.local is not None:
        return 0.15 if evidence == "measured" else (0.8 if numbers.compute in curves.local.borrowed else 0.4)
    return _sigma_of(calibration, evidence)


def _sigma_of(calibration: Calibration, evidence: Evidence) -> float:
    fitted = calibration.section("inference").get("sigma", {}).get(evidence)
    return float(fitted) if fitted is not None else 1.3 * sigma(calibration, "training", evidence)
