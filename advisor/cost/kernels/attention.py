"""Time of a fused attention kernel: prefill bound by the matrix units, decode by reading keys and values.

Work: 4 * query * keys * head_dim FLOPs a head and sequence, about half of it under a causal mask; the backward pass has five products
instead of two (2.5 times the FLOPs; Dao, FlashAttention-2, 2023). Bytes: queries, keys, values and results once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import shared
from advisor.units import DTYPE_BITS

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionParameters:
    """``ceiling``: reached over peak at head_dim 128 and long sequences; ``ramp``: keys lost per row of tiles; see module."""

    ceiling: float
    narrow: float
    ramp: float
    stream: float
    start_s: float
    backward: float


def parameters(calibration: Calibration, generation: str) -> AttentionParameters:
    """Return the parameters of a generation. Priors: 0.6 of the peak forward (FlashAttention-2 on A100), backward 0.8 of forward."""
    return AttentionParameters(
        ceiling=shared(calibration, "attention.ceiling", generation, 0.60),
        narrow=shared(calibration, "attention.narrow", generation, 16.0),
        ramp=shared(calibration, "attention.ramp", generation, 128.0),
        stream=shared(calibration, "attention.stream", generation, 0.70),
        start_s=shared(calibration, "attention.start", generation, 6e-6),
        backward=0.8,
    )


def pairs(query: Any, keys: Any, causal: bool) -> Floats:
    """Return how many (query, key) pairs are computed per head and sequence; the last query sees every key."""
    q, k = np.asarray(query, dtype=np.float64), np.asarray(keys, dtype=np.float64)
    return q * np.maximum(k - (q - 1.0) / 2.0, (k + 1.0) / 2.0) if causal else q * k


def seconds(
    p: AttentionParameters,
    *,
    batch: Any,
    heads: Any,
    kv_heads: Any,
    query: Any,
    keys: Any,
    head_dim: Any,
    causal: bool,
    dtype: str,
    backward: bool,
    peak: float,
    bandwidth: float,
    units: int,
) -> Floats:
    """Return seconds of one attention kernel; arguments broadcast; 0 s for no work."""
    b, h, g, q, s, d = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (batch, heads, kv_heads, query, keys, head_dim)))
    element = max(DTYPE_BITS.get(dtype, 16) / 8, 2.0)
    work = 4.0 * b * h * pairs(q, s, causal) * d * (2.5 / p.backward if backward else 1.0)
    tiles = np.maximum(b * h * np.ceil(q / 128.0), 1.0)
    fill = np.ceil(tiles / units) * units / tiles
    fill = np.minimum(fill, 1.0 + units / tiles)
    compute = work * (1.0 + p.narrow / np.maximum(d, 1.0)) * (1.0 + p.ramp / np.maximum(s, 1.0)) * fill / (peak * p.ceiling)
    # Decode (few queries): the tiles hold the heads of one group, and keys are split over idle units.
    compute = np.where(q < 16, work / (peak * 0.1), compute)
    moved = b * (2.0 * g * s + 2.0 * h * q) * d * element * (2.5 if backward else 1.0)
    memory = moved / (bandwidth * p.stream)
    return np.where(work > 0, p.start_s + (compute**4 + memory**4) ** 0.25, 0.0)
