"""Predictions for a table of inference plans: latency of a batch, first and later tokens, throughput, memory.

A decoder reads the prompt in one pass and then makes one token a step; the cache it reads grows, so a step is priced at its mean
length. Encoders, vision and convolutional models are one pass. Tensor parallelism divides products and adds two all-reduces a layer;
pipeline parallelism cuts the batch into as many parts as stages, so a step reads all weights at a smaller batch and hands activations
on. Serving at a concurrency is a batch of that size; at a request rate, places in the batch
are a queue's servers (see ``queueing``), and the wait is part of the latency and of the first token.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.convolutional import compose_step, step_sigma, step_terms
from advisor.cost.curves import DeviceCurves, curves_for
from advisor.cost.energy import energy_j
from advisor.cost.engines import Engine, engine_for
from advisor.cost.forward import Numbers
from advisor.cost.inference_memory import inference_memory
from advisor.cost.inference_terms import compose, first_token, numbers_of, terms_of
from advisor.cost.price import BOTTLENECKS, PricedTable
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
    evidence: list[Evidence] = ["spec"] * n
    used: list[str] = []
    notes: list[str] = []
    spread = np.zeros(n)
    for rows, (framework, precision, quantization, execution, threads) in _groups(plans, platform):
        curves = curves_for(platform, framework, calibration, threads, execution)
        engine = engine_for(calibration, framework, curves.generation, platform.is_cpu)
        numbers = numbers_of(precision, quantization)
        alike, back = _distinct(batch[rows], plans.ints("tp")[rows], plans.ints("pp")[rows])
        b, tp, pp = alike
        if _one_pass_of_a_framework(model, curves, framework, tp * pp):
            # Published steps of vision and BERT-class models calibrate the frameworks that run them.
            stack = stack_for(calibration, framework, curves.generation, precision)
            step = step_terms(model, curves, platform, numbers, batch=b, seq=prompt, training=False)
            for name, seconds in _as_latency(compose_step(step, stack)).items():
                parts[name][rows] = seconds[back]
            flops[rows], peak[rows] = step.flops[back], curves.peak(numbers.compute)
            known = _weakest([curves.evidence, stack.evidence])
            _set(evidence, rows, known)
            spread[rows] = step_sigma(calibration, known)
            notes.extend(curves.notes)
            continue
        terms = terms_of(model, curves, platform, numbers, batch=b, tp=tp, pp=pp, prompt=prompt, output=output)
        for name, seconds in compose(terms, engine).items():
            parts[name][rows] = seconds[back]
        ttft[rows] = first_token(terms, engine)[back]
        flops[rows], peak[rows] = terms.flops[back], curves.peak(numbers.compute)
        known = _evidence(curves, engine, numbers)
        _set(evidence, rows, known)
        spread[rows] = _sigma(calibration, known, curves, numbers)
        notes.extend(curves.notes)
        if curves.local is not None:
            used.extend(curves.local.measurements)
    time = sum(parts.values(), start=np.zeros(n))
    replicas, devices = plans.ints("dp"), plans.ints("devices")
    samples = batch * replicas / np.maximum(time, 1e-12)
    if workload.request_rate:
        # No more is served than arrives; what cannot be served waits.
        samples = np.minimum(samples, workload.request_rate)
        parts["queue"] = waiting_s(time, batch * replicas, workload.request_rate)
        time, ttft = time + parts["queue"], ttft + parts["queue"]
    held = inference_memory(model, plans, prompt + output, calibration)
    total = sum(held.values(), start=np.zeros(n))
    limit = float(platform.memory_bytes) if platform.memory_bytes else None
    generates = model.kind in ("decoder", "encoder-decoder") and output > 0
    busy = (time - parts["launch"] - parts["engine"] - parts["communication"] - parts.get("queue", 0.0)) / np.maximum(time, 1e-12)
    return PricedTable(
        time_s=time,
        time_parts=parts,
        memory_bytes=total,
        memory_parts=held,
        memory_limit_bytes=limit,
        fits=np.ones(n, dtype=bool) if limit is None else total <= limit,
        throughput=samples * (output if generates else 1.0),
        throughput_unit="tokens/s" if generates else ("images/s" if model.sample == "image" else "sequences/s"),
        tokens_per_s_per_device=samples * (output if generates else prompt) / devices,
        mfu=flops / time / (peak * plans.ints("tp") * plans.ints("pp")),
        ttft_s=ttft if generates else None,
        tpot_s=(time - ttft) / max(output - 1.0, 1.0) if generates and output > 1 else None,
        energy_j=energy_j(platform, time, busy, devices),
        cost_usd=None if platform.usd_per_device_hour is None else time * devices * platform.usd_per_device_hour / 3600.0,
        sigma_log=spread,
        memory_sigma_log=np.full(n, calibration.sigma.get("memory", 0.1)),
        evidence=_weakest(evidence),
        row_evidence=tuple(evidence),
        bottleneck=_bottlenecks(parts),
        is_training=False,
        measurements=tuple(dict.fromkeys(used)),
        notes=tuple(dict.fromkeys(notes)),
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


def _groups(plans: PlanTable, platform: Platform) -> list[tuple[npt.NDArray[np.intp], tuple[str, str, str, str, int]]]:
    """Return row indices and (framework, precision, quantization, execution, threads) of each group of plans priced together."""
    names = ("framework", "precision", "quantization", "execution")
    threads = plans.columns["threads"] if platform.is_cpu else np.zeros(len(plans), dtype=np.int64)
    keys = np.stack([plans.columns[name].astype(np.int64) for name in names] + [threads])
    if not len(plans):
        return []
    unique, back = np.unique(keys, axis=1, return_inverse=True)
    back = np.asarray(back).ravel()
    found = []
    for index in range(unique.shape[1]):
        framework, precision, quantization, execution = (plans.vocabulary[name][int(unique[i, index])] for i, name in enumerate(names))
        found.append(
            (np.flatnonzero(back == index), (framework, precision, quantization, execution, int(unique[4, index]) or platform.threads))
        )
    return found


_ORDER: tuple[Evidence, ...] = ("measured", "calibrated", "transferred", "spec")


def _evidence(curves: DeviceCurves, engine: Engine, numbers: Numbers) -> Evidence:
    if curves.local is not None:
        return "measured" if curves.local.measured(numbers.compute) else "spec"
    return _weakest([curves.evidence, engine.evidence])


def _set(evidence: list[Evidence], rows: npt.NDArray[np.intp], known: Evidence) -> None:
    for row in rows.tolist():
        evidence[row] = known


def _weakest(found: list[Evidence]) -> Evidence:
    return max(found, key=_ORDER.index, default="spec")


def _sigma(calibration: Calibration, evidence: Evidence, curves: DeviceCurves, numbers: Numbers) -> float:
    """Return the spread of log(measured / predicted); a dtype that borrows another's points on a CPU is far wider."""
    if curves.local is not None:
        return 0.15 if evidence == "measured" else (0.8 if numbers.compute in curves.local.borrowed else 0.4)
    fitted = calibration.section("inference").get("sigma", {}).get(evidence)
    return float(fitted) if fitted is not None else 1.3 * sigma(calibration, "training", evidence)


def _bottlenecks(parts: Mapping[str, Floats]) -> npt.NDArray[np.int8]:
    totals = np.zeros((len(BOTTLENECKS), len(next(iter(parts.values())))))
    for name, seconds in parts.items():
        totals[BOTTLENECKS.index(CAUSES[name])] += seconds
    return np.asarray(totals.argmax(axis=0), dtype=np.int8)
