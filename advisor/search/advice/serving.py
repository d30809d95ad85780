"""Serving: engine, replicas and degrees, the budget of key-value tokens, the largest batch, batching delay and bounds of autoscaling."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from advisor.cost.inference_memory import kv_cache_bytes, weight_bytes
from advisor.model.records import Transformer
from advisor.search.advice._case import Case
from advisor.search.records import Reason
from advisor.units import GIB, MIB, format_bytes, format_seconds

#: Share of the memory that engines take by default (vLLM ``gpu_memory_utilization``).
MEMORY_SHARE = 0.90
#: What the driver keeps of the nominal memory and the context takes, before the engine's share (a 24 GB card shows 23.6 GiB).
_DRIVER_SHARE = 0.99
#: Sequences of the profiling pass, for each of which logits are made in the model's dtype and once more in fp32 (vLLM ``max_num_seqs``).
_PROFILE_SEQUENCES = 256
#: fp32 logits, probabilities, a sorted copy and its 64-bit indices.
_SAMPLER_BYTES = 20.0
#: CUDA context with loaded modules and the workspace of the product library, as in ``cost.inference_memory``.
_CONTEXT_BYTES = 0.55 * GIB + 256 * MIB
#: Load above which another replica is started, and the share of the time to the first token that may go into waiting for a batch.
_BUSY = 0.7
_DELAY_SHARE = 0.1
_WIDTH = {"fp32": 4.0, "tf32": 4.0, "fp64": 8.0}


def serving_advice(case: Case) -> Iterator[Reason]:
    """Yield the settings of a server for models that generate, and batching for those that do not."""
    if case.workload.is_training:
        return
    if case.model.kind == "decoder" and case.plan.execution == "engine" and case.model.transformer is not None:
        yield kv_budget(case, case.model.transformer)
    if case.workload.task == "serve":
        yield _settings(case)


def kv_budget(case: Case, t: Transformer) -> Reason:
    """Return the key-value tokens one replica can hold: share · memory − weights − the peak of the profiling pass, over bytes a token.

    The profiling pass reads ``max_model_len`` tokens at once (vLLM profiles its largest batch at start): queries, keys, values and both
    widths of the MLP live together, and logits of up to 256 sequences.
    """
    model, plan = case.model, case.plan
    width = _WIDTH.get(plan.precision, 2.0)
    one = np.ones(1)
    tp, pp = one * plan.tp, one * plan.pp
    cached = width if plan.quantization not in ("fp8", "fp4") and plan.precision not in ("fp8", "fp4") else 1.0
    per_token = float(kv_cache_bytes(model, one, 1.0, one * cached, tp, pp)[0])
    quantized = {"none": width}.get(plan.quantization, 0.52 if plan.quantization.startswith(("int4", "nf4", "fp4")) else 1.0)
    weights = float(weight_bytes(model, one * width, one * quantized)[0]) / (plan.tp * plan.pp)
    total = float(case.platform.memory_bytes or 0)
    length = case.workload.seq_len
    peak = profile_bytes(hidden=t.hidden, ffn=t.ffn_hidden, vocab=t.vocab, tokens=length, width=width, tp=plan.tp, gated=t.gated_mlp)
    room = MEMORY_SHARE * _DRIVER_SHARE * total - weights - peak
    tokens = max(0, int(room / per_token)) if per_token > 0 and total else 0
    detail = {
        "kv_bytes_per_token": per_token, "kv_cache_tokens": tokens, "kv_cache_bytes": max(room, 0.0), "memory_share": MEMORY_SHARE,
        "weights_bytes": weights, "profile_bytes": peak, "max_model_len": min(length, tokens),
    }  # fmt: skip
    text = (
        f"key-value cache: {MEMORY_SHARE:.2f} of {format_bytes(total)} − weights {format_bytes(weights)} − peak {format_bytes(peak)} = "
        f"{format_bytes(max(room, 0.0))}, {tokens:,} tokens of {per_token / MIB:.3f} MiB a replica"
    )
    if tokens < length:
        need = length * per_token
        text += (
            f"; a sequence of {length:,} needs {need / GIB:.2f} GiB: set max_model_len {tokens // 16 * 16:,}, a larger memory "
            f"share (0.95), an fp8 "
            "cache (half the bytes), or tp=2"
        )
    else:
        text += f": {tokens // length:,} sequences of {length:,} at once"
    return Reason(code="KV-BUDGET", text=text, value=float(tokens), detail=detail)


def profile_bytes(*, hidden: int, ffn: int, vocab: int, tokens: int, width: float, tp: int, gated: bool) -> float:
    """Return what an engine finds in use after its profiling pass, in bytes: the larger of the MLP's peak and the sampler's, the context.

    The MLP holds its widths and three hidden states; the sampler logits, their fp32 copy, probabilities and a sorted copy with indices.
    """
    mlp = tokens * width * (3.0 * hidden + (3.0 if gated else 2.0) * ffn / tp)
    sampler = min(_PROFILE_SEQUENCES, tokens) * vocab * (width + _SAMPLER_BYTES)
    return max(mlp, sampler) + _CONTEXT_BYTES


def _settings(case: Case) -> Reason:
    plan, w, e = case.plan, case.workload, case.estimate
    rate = None
    if e.throughput is not None:
        rate = e.throughput.value / (w.output_len or 1) if e.throughput_unit == "tokens/s" else e.throughput.value
    per_replica = None if rate is None else rate / plan.dp
    first = e.ttft_s or e.latency_s
    allowed = w.limits.get("ttft_s", w.limits.get("latency_s", first.value if first is not None else 0.1))
    delay = _DELAY_SHARE * allowed
    least = most = plan.dp
    if w.request_rate and per_replica:
        least = max(1, math.ceil(w.request_rate / per_replica))
        most = max(least, math.ceil(w.request_rate / (_BUSY * per_replica)) + 1)
    detail = {
        "engine": plan.framework, "replicas": plan.dp, "tp": plan.tp, "pp": plan.pp, "ep": plan.ep, "quantization": plan.quantization,
        "max_batch": plan.micro_batch, "max_batched_tokens": max(8192, plan.micro_batch), "requests_per_s": rate,
        "requests_per_s_per_replica": per_replica, "instance_groups": plan.dp, "batching_delay_s": delay, "min_replicas": least,
        "max_replicas": most,
    }  # fmt: skip
    text = (
        f"serve with {plan.framework}: {plan.dp} replica{'s' if plan.dp > 1 else ''} × tp {plan.tp} × pp {plan.pp}, "
        f"{'16-bit' if plan.quantization == 'none' else plan.quantization} weights, at most "
        f"{plan.micro_batch} sequences and {max(8192, plan.micro_batch):,} tokens a step each"
    )
    if per_replica is not None and rate is not None:
        text += f", {rate:.3g} requests/s in all ({per_replica:.3g} a replica)"
    text += (
        f"; batching delay up to {format_seconds(delay)}; autoscale between {least} and {most} replicas, one more above "
        f"{100 * _BUSY:.0f} % load"
    )
    return Reason(code="SERVING", text=text, value=float(plan.dp), detail=detail)
