"""What one micro-batch costs on one device, kernel by kernel, before any parameter of the training model is applied.

``layer_work`` walks the operators of every layer and prices them on the kernel curves under tensor, sequence, context and expert
parallelism. Many plans share a micro-batch and the degrees that divide a layer, so each distinct combination is priced once and
the plans point into that table.

Backward of a product (m x k)(k x n) is two products, (m x n)(n x k) for the input and (n x m)(m x k) for the weight.
Unfused attention is two batched products with softmax and dropout between them, all over heads x query x key scores.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.curves import DeviceCurves, attention_seconds, gemm_seconds
from advisor.frameworks._training import Traits
from advisor.model.records import Attention, Block, Elementwise, Gemm, Model
from advisor.units import dtype_bytes

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shape:
    """The distinct combinations: float64[u] each. ``micro_batch`` sequences of ``seq`` tokens on one model replica."""

    micro_batch: Floats
    tp: Floats
    cp: Floats
    ep: Floats
    sp: Floats
    seq: float


@dataclass(slots=True)
class LayerWork:
    """Seconds at the kernel curves, bytes and counts, float64[u]: all layers together, then embedding and head.

    ``score_*``: the part of unfused attention that selective recomputation repeats. ``gather_tokens_bytes``: one copy of the hidden
    state of the micro-batch, the unit of tensor-parallel traffic. ``softmax_launches``: extra kernels of one layer and pass where the
    fused softmax does not apply. ``misaligned``: seconds of batched products whose head dimension
    is no multiple of eight elements.
    """

    gemm_forward: Any = 0.0
    gemm_input: Any = 0.0
    gemm_weight: Any = 0.0
    flash_forward: Any = 0.0
    flash_backward: Any = 0.0
    batched_forward: Any = 0.0
    batched_backward: Any = 0.0
    misaligned_forward: Any = 0.0
    misaligned_backward: Any = 0.0
    score_bytes_forward: Any = 0.0
    score_bytes_backward: Any = 0.0
    traffic_forward: Any = 0.0
    traffic_backward: Any = 0.0
    cast_forward: Any = 0.0
    cast_backward: Any = 0.0
    flops: Any = 0.0
    expert_forward: Any = 0.0
    expert_backward: Any = 0.0
    hidden_bytes: Any = 0.0
    kv_bytes: Any = 0.0
    head_gemm_forward: Any = 0.0
    head_gemm_backward: Any = 0.0
    logits: Any = 0.0
    edge_bytes: Any = 0.0
    edge_flops: Any = 0.0
    softmax_launches: Any = 0.0


#: Kernels of an unfused causal softmax in one pass: build the mask, scale, fill, cast up, softmax, cast down, and their copies.
SEPARATE_SOFTMAX_LAUNCHES = 14.0
#: Bytes they move for each score beyond the fused one: cast up (2 + 4), mask (4 + 4 + 1), softmax in fp32 (4 + 4 less 2 + 2),
#: cast down (4 + 2).
SEPARATE_SOFTMAX_BYTES = 25.0

LAYER_WORK_FIELDS = tuple(f.name for f in fields(LayerWork))


def layer_work(
    model: Model, shape: Shape, curves: DeviceCurves, traits: Traits, *, precision: str, attention: str, trains_weights: bool = True
) -> LayerWork:
    """Return the work of one micro-batch of ``model`` for each combination in ``shape``; see LayerWork for units."""
    work = LayerWork(**{name: np.zeros(shape.micro_batch.shape) for name in LAYER_WORK_FIELDS})
    for block in model.blocks:
        tokens = shape.micro_batch * float(block.tokens_per_sample or shape.seq) / shape.cp
        for op in block.operators:
            if isinstance(op, Gemm):
                own = shape.micro_batch * float(op.tokens_per_sample) if op.tokens_per_sample else tokens
                _add_gemm(work, block, op, own, shape, curves, precision, trains_weights)
            elif isinstance(op, Attention):
                _add_attention(work, block, op, shape, curves, precision, attention)
            elif isinstance(op, Elementwise):
                _add_elementwise(work, block, op, tokens, shape, precision)
    hidden = float(model.transformer.hidden) if model.transformer else 0.0
    width = _activation_bytes(precision)
    work.hidden_bytes = shape.micro_batch * shape.seq / shape.cp * hidden * width
    if model.transformer is not None:
        t = model.transformer
        work.kv_bytes = shape.micro_batch * shape.seq / shape.cp * 2.0 * t.kv_heads * t.head_dim / np.minimum(shape.tp, t.kv_heads) * width
    return work


def _activation_bytes(precision: str) -> float:
    return max(dtype_bytes(precision), 2.0)


def _add_gemm(
    w: LayerWork, block: Block, op: Gemm, tokens: Floats, s: Shape, curves: DeviceCurves, precision: str, trains_weights: bool
) -> None:
    m, n, k = tokens, float(op.n), float(op.k)
    whole: Floats = np.ones_like(tokens)
    if op.split in ("column", "heads", "vocab"):
        n_, k_ = np.ceil(n / s.tp), k * whole
    elif op.split == "row":
        n_, k_ = n * whole, np.ceil(k / s.tp)
    else:
        n_, k_ = n * whole, k * whole
    padding: Any = 1.0
    if op.split == "experts":
        local = np.maximum(op.experts / s.ep, 1.0)
        m = tokens * op.experts_per_token / s.tp
        each = np.maximum(m / local, 1.0)
        padding = np.ceil(each / 128.0) * 128.0 / each
        padding = np.minimum(padding, local)
    elif op.split == "none" and block.section == "layer":
        m = np.where(s.sp > 0, tokens / s.tp, tokens)
    times = float(block.repeat * op.count)
    # The loss and its product run at no less than 16 bits: fp8 recipes keep the head in bf16 (Transformer Engine, torchao).
    dtype = precision if block.section == "layer" or dtype_bytes(precision) >= 2 else "bf16"
    forward = times * padding * gemm_seconds(curves, m, n_, k_, dtype)
    to_input = times * padding * gemm_seconds(curves, m, k_, n_, dtype)
    to_weight = times * padding * gemm_seconds(curves, n_, k_, m, dtype) if trains_weights else 0.0
    flops = 2.0 * times * m * n_ * k_
    if block.section == "layer":
        w.gemm_forward = w.gemm_forward + forward
        w.gemm_input = w.gemm_input + to_input
        w.gemm_weight = w.gemm_weight + to_weight
        w.flops = w.flops + flops
        if op.split == "experts":
            w.expert_forward = w.expert_forward + forward
            w.expert_backward = w.expert_backward + to_input + to_weight
        if dtype_bytes(precision) < 2:
            # Quantization reads 16-bit operands and writes 8-bit ones, and their transpose for the weight gradient.
            w.cast_forward = w.cast_forward + times * (m * k_ * 4.0 + n_ * k_ * 2.0)
            w.cast_backward = w.cast_backward + times * m * n_ * 4.0
    else:
        w.head_gemm_forward = w.head_gemm_forward + forward
        w.head_gemm_backward = w.head_gemm_backward + to_input + to_weight
        w.edge_flops = w.edge_flops + flops
        if op.split == "vocab":
            w.logits = w.logits + m * n_


def _add_attention(w: LayerWork, block: Block, op: Attention, s: Shape, curves: DeviceCurves, precision: str, attention: str) -> None:
    seq = float(op.tokens_per_sample or block.tokens_per_sample or s.seq)
    keys = float(op.keys_per_sample or seq)
    heads = np.ceil(op.heads / s.tp)
    kv = np.maximum(np.ceil(op.kv_heads / s.tp), 1.0)
    width = (op.head_dim + op.value_dim) / 2.0
    dtype = precision if dtype_bytes(precision) >= 2 else "bf16"
    times = float(block.repeat * op.count)
    reach = min(1.0, (op.window or keys) / keys * (2.0 if op.causal else 1.0)) if op.window else 1.0
    pairs = seq * keys * (0.5 if op.causal else 1.0) * reach
    w.flops = w.flops + times * 4.0 * s.micro_batch * heads * pairs * width / s.cp
    if attention == "math":
        scores = s.micro_batch * heads * seq * keys / s.cp
        rows = s.micro_batch * heads * seq / s.cp
        one = gemm_seconds(curves, rows, keys, width, dtype) + gemm_seconds(curves, rows, width, keys, dtype)
        target = "misaligned" if width % 8 else "batched"
        setattr(w, f"{target}_forward", getattr(w, f"{target}_forward") + times * one)
        setattr(w, f"{target}_backward", getattr(w, f"{target}_backward") + times * 2.0 * one)
        # Softmax reads and writes scores, dropout reads, writes and keeps a mask; backward reads the mask and both outputs.
        element = dtype_bytes(dtype)
        # The fused softmax takes four rows of heads and sequences at a time; otherwise mask, scale, cast and softmax run apart
        # (Megatron-LM fused_softmax.py, is_kernel_available).
        apart = np.mod(s.micro_batch * heads, 4.0) != 0
        w.softmax_launches = np.where(apart, SEPARATE_SOFTMAX_LAUNCHES, w.softmax_launches)
        extra = np.where(apart, SEPARATE_SOFTMAX_BYTES, 0.0) if element < 4 else 0.0
        w.score_bytes_forward = w.score_bytes_forward + times * scores * (4.0 * element + 1.0 + extra)
        w.score_bytes_backward = w.score_bytes_backward + times * scores * (5.0 * element + 1.0 + extra)
        return
    for backward in (False, True):
        seconds = attention_seconds(
            curves,
            batch=s.micro_batch,
            heads=heads,
            kv_heads=kv,
            query=seq,
            keys=keys,
            head_dim=width,
            causal=op.causal,
            dtype=dtype,
            backward=backward,
        )
        name = "flash_backward" if backward else "flash_forward"
        setattr(w, name, getattr(w, name) + times * reach * seconds / s.cp)


def _add_elementwise(w: LayerWork, block: Block, op: Elementwise, tokens: Floats, s: Shape, precision: str) -> None:
    own = s.micro_batch * float(op.tokens_per_sample) if op.tokens_per_sample else tokens
    divided = s.tp if op.split != "none" else np.where(s.sp > 0, s.tp, 1.0)
    moved = float(op.count * block.repeat) * own * (op.reads_per_token + op.writes_per_token) * _activation_bytes(precision) / divided
    if block.section == "layer":
        w.traffic_forward = w.traffic_forward + moved
        # Backward reads the incoming gradient and the kept input, and writes one gradient.
        w.traffic_backward = w.traffic_backward + 1.5 * moved
    else:
        w.edge_bytes = w.edge_bytes + 2.5 * moved
