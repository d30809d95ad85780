"""Terms of a latency: one prompt pass and one mean decode step at the kernel curves, and how an engine composes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.curves import DeviceCurves, collective_seconds
from advisor.cost.engines import Engine
from advisor.cost.forward import Forward, Numbers, forward
from advisor.hardware.platform import Platform
from advisor.model.records import Model

Floats = npt.NDArray[np.float64]

#: Share of a convolutional network's element-wise bytes that folding leaves at inference (residual sums and pools of ResNet-50).
_UNFOLDED = 0.3


@dataclass(frozen=True, slots=True)
class Terms:
    """Linear terms of a latency, float64[n]: one prompt pass and one mean decode step, before the engine's parameters."""

    prompt: Mapping[str, Floats]
    step: Mapping[str, Floats]
    prompts: Floats
    steps: Floats
    batch: Floats
    layers: float
    flops: Floats


def numbers_of(precision: str, quantization: str) -> Numbers:
    """Return how a plan holds its numbers.

    fp8 and static or dynamic int8 multiply in 8 bits, fp8 and fp4 keep the cache in 8 bits too; int8, int4 and nf4 alone are
    weight-only. Four-bit weights carry a 16-bit scale for each group of 128 (AWQ, GPTQ) or 64 (nf4).
    """
    if quantization in ("fp8", "fp4") or precision in ("fp8", "fp4"):
        kind = "fp4" if "fp4" in (quantization, precision) else "fp8"
        return Numbers(compute=kind, weight_bytes=0.5625 if kind == "fp4" else 1.0, cache_bytes=1.0, wide=precision)
    if quantization in ("int8-dynamic", "int8-static") or precision == "int8":
        return Numbers(compute="int8", weight_bytes=1.0, wide=precision)
    stored = {"int8": 1.0, "int4": 0.52, "int4-awq": 0.52, "int4-gptq": 0.52, "nf4": 0.53}
    full = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0}.get(precision, 2.0)
    return Numbers(compute=precision, weight_bytes=stored.get(quantization, full))


def terms_of(
    model: Model,
    curves: DeviceCurves,
    platform: Platform,
    numbers: Numbers,
    *,
    batch: Any,
    tp: Any,
    pp: Any,
    prompt: Any,
    output: Any,
    chunk: Any = None,
    ep: Any = 1.0,
    imbalance: float = 1.0,
    last_only: bool | None = None,
) -> Terms:
    """Return the terms of latencies for arrays of plans. ``output`` 0 or 1 is the prompt alone; ``chunk`` splits the prompt into passes.

    Arrays broadcast. ``chunk`` is how many prompt tokens a pass takes (None: all of them); ``ep`` devices share the experts, the
    busiest with ``imbalance`` times the mean; ``last_only`` as in ``forward``.
    """
    b, t, stages, p, o, e = (np.asarray(x, dtype=np.float64) for x in np.broadcast_arrays(batch, tp, pp, prompt, output, ep))
    shared: dict[str, Any] = {"tp": t, "ep": e, "imbalance": imbalance, "last_only": last_only}
    part = np.maximum(b / stages, 1.0)
    decodes = model.kind in ("decoder", "encoder-decoder")
    width = p if chunk is None else np.minimum(np.asarray(chunk, dtype=np.float64), p)
    passes = np.ceil(p / np.maximum(width, 1.0))
    keys = p if chunk is None else np.maximum((p + width) / 2.0, width)
    reading = forward(model, curves, numbers, batch=b, query=width, keys=keys, **shared)
    steps = np.maximum(o - 1.0, 0.0) if decodes else np.zeros_like(b)
    first = _pass(model, curves, platform, numbers, reading, b * width, t, stages, e)
    if not decodes or not (steps > 0).any():
        empty = {name: np.zeros_like(b) for name in first}
        return Terms(first, empty, passes, steps, b, _layers(model), reading.flops * passes)
    making = forward(model, curves, numbers, batch=part, query=1.0, keys=p + (o + 1.0) / 2.0, **shared)
    later = _pass(model, curves, platform, numbers, making, part, t, stages, e)
    return Terms(first, later, passes, steps, part, _layers(model), reading.flops * passes + making.flops * steps * (b / part))


def _layers(model: Model) -> float:
    return float(model.transformer.layers) if model.transformer is not None else sum(float(b.repeat) for b in model.blocks)


def _pass(
    model: Model,
    curves: DeviceCurves,
    platform: Platform,
    numbers: Numbers,
    work: Forward,
    tokens: Floats,
    tp: Floats,
    pp: Floats,
    ep: Floats,
) -> dict[str, Floats]:
    size = tokens * work.hidden * numbers.activation_bytes
    network = np.zeros_like(size)
    # Experts of one replica add their shares in the all-reduce that follows anyway; tokens go to those of other replicas and back.
    away = np.where(ep > tp, work.routings, 0.0)
    if platform.tiers:
        network = (work.reduces - away) * collective_seconds("all_reduce", size, tp, platform.tiers, curves)
    if platform.tiers and (away > 0).any():
        exchange = collective_seconds("all_to_all", size * work.routed / tp, ep, platform.tiers, curves)
        network = network + away * (2.0 * exchange + collective_seconds("all_gather", size, tp, platform.tiers, curves))
    if platform.tiers and (pp > 1).any():
        hand_on = collective_seconds("p2p", size / tp, np.where(pp > 1, 2.0, 1.0), platform.tiers, curves, stride=tp)
        network = network + np.maximum(pp - 1.0, 0.0) * hand_on
    return {
        "gemm": work.gemm + work.conv + work.grouped + work.depthwise,
        "attention": work.attention,
        # Normalization and activation of a convolution are folded into it at inference: the residual sums and pools remain.
        "stream": work.stream * (_UNFOLDED if model.kind == "convolutional" else 1.0),
        "network": network,
        "calls": np.where(tp > 1, work.reduces, 0.0) + 2.0 * away + np.maximum(pp - 1.0, 0.0),
        "kernels": np.full(tokens.shape, work.kernels),
    }


def compose(terms: Terms, engine: Engine) -> dict[str, Floats]:
    """Return the named parts of the latency under an engine; they add up to it."""
    v = engine.values
    first, later, n = terms.prompt, terms.step, terms.steps
    passes = terms.prompts
    turns = passes + n
    return {
        "prefill": passes * v["prefill"] * (first["gemm"] + first["attention"]),
        "decode_weights": n * v["weights"] * later["gemm"],
        "decode_keys": n * v["keys"] * later["attention"],
        "elementwise": v["pass"] * (passes * first["stream"] + n * later["stream"]),
        "communication": passes * (first["network"] + v["call_s"] * first["calls"]) + n * (later["network"] + v["call_s"] * later["calls"]),
        "launch": turns * terms.layers * v["layer_s"],
        "engine": v["batch_s"] + turns * (v["step_s"] + terms.batch * v["sequence_s"]),
    }


def first_token(terms: Terms, engine: Engine) -> Floats:
    """Return seconds to the first token: the prompt's passes and the start of the batch."""
    one = Terms(terms.prompt, terms.step, terms.prompts, np.zeros_like(terms.steps), terms.batch, terms.layers, terms.flops)
    total: Floats = sum(compose(one, engine).values(), start=np.zeros_like(terms.steps))
    return total
