"""Time of a matrix product on a device of many equal compute units.

The result is cut into tiles; a tile, or one of several slices of its K loop, is the work of one unit, so that the grid runs in waves:

    waves   = ceil(tiles * slices / units), part of it smoothed away because a finished unit starts the next tile at once
    compute = waves * 2*bm*bn*(K/slices + ramp) / (peak*ceiling/units)
    feed    = waves * (bm + bn)*(K/slices)*element / (feed*bandwidth/units)     operands of a tile come from the caches
    stream  = (M*K + K*N + M*N) * element / (stream*bandwidth)                 everything crosses device memory once
    t       = (compute^p + feed^p + stream^p)^(1/p) + step*K/slices            p near 3: the three overlap, but not wholly
              + waves*tile_s + cast*M*K*element/bandwidth                      quantizing the left operand reads and writes it

The best tile wins, as in the heuristics of the vendors' libraries; libraries for narrow types choose by M alone and do not slice K.
Long products run at the clock that power allows: ``t / (sustained + (1 - sustained)/(1 + t/settle))``. A kernel costs ``start`` more.

Sources: tile and wave quantization, NVIDIA "Matrix Multiplication Background" (2023); split and stream-K, Osama et al., PPoPP 2023;
roofline, Williams et al., CACM 52(4), 2009. Values are fitted; see ``advisor.accuracy.kernel_fit``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import KernelParameter, declare, fitted, shared
from advisor.units import DTYPE_BITS

Floats = npt.NDArray[np.float64]

_NO_LIMIT = 1e12
_SLICES = (1, 2, 3, 4, 6, 8, 12, 16, 32)
#: (bm, bn, slices of K, largest M): menus are nested in M, hence more rows are never cheaper.
_WIDE_TILES = (
    *((256, 128), (128, 256), (128, 128), (64, 256), (256, 64), (128, 64), (64, 128), (64, 64)),
    *((32, 64), (64, 32), (16, 128), (128, 16), (16, 64), (16, 32)),
)
_NARROW_TILES = (
    *((16, 64, 16), (16, 128, 16), (32, 64, 32), (32, 128, 32), (64, 32, 64), (64, 64, 256), (64, 128, 512), (128, 64, 512)),
    *((128, 128, _NO_LIMIT), (128, 256, _NO_LIMIT), (256, 128, _NO_LIMIT)),
)

#: Parameters of a generation and library class.
PER_GENERATION: tuple[KernelParameter, ...] = (
    declare("ceiling", 0.78, 0.3, 1.0, "fraction", "Matrix rate of full tiles at boost clock, over the dense peak"),
    declare("ramp", 120.0, 10.0, 1000.0, "elements of K", "Depth of K a tile loses to filling and draining"),
    declare("stream", 0.85, 0.4, 0.97, "fraction", "Reached device-memory bandwidth over the sheet's"),
    declare("feed", 5.0, 0.5, 50.0, "ratio", "Cache bandwidth of all units over device-memory bandwidth"),
    declare("start", 3.5e-6, 1e-6, 2e-5, "s", "Start and end of one kernel"),
    declare("sustained", 0.9, 0.5, 1.0, "fraction", "Clock that power allows in long products, over the boost clock"),
    declare("step", 3e-10, 1e-11, 3e-9, "s", "Latency of one element of K along the longest chain"),
    declare("cached", 1.0, 0.02, 4.0, "ratio", "Extra bandwidth where all operands stay in the last cache"),
    declare("keep", 0.2, 0.05, 1.0, "fraction", "Share of the last cache that keeps operands between calls"),
    declare("overlap", 3.0, 1.2, 8.0, "exponent", "p-norm that joins compute, feed and stream"),
    declare("cast", 0.1, 0.001, 30.0, "ratio", "Passes over the left operand before the product: quantization, repacking"),
    declare("tile_s", 2e-7, 1e-8, 5e-6, "s", "Start of one tile beyond filling its pipeline"),
    declare("wave", 0.3, 0.02, 1.0, "fraction", "Share of wave quantization that stays"),
)
#: Parameters of a library class on every generation.
PER_CLASS: tuple[KernelParameter, ...] = (
    declare("settle", 1e-3, 1e-4, 2e-2, "s", "Time over which the clock settles"),
    declare("join", 2.5e-6, 1e-6, 1e-5, "s", "Joining the slices of K"),
)
#: Library classes that are fitted: 16-bit products of the vendor's library, row-scaled 8-bit, block-scaled 8-bit and 4-bit ones.
CLASSES = ("16", "8", "8b", "4")
#: 8-bit products of the vendor's library: those of 16 bits at the 8-bit peak, whose share reached is less by this factor. Best products
#: in both widths reach 0.80 and 0.71 of the peak on H100, 0.84 and 0.78 on GH200, 0.78 and 0.76 on B200 (ml-engineering, accelerators).
_VENDOR_8 = 0.93
#: Prior ceilings of the other classes over that of 16 bits, for the calibration that has seen no measurement.
_CEILING_OF_CLASS = {"16": 1.0, "8": 0.85, "8b": 0.85, "4": 0.6}


@dataclass(frozen=True, slots=True)
class GemmParameters:
    """Values by library class: each a mapping of the names in PER_GENERATION and PER_CLASS."""

    by_class: Mapping[str, Mapping[str, float]]


def dtype_class(dtype: str) -> str:
    """Return the library class of a dtype: ``fp8_rows`` and ``fp8_block`` are open kernels with scales, the rest the vendor's library."""
    named = {"fp8_rows": "8", "fp8_block": "8b", "fp8": "8v", "int8": "8v"}
    return named.get(dtype, "4" if DTYPE_BITS.get(dtype, 16) == 4 else "16")


def parameters(calibration: Calibration, generation: str) -> GemmParameters:
    """Return the parameters of a generation; a class that nobody measured on it takes the relatives', then the priors."""
    by_class: dict[str, Mapping[str, float]] = {}
    for name in CLASSES:
        values = {p.name: shared(calibration, f"gemm.{p.name}.{name}", generation, p.prior) for p in PER_GENERATION}
        if fitted(calibration, f"gemm.ceiling.{name}.any") is None:
            values["ceiling"] *= _CEILING_OF_CLASS[name]
        for p in PER_CLASS:
            value = fitted(calibration, f"gemm.{p.name}.{name}")
            values[p.name] = p.prior if value is None else value
        by_class[name] = values
    by_class["8v"] = {**by_class["16"], "ceiling": by_class["16"]["ceiling"] * _VENDOR_8}
    return GemmParameters(by_class)


@lru_cache(maxsize=8)
def _menu(name: str) -> tuple[Floats, Floats, Floats, Floats]:
    """Return tile heights, widths, slices of K and largest M of a library class, each float64[tiles]."""
    if name in ("16", "8v"):
        rows = [(bm, bn, s, _NO_LIMIT) for bm, bn in _WIDE_TILES for s in _SLICES]
    else:
        rows = [(bm, bn, 1, limit) for bm, bn, limit in _NARROW_TILES]
    table = np.array(rows, dtype=np.float64)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def element_bytes(dtype: str) -> float:
    """Return bytes of an operand element: 4-bit types carry a scale for each 16 elements."""
    bits = 8 if dtype.startswith("fp8") else DTYPE_BITS.get(dtype, 16)
    return 0.5625 if bits == 4 else bits / 8


def seconds(
    p: GemmParameters, m: Any, n: Any, k: Any, dtype: str, *, peak: float, bandwidth: float, units: int, l2: float, reuse: float = 1.0
) -> Floats:
    """Return seconds of (m x k) by (k x n); arguments broadcast; 0 s where a size is 0. ``peak`` in FLOP/s of the whole device.

    ``reuse``: how often an element of the left operand appears in it (an implicit product reads each pixel once, uses it often).
    Equal shapes are priced once, so a hundred thousand plans cost no more than their distinct shapes.
    """
    m_, n_, k_ = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (m, n, k)))
    shape = m_.shape
    rows = np.stack([m_.ravel(), n_.ravel(), k_.ravel()])
    distinct, back = _distinct(rows)
    name = dtype_class(dtype)
    values = tuple(p.by_class[name].items())
    times = _remembered(values, distinct.tobytes(), name, element_bytes(dtype), peak, bandwidth, units, l2, reuse)
    times = np.where((distinct > 0).all(axis=0), times, 0.0)
    return times[back].reshape(shape)


@lru_cache(maxsize=512)
def _remembered(
    values: tuple[tuple[str, float], ...],
    sizes: bytes,
    name: str,
    element: float,
    peak: float,
    bandwidth: float,
    units: int,
    l2: float,
    reuse: float,
) -> Floats:
    """Return ``formula``: plans that differ in framework, quantization or placement ask for the same products again and again."""
    rows = np.frombuffer(sizes, dtype=np.float64).reshape(3, -1)
    times = formula(dict(values), rows, name, element, peak=peak, bandwidth=bandwidth, units=units, l2=l2, reuse=reuse)
    times.setflags(write=False)
    return times


def _distinct(rows: Floats) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Return the distinct columns of float64[3, n] and the index that rebuilds them."""
    if rows.shape[1] < 16:
        return rows, np.arange(rows.shape[1])
    code = np.zeros(rows.shape[1], dtype=np.int64)
    for row in rows:
        values, index = np.unique(row, return_inverse=True)
        code = code * len(values) + index
    _, first, back = np.unique(code, return_index=True, return_inverse=True)
    return rows[:, first], back


def formula(
    v: Mapping[str, float],
    sizes: Floats,
    name: str,
    element: float,
    *,
    peak: float,
    bandwidth: float,
    units: int,
    l2: float,
    reuse: float = 1.0,
) -> Floats:
    """Return seconds of float64[3, n] sizes (m, n, k), all above 0, with the values ``v`` of library class ``name``."""
    bm, bn, slices, limit = _menu(name)
    m, n, k = (np.maximum(x, 1.0)[:, None] for x in sizes)
    depth = np.ceil(k / slices)
    grid = np.ceil(m / bm) * np.ceil(n / bn) * slices / units
    waves = v["wave"] * np.ceil(grid) + (1.0 - v["wave"]) * np.maximum(grid, 1.0)
    compute = waves * (2.0 * bm * bn * (depth + v["ramp"])) * (units / (peak * v["ceiling"]))
    feed = waves * (np.minimum(bm, m) + np.minimum(bn, n)) * depth * (element * units / (v["feed"] * bandwidth))
    moved = (m * k / reuse + k * n) * element + 2.0 * m * n
    kept = np.clip(1.0 - moved / (v["keep"] * l2), 0.0, 1.0)
    partial = np.where(slices > 1, 8.0 * slices * m * n / (3.0 * bandwidth), 0.0)
    stream = moved / (bandwidth * v["stream"] * (1.0 + v["cached"] * kept)) + partial
    power = v["overlap"]
    joined = (compute**power + feed**power + stream**power) ** (1.0 / power)
    joined = joined + np.where(slices > 1, v["join"], 0.0) + v["step"] * depth
    joined = joined + v["cast"] * m * k / reuse * element / bandwidth + v["tile_s"] * waves
    best: Floats = np.where(m <= limit, joined, np.inf).min(axis=1)
    return v["start"] + best / (v["sustained"] + (1.0 - v["sustained"]) / (1.0 + best / v["settle"]))
