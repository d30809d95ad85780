"""Time of a matrix product on a device of many equal compute units.

The result is cut into tiles; a tile, or one of several slices of its K loop, is the work of one unit, so that the grid runs in waves:

    waves   = ceil(tiles * slices / units), part of it smoothed away because a finished unit starts the next tile at once
    compute = waves * 2*bm*bn*(K/slices + ramp) / (peak*ceiling/units)
    feed    = waves * (bm + bn)*(K/slices)*element / (feed*bandwidth/units)     operands of a tile come from the caches
    stream  = (M*K + K*N + M*N) * element / (stream*bandwidth)                 everything crosses device memory once
    t       = (compute^p + feed^p + stream^p)^(1/p) + step*K/slices            p near 3: the three overlap, but not wholly

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
from advisor.cost.kernels.generation import KernelParameter, fitted, shared
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

#: Parameters of a generation and library class, and those of a library class alone.
PER_GENERATION: tuple[KernelParameter, ...] = (
    KernelParameter(
        name="ceiling",
        prior=0.78,
        low=0.3,
        high=1.0,
        unit="fraction",
        meaning="Matrix rate of full tiles at boost clock, over the dense peak",
    ),
    KernelParameter(
        name="ramp", prior=120.0, low=10.0, high=1000.0, unit="elements of K", meaning="Depth of K a tile loses to filling and draining"
    ),
    KernelParameter(
        name="stream", prior=0.85, low=0.4, high=0.97, unit="fraction", meaning="Reached device-memory bandwidth over the sheet's"
    ),
    KernelParameter(
        name="feed", prior=5.0, low=0.5, high=50.0, unit="ratio", meaning="Cache bandwidth of all units over device-memory bandwidth"
    ),
    KernelParameter(name="start", prior=3.5e-6, low=1e-6, high=2e-5, unit="s", meaning="Start and end of one kernel"),
    KernelParameter(
        name="sustained",
        prior=0.9,
        low=0.5,
        high=1.0,
        unit="fraction",
        meaning="Clock that power allows in long products, over the boost clock",
    ),
    KernelParameter(
        name="step", prior=3e-10, low=1e-11, high=3e-9, unit="s", meaning="Latency of one element of K along the longest chain"
    ),
    KernelParameter(
        name="cached", prior=1.0, low=0.02, high=4.0, unit="ratio", meaning="Extra bandwidth where all operands stay in the last cache"
    ),
)
PER_CLASS: tuple[KernelParameter, ...] = (
    KernelParameter(name="overlap", prior=3.0, low=1.2, high=8.0, unit="exponent", meaning="p-norm that joins compute, feed and stream"),
    KernelParameter(name="settle", prior=1e-3, low=1e-4, high=2e-2, unit="s", meaning="Time over which the clock settles"),
    KernelParameter(name="wave", prior=0.3, low=0.02, high=1.0, unit="fraction", meaning="Share of wave quantization that stays"),
    KernelParameter(
        name="keep", prior=0.2, low=0.05, high=1.0, unit="fraction", meaning="Share of the last cache that keeps operands between calls"
    ),
    KernelParameter(name="join", prior=2.5e-6, low=1e-6, high=1e-5, unit="s", meaning="Joining the slices of K"),
)
#: Library classes: 16-bit and wider products of the vendor's library, scaled 8-bit, block-scaled 8-bit, and 4-bit ones.
CLASSES = ("16", "8", "8b", "4")
#: What a class takes where nothing was fitted for it: another class with this factor on the ceiling.
_CEILING_OF_CLASS = {"16": 1.0, "8": 0.85, "8b": 0.85, "4": 0.6}


@dataclass(frozen=True, slots=True)
class GemmParameters:
    """Values by library class: each a mapping of the names in PER_GENERATION and PER_CLASS."""

    by_class: Mapping[str, Mapping[str, float]]


def dtype_class(dtype: str) -> str:
    """Return the library class of a dtype; ``fp8_block`` is the block-scaled one, fp32 and tf32 use the wide library."""
    if dtype == "fp8_block":
        return "8b"
    bits = DTYPE_BITS.get(dtype, 16)
    return "16" if bits >= 16 else str(bits)


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
    return GemmParameters(by_class)


@lru_cache(maxsize=8)
def _menu(name: str) -> tuple[Floats, Floats, Floats, Floats]:
    """Return tile heights, widths, slices of K and largest M of a library class, each float64[tiles]."""
    if name == "16":
        rows = [(bm, bn, s, _NO_LIMIT) for bm, bn in _WIDE_TILES for s in _SLICES]
    else:
        rows = [(bm, bn, 1, limit) for bm, bn, limit in _NARROW_TILES]
    table = np.array(rows, dtype=np.float64)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def element_bytes(dtype: str) -> float:
    """Return bytes of an operand element: 4-bit types carry a scale for each 16 elements."""
    if dtype == "fp8_block":
        return 1.0
    bits = DTYPE_BITS.get(dtype, 16)
    return 0.5625 if bits == 4 else bits / 8


def seconds(p: GemmParameters, m: Any, n: Any, k: Any, dtype: str, *, peak: float, bandwidth: float, units: int, l2: float) -> Floats:
    """Return seconds of (m x k) by (k x n); arguments broadcast; 0 s where a size is 0. ``peak`` in FLOP/s of the whole device.

    Equal shapes are priced once, so a hundred thousand plans cost no more than their distinct shapes.
    """
    m_, n_, k_ = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (m, n, k)))
    shape = m_.shape
    rows = np.stack([m_.ravel(), n_.ravel(), k_.ravel()])
    distinct, back = _distinct(rows)
    name = dtype_class(dtype)
    times = formula(p.by_class[name], distinct, name, element_bytes(dtype), peak=peak, bandwidth=bandwidth, units=units, l2=l2)
    times = np.where((distinct > 0).all(axis=0), times, 0.0)
    return times[back].reshape(shape)


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
    v: Mapping[str, float], sizes: Floats, name: str, element: float, *, peak: float, bandwidth: float, units: int, l2: float
) -> Floats:
    """Return seconds of float64[3, n] sizes (m, n, k), all above 0, with the values ``v`` of library class ``name``."""
    bm, bn, slices, limit = _menu(name)
    m, n, k = (np.maximum(x, 1.0)[:, None] for x in sizes)
    depth = np.ceil(k / slices)
    grid = np.ceil(m / bm) * np.ceil(n / bn) * slices / units
    waves = v["wave"] * np.ceil(grid) + (1.0 - v["wave"]) * np.maximum(grid, 1.0)
    compute = waves * (2.0 * bm * bn * (depth + v["ramp"])) * (units / (peak * v["ceiling"]))
    feed = waves * (np.minimum(bm, m) + np.minimum(bn, n)) * depth * (element * units / (v["feed"] * bandwidth))
    moved = (m * k + k * n) * element + 2.0 * m * n
    kept = np.clip(1.0 - moved / (v["keep"] * l2), 0.0, 1.0)
    partial = np.where(slices > 1, 8.0 * slices * m * n / (3.0 * bandwidth), 0.0)
    stream = moved / (bandwidth * v["stream"] * (1.0 + v["cached"] * kept)) + partial
    power = v["overlap"]
    joined = (compute**power + feed**power + stream**power) ** (1.0 / power)
    joined = joined + np.where(slices > 1, v["join"], 0.0) + v["step"] * depth
    best: Floats = np.where(m <= limit, joined, np.inf).min(axis=1)
    return v["start"] + best / (v["sustained"] + (1.0 - v["sustained"]) / (1.0 + best / v["settle"]))
