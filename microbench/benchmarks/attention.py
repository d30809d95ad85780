"""Attention: softmax(Q K^T / sqrt(d)) V with grouped heads, causal or not, in prefill and decode shapes.

Arrays are laid out (batch, heads, sequence, head size). Under ``causal`` query i of q sees keys up to keys - q + i, so a decode
step of one query sees them all. ``kernel`` names a backend's implementations apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from microbench.plugin import Benchmark
from microbench.protocol import Case
from microbench.reference import UNIT_ROUNDOFF, WrongResult, generator, round_to

#: batch, heads, kv_heads, query, keys, head_dim, causal: BERT-base, GPT and a llama layer with 8 of 32 key-value heads.
PREFILL = (
    (1, 12, 12, 128, 128, 64, False),
    (8, 12, 12, 128, 128, 64, False),
    (1, 12, 12, 512, 512, 64, False),
    (1, 12, 12, 1024, 1024, 64, True),
    (1, 32, 8, 512, 512, 128, True),
    (1, 32, 8, 2048, 2048, 128, True),
)
DECODE = (
    (1, 32, 32, 1, 1024, 128, True),
    (1, 32, 8, 1, 4096, 128, True),
    (8, 32, 8, 1, 1024, 128, True),
)
#: What a quick plan measures in dtypes other than fp32.
QUICK_NARROW = (PREFILL[1], PREFILL[4], DECODE[1])
LONG = ((1, 32, 8, 4096, 4096, 128, True), (1, 32, 8, 8192, 8192, 128, True), (1, 32, 8, 1, 8192, 128, True))
NAMES = ("batch", "heads", "kv_heads", "query", "keys", "head_dim", "causal")


def pairs(query: int, keys: int, causal: bool) -> int:
    """Return how many (query, key) pairs are needed; under a causal mask query i needs keys - query + i + 1 of them."""
    return query * keys - query * (query - 1) // 2 if causal else query * keys


def work(params: Mapping[str, Any]) -> float:
    """Return FLOPs needed: two products of head_dim multiply-adds for each needed pair, the softmax not counted."""
    return 4.0 * params["batch"] * params["heads"] * params["head_dim"] * pairs(params["query"], params["keys"], params["causal"])


def cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the shapes to measure, least work first."""
    rows = [*PREFILL, *DECODE]
    if not plan.get("quick"):
        rows += LONG
    elif plan.get("dtype", "fp32") != "fp32":
        rows = list(QUICK_NARROW)
    return sorted((dict(zip(NAMES, row, strict=True)) for row in rows), key=work)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """Return attention in the arrays' own precision, one (batch, head) at a time so that the scores stay small."""
    batch, heads, query, size = q.shape
    group, keys = heads // k.shape[1], k.shape[2]
    out = np.empty_like(q)
    mask = np.arange(keys)[None, :] > np.arange(query)[:, None] + (keys - query) if causal and query > 1 else None
    scale = q.dtype.type(1 / math.sqrt(size))
    for b in range(batch):
        for h in range(heads):
            scores = (q[b, h] * scale) @ k[b, h // group].T
            if mask is not None:
                scores[mask] = -np.inf
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            out[b, h] = scores @ v[b, h // group]
    return out


class AttentionProblem:
    """Q, K, V from the seed; the reference covers the first and last (batch, head) pairs and one between."""

    def __init__(self, case: Case, seed: int) -> None:
        p = case.params
        self.causal, self.dtype, self.work = bool(p["causal"]), case.dtype, work(p)
        rng = generator(seed, "attention", *(p[name] for name in NAMES))
        kind = np.float64 if case.dtype == "fp64" else np.float32
        shapes = {"q": (p["heads"], p["query"]), "k": (p["kv_heads"], p["keys"]), "v": (p["kv_heads"], p["keys"])}
        self.inputs = {
            name: round_to(rng.standard_normal((p["batch"], heads, length, p["head_dim"]), dtype=kind), case.dtype)
            for name, (heads, length) in shapes.items()
        }
        last = (p["batch"] - 1, p["heads"] - 1)
        self.checked = sorted({(0, 0), last, (int(rng.integers(p["batch"])), int(rng.integers(p["heads"])))})
        self.group = p["heads"] // p["kv_heads"]

    def check(self, result: Any) -> float:
        """Compare with float64; probabilities and outputs in a narrow type are each rounded to it once."""
        got = np.asarray(result)
        if got.shape != self.inputs["q"].shape:
            raise WrongResult(f"the result has shape {got.shape}, not {self.inputs['q'].shape}", float("inf"))
        if not np.isfinite(got).all():
            raise WrongResult("part of the result was not written (NaN or infinite)", float("inf"))
        error = 0.0
        for b, h in self.checked:
            q = self.inputs["q"][b, h][None, None].astype(np.float64)
            k, v = (self.inputs[name][b, h // self.group][None, None].astype(np.float64) for name in "kv")
            want = attention(q, k, v, self.causal)
            # The output is a mean of values of size 1: rounding is relative to them, however small the mean itself comes out.
            error = max(error, float(np.max(np.abs(got[b, h][None, None] - want))) / float(np.sqrt(np.mean(v**2))))
        # Scores of magnitude up to about 6 are exponentiated: their rounding becomes relative error of the weights. Narrow types
        # round the weights and the output once each.
        tolerance = (64 if self.dtype in ("fp64", "fp32") else 8) * UNIT_ROUNDOFF[self.dtype]
        if not error <= tolerance:
            raise WrongResult(f"relative error {error:.2g}, tolerance of {self.dtype} is {tolerance:.2g}", error)
        return error


def problem(case: Case, seed: int) -> AttentionProblem:
    """Return the inputs and the reference of ``case``."""
    return AttentionProblem(case, seed)


BENCHMARK = Benchmark(
    name="attention",
    title="softmax attention, prefill and decode shapes, grouped heads",
    metric="flops_per_s",
    unit="FLOP/s",
    cases=cases,
    work=work,
    problem=problem,
    nominal_rate=20e9,
    variant="kernel",
)
