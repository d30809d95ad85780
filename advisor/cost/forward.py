"""One forward pass of a model on one device, kernel by kernel, for many (batch, length, tensor degree) at once.

Every operator of every block is priced on the kernel curves; what an engine or framework adds is applied by the caller, so the sums
here are linear terms of the later time. Decoders compute the head for the last token of a sequence alone, as serving engines do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.curves import DeviceCurves, attention_seconds, conv_seconds, gemm_seconds, stream_seconds
from advisor.model.records import Attention, Conv, Elementwise, Gemm, Model
from advisor.units import DTYPE_BITS

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """How numbers are held: ``compute`` dtype of products, bytes of a stored weight and of a cached key, ``wide`` dtype of the rest.

    ``wide`` is what activations, softmax and attention are computed in; empty: that of the products, no narrower than 16 bits.
    """

    compute: str
    weight_bytes: float
    cache_bytes: float = 2.0
    wide: str = ""

    @property
    def other(self) -> str:
        """Dtype of attention and of activations between kernels."""
        dtype = self.wide or self.compute
        return dtype if dtype in ("fp64", "fp32", "tf32", "fp16", "bf16") else "bf16"

    @property
    def weight_only(self) -> bool:
        """Tell whether weights are stored narrower than they are multiplied."""
        return self.weight_bytes < DTYPE_BITS.get(self.compute, 16) / 8

    @property
    def activation_bytes(self) -> float:
        """Bytes of an activation element: never below 16 bits between kernels."""
        return DTYPE_BITS[self.other] / 8


@dataclass(slots=True)
class Forward:
    """Seconds at the kernel curves, float64[n]: ``gemm``, ``attention``, ``conv``, ``stream`` (element-wise), and what is counted.

    ``scores``: softmax passes of unfused attention; ``grouped`` and ``depthwise`` are convolutions apart from ``conv``;
    ``kernels``: launches without fusion; ``reduced_bytes``: bytes of one tensor-parallel all-reduce, of which there are ``reduces``;
    ``flops``; ``stream_kernels``: element-wise launches; ``stream_bytes``.
    """

    gemm: Floats
    attention: Floats
    conv: Floats
    stream: Floats
    stream_bytes: Floats
    flops: Floats
    scores: Floats
    grouped: Floats
    depthwise: Floats
    kernels: float = 0.0
    stream_kernels: float = 0.0
    reduces: float = 0.0
    hidden: float = 0.0
    routings: float = 0.0
    """Layers whose tokens are sent to experts and back."""
    routed: float = 0.0
    """Experts a token visits in such a layer."""


def forward(
    model: Model,
    curves: DeviceCurves,
    numbers: Numbers,
    *,
    batch: Any,
    query: Any,
    keys: Any,
    tp: Any = 1.0,
    ep: Any = 1.0,
    imbalance: float = 1.0,
    last_only: bool | None = None,
    fused: bool = True,
) -> Forward:
    """Return the forward pass of ``batch`` sequences (images) with ``query`` new tokens each against ``keys`` tokens.

    ``last_only``: the head sees one token of a sequence (default: for decoders); ``fused`` False: attention as two products and a
    softmax between them. For convolutional models query and keys are 1. ``ep`` devices share the experts (see ``_experts``), of which
    the busiest has ``imbalance`` times the mean beside what chance adds.
    """
    b, q, s, t, e = (np.asarray(x, dtype=np.float64) for x in np.broadcast_arrays(batch, query, keys, tp, ep))
    zero = np.zeros(b.shape)
    work = Forward(
        gemm=zero, attention=zero, conv=zero, stream=zero, stream_bytes=zero, flops=zero, scores=zero, grouped=zero, depthwise=zero
    )
    last = model.kind == "decoder" if last_only is None else last_only
    for block in model.blocks:
        own = q if block.tokens_per_sample is None else np.full(b.shape, float(block.tokens_per_sample))
        tokens = b if last and block.section == "head" else b * own
        for op in block.operators:
            times = float(block.repeat * op.count)
            if isinstance(op, Gemm):
                mine = b * float(op.tokens_per_sample) if op.tokens_per_sample is not None else tokens
                if op.experts > 1:
                    _experts(work, op, curves, numbers, mine, t, e, imbalance, times)
                else:
                    _gemm(work, op, curves, numbers, mine, t, times)
            elif isinstance(op, Attention):
                _attention(work, op, curves, numbers, b, own, s, t, times, fused)
            elif isinstance(op, Conv):
                _conv(work, op, curves, numbers, b, times)
            else:
                mine = b * float(op.tokens_per_sample) if op.tokens_per_sample is not None else tokens
                _elementwise(work, op, curves, numbers, mine, t, times)
    work.hidden = float(model.transformer.hidden) if model.transformer is not None else 0.0
    return work


def _gemm(w: Forward, op: Gemm, curves: DeviceCurves, numbers: Numbers, tokens: Floats, tp: Floats, times: float) -> None:
    n = np.full(tokens.shape, float(op.n))
    k = np.full(tokens.shape, float(op.k))
    if op.split in ("column", "heads", "vocab"):
        n = np.ceil(n / tp)
    elif op.split == "row":
        k = np.ceil(k / tp)
    if op.split == "row" and op.name.endswith((".out", ".down")):
        w.reduces += times
    w.gemm = w.gemm + times * _product(curves, numbers, tokens, n, k, op.has_weight)
    w.flops = w.flops + times * 2.0 * tokens * n * k
    w.kernels += times * (2.0 if op.bias else 1.0)


def _experts(
    w: Forward, op: Gemm, curves: DeviceCurves, numbers: Numbers, tokens: Floats, tp: Floats, ep: Floats, imbalance: float, times: float
) -> None:
    """Add the products of one matrix of every expert on the busiest device.

    ``ep`` devices hold whole experts; where fewer than ``tp``, the rest of the tensor degree cuts each expert; where more, the tokens
    of ``ep / tp`` replicas meet. Experts that at least one token visits are read, each with an even share of the visits: one product of
    several, side by side. With random routing the busiest of ``ep`` devices has ``sqrt(2 ln(ep) V)`` visits more than the mean ``V``
    (largest of ``ep`` normal variables).
    """
    pooled = tokens * np.maximum(ep / tp, 1.0)
    n = np.ceil(op.n / np.maximum(tp / ep, 1.0))
    k = float(op.k)
    mean = pooled * op.experts_per_token / ep
    visits = mean * np.where(ep > 1, imbalance, 1.0) + np.sqrt(2.0 * np.log(ep) * mean * (1.0 - 1.0 / ep))
    local = op.experts / ep
    active = local * (1.0 - (1.0 - op.experts_per_token / op.experts) ** np.maximum(pooled, 0.0))
    active = np.maximum(active, np.minimum(visits, 1.0))
    groups = np.maximum(active, 1.0)
    w.gemm = w.gemm + times * _product(curves, numbers, visits / groups, n * groups, np.full(tokens.shape, k), op.has_weight)
    w.flops = w.flops + times * 2.0 * tokens * op.experts_per_token * np.ceil(op.n / tp) * k
    w.kernels += times * (2.0 if op.bias else 1.0)
    if op.name.endswith((".out", ".down")):
        w.reduces += times
        w.routings += times
        w.routed = float(op.experts_per_token)


def _product(curves: DeviceCurves, numbers: Numbers, m: Floats, n: Floats, k: Floats, has_weight: bool) -> Floats:
    """Return seconds of (m x k) by (k x n); weights stored narrower than they are multiplied save the bytes that are not read."""
    seconds = gemm_seconds(curves, m, n, k, numbers.compute)
    if not (numbers.weight_only and has_weight):
        return seconds
    full = DTYPE_BITS.get(numbers.compute, 16) / 8
    saved = n * k * (full - numbers.weight_bytes) / curves.read_bytes_per_s
    return np.maximum(seconds - saved, seconds * numbers.weight_bytes / full)


def _attention(
    w: Forward,
    op: Attention,
    curves: DeviceCurves,
    numbers: Numbers,
    b: Floats,
    q: Floats,
    s: Floats,
    tp: Floats,
    times: float,
    fused: bool,
) -> None:
    query = q if op.tokens_per_sample is None else np.full(b.shape, float(op.tokens_per_sample))
    keys = np.maximum(s, query) if op.keys_per_sample is None else np.full(b.shape, float(op.keys_per_sample))
    if op.window:
        keys = np.minimum(keys, np.maximum(float(op.window), 1.0))
    heads, kv = np.ceil(op.heads / tp), np.ceil(op.kv_heads / tp)
    width = (op.head_dim + op.value_dim) / 2.0
    dtype = numbers.other
    if not fused:
        rows = b * heads * query
        products = gemm_seconds(curves, rows, keys, width, dtype) + gemm_seconds(curves, rows, width, keys, dtype)
        w.attention = w.attention + times * products
        w.scores = w.scores + times * 4.0 * stream_seconds(curves, rows * keys * numbers.activation_bytes)
        w.flops = w.flops + times * 4.0 * rows * keys * width
        w.kernels += 5.0 * times
        return
    seconds = attention_seconds(
        curves, batch=b, heads=heads, kv_heads=kv, query=query, keys=keys, head_dim=width, causal=op.causal, dtype=dtype
    )
    if numbers.cache_bytes < 2.0 and op.keys_per_sample is None:
        # Half the bytes of a decode step's keys; a prompt's own keys are still in 16 bits when it is read.
        saved = 2.0 * b * kv * keys * width * (2.0 - numbers.cache_bytes) / curves.read_bytes_per_s
        seconds = np.where(query > 1, seconds, np.maximum(seconds - saved, seconds * numbers.cache_bytes / 2.0))
    w.attention = w.attention + times * seconds
    w.flops = w.flops + times * 4.0 * b * heads * query * keys * width * (0.5 if op.causal and op.keys_per_sample is None else 1.0)
    w.kernels += times


def _conv(w: Forward, op: Conv, curves: DeviceCurves, numbers: Numbers, b: Floats, times: float) -> None:
    area = float(op.kernel * (op.kernel_w or op.kernel))
    seconds = conv_seconds(
        curves,
        batch=b,
        in_channels=float(op.in_channels),
        out_channels=float(op.out_channels),
        kernel=area,
        groups=float(op.groups),
        out_h=float(op.out_h),
        out_w=float(op.out_w),
        stride=float(op.stride),
        dtype=numbers.compute,
    )
    if op.groups == 1:
        w.conv = w.conv + times * seconds
    elif op.groups == op.in_channels:
        w.depthwise = w.depthwise + times * seconds
    else:
        w.grouped = w.grouped + times * seconds
    w.flops = w.flops + times * 2.0 * b * op.out_h * op.out_w * op.out_channels * (op.in_channels / op.groups) * area
    w.kernels += times


def _elementwise(w: Forward, op: Elementwise, curves: DeviceCurves, numbers: Numbers, tokens: Floats, tp: Floats, times: float) -> None:
    divided = tp if op.split != "none" else 1.0
    moved = tokens * (op.reads_per_token + op.writes_per_token) * numbers.activation_bytes / divided
    w.stream = w.stream + times * stream_seconds(curves, moved)
    w.stream_bytes = w.stream_bytes + times * moved
    w.kernels += times
    w.stream_kernels += times
