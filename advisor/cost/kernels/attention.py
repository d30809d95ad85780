"""Time of a fused attention kernel: prefill bound by the matrix units, decode by reading keys and values.

Prefill: a tile of 64 queries of one head walks its keys. Work of a tile is 4*64*keys*head_dim FLOPs plus ``margin`` keys of masked and
rounded blocks and ``tile_s`` to start; heads narrower than the pipeline lose ``narrow/(narrow + head_dim)``. Tiles are spread over the
units; when they fill less than one wave the longest of them shows. Writing new keys to the cache costs ``token_s`` a token and
``token_head_s`` a token and key head. The backward pass has five products instead of two (2.5 times the FLOPs; Dao, FlashAttention-2,
2023).

Decode (one query, or so few that those which share a key head fill one tile): one tile a sequence and key head, keys sliced over idle
units, bytes of keys and values over ``decode_stream`` of the sheet bandwidth; ``regroup_s`` where queries of a group are transposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import KernelParameter, declare, shared
from advisor.units import DTYPE_BITS

Floats = npt.NDArray[np.float64]

PREFILL: tuple[KernelParameter, ...] = (
    declare("ceiling", 0.7, 0.2, 1.0, "fraction", "Matrix rate inside a tile over the dense peak"),
    declare("narrow", 15.0, 2.0, 100.0, "elements", "Head width at which half the rate is lost"),
    declare("margin", 32.0, 4.0, 128.0, "keys", "Keys computed in vain by each tile"),
    declare("tile_s", 1e-6, 5e-8, 5e-6, "s", "Start of one tile"),
    declare("tail", 0.5, 0.05, 1.0, "fraction", "Share of the longest tile that shows"),
    declare("stream", 0.6, 0.2, 0.97, "fraction", "Reached device-memory bandwidth over the sheet's"),
    declare("start", 8e-6, 2e-6, 2e-5, "s", "Start and end of the kernels of one call"),
    declare("token_s", 1e-9, 1e-10, 1e-8, "s", "Writing one token to the cache"),
    declare("token_head_s", 3e-10, 1e-11, 3e-9, "s", "Writing one token of one key head of 128 to the cache"),
)
DECODE: tuple[KernelParameter, ...] = (
    declare("decode_stream", 0.8, 0.4, 0.97, "fraction", "Reached bandwidth when reading keys and values"),
    declare("slice", 256.0, 64.0, 1024.0, "keys", "Keys one unit takes when they are sliced over idle units"),
    declare("fill", 3.0, 0.5, 30.0, "ratio", "Device bandwidth over what its even share of a unit can draw"),
    declare("decode_tile_s", 3.5e-6, 5e-7, 1e-5, "s", "Start of one tile at head width 128"),
    declare("decode_start", 9e-6, 2e-6, 2e-5, "s", "Start and end of the kernels of one call"),
    declare("key_s", 1e-9, 1e-11, 2e-8, "s", "Latency of one key in the longest slice"),
    declare("regroup_s", 1e-6, 1e-8, 1e-5, "s", "Transposing grouped queries and results, fixed part"),
    declare("regroup_element_s", 1e-12, 1e-14, 2e-11, "s", "The same for each element of a query"),
)
PARAMETERS = PREFILL + DECODE

_TILE = 64.0
#: Decode's tile start grows with the square root of the head width (loads double, latency hides half).
_WIDTH_POWER = 0.45
_JOIN = 2.0
#: FLOPs of the backward pass over the forward one, and its rate over the forward one (Dao, 2023, tables of FlashAttention-2).
_BACKWARD_WORK = 2.5
_BACKWARD_RATE = 0.85


@dataclass(frozen=True, slots=True)
class AttentionParameters:
    """Values of one generation by name; see PREFILL and DECODE."""

    values: Mapping[str, float]


def parameters(calibration: Calibration, generation: str) -> AttentionParameters:
    """Return the parameters of a generation; where nothing was fitted, of its relatives; then the priors."""
    return AttentionParameters({p.name: shared(calibration, f"attention.{p.name}", generation, p.prior) for p in PARAMETERS})


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
    """Return seconds of one attention call; arguments broadcast; 0 s for no work."""
    b, h, g, q, s, d = (np.asarray(x, dtype=np.float64) for x in np.broadcast_arrays(batch, heads, kv_heads, query, keys, head_dim))
    empty = (b <= 0) | (h <= 0) | (q <= 0) | (s <= 0) | (d <= 0)
    b, h, q, s, d = (np.maximum(x, 1.0) for x in (b, h, q, s, d))
    g = np.clip(g, 1.0, h)
    element = max(DTYPE_BITS.get(dtype, 16) / 8, 2.0)
    wide = prefill(p.values, b, h, g, q, s, d, causal, element, peak, bandwidth, units)
    if backward:
        start = p.values["start"]
        return np.where(empty, 0.0, start + (wide - start) * (_BACKWARD_WORK / _BACKWARD_RATE))
    narrow = decode(p.values, b, h, g, q, s, d, element, bandwidth, units)
    return np.where(empty, 0.0, np.where(q > 1, wide, narrow))


def prefill(
    v: Mapping[str, float],
    b: Floats,
    h: Floats,
    g: Floats,
    q: Floats,
    s: Floats,
    d: Floats,
    causal: bool,
    element: float,
    peak: float,
    bandwidth: float,
    units: int,
) -> Floats:
    """Return seconds of ``q`` queries against ``s`` keys of each of ``b`` sequences."""
    rows = np.ceil(q / _TILE)
    # Keys a tile sees on average; with a causal mask the last tile sees all of them.
    mean_keys = np.where(rows > 1, s - (rows - 1.0) / 2.0 * np.minimum(q / rows, _TILE), s) if causal else s
    rate = peak * v["ceiling"] / units * d / (d + v["narrow"])
    load = b * h * rows / units
    one = 4.0 * _TILE * d / rate
    longest = v["tile_s"] + one * (s + v["margin"])
    compute = load * (v["tile_s"] + one * (mean_keys + v["margin"])) + v["tail"] * longest * np.minimum(load, 1.0)
    moved = 2.0 * b * (g * s + h * q) * d * element
    stream = moved / (bandwidth * v["stream"])
    cache = b * q * (v["token_s"] + v["token_head_s"] * g * d / 128.0)
    return v["start"] + np.hypot(compute, stream) + cache


def decode(
    v: Mapping[str, float], b: Floats, h: Floats, g: Floats, q: Floats, s: Floats, d: Floats, element: float, bandwidth: float, units: int
) -> Floats:
    """Return seconds of one new query in each of ``b`` sequences against ``s`` keys."""
    tiles = b * g * np.ceil(q * h / g / _TILE)
    moved = 2.0 * b * (g * s + h * q) * d * element
    # Slices of the keys occupy idle units; a share of the units draws that share of the bandwidth, up to ``fill`` times its even part.
    share = np.minimum(1.0, v["fill"] * tiles * np.maximum(s / v["slice"], 1.0) / units)
    stream = moved / (bandwidth * v["decode_stream"] * share)
    begin = tiles / units * v["decode_tile_s"] * (d / 128.0) ** _WIDTH_POWER
    chain = v["key_s"] * np.minimum(s, v["slice"])
    regroup = np.where((g > 1) & (g < h), v["regroup_s"] + v["regroup_element_s"] * b * h * d, 0.0)
    joined = (stream**_JOIN + begin**_JOIN) ** (1.0 / _JOIN)
    return v["decode_start"] + joined + chain + regroup
