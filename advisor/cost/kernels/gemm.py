"""Time of a matrix product on a device of many equal compute units.

The result is cut into tiles of ``TILES``; a tile (or one of ``SPLITS`` slices of its K loop) is the work of one unit, so the grid runs
in whole waves. Inside a tile the matrix unit is fed from the caches: a tile of bm x bn reuses each operand element bn or bm times, hence
a small tile is bound by operand traffic, ``1 + feed*(1/bm + 1/bn)``. Every tile pays ``ramp`` elements of K to fill and drain its
pipeline. Operands and result cross device memory at least once: ``stream`` of the sheet bandwidth. The best tile wins, as in the
heuristics of the vendors' libraries. Bounds on time join as a p-norm with p = ``overlap``; a kernel costs ``start_s`` at least.

Sources: tile and wave quantization, NVIDIA "Matrix Multiplication Background" (2023); roofline, Williams et al., CACM 52(4), 2009.
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

TILES: tuple[tuple[int, int], ...] = ((256, 128), (128, 256), (128, 128), (64, 256), (128, 64), (64, 128), (64, 64), (16, 64), (16, 128))
SPLITS: tuple[int, ...] = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmParameters:
    """Parameters of one generation. ``ceiling`` maps a class of dtype (``16``, ``8``, ``4``, ``32``) to reached over peak."""

    ceiling: dict[str, float]
    feed: float
    ramp: float
    stream: float
    overlap: float
    start_s: float


_CEILING_PRIOR = {"32": 0.80, "16": 0.78, "8": 0.70, "4": 0.60}


def dtype_class(dtype: str) -> str:
    """Return the width class of a dtype: ``32`` (fp32, tf32, fp64), ``16``, ``8`` or ``4``."""
    bits = DTYPE_BITS.get(dtype, 16)
    return "32" if bits >= 32 else str(bits)


def parameters(calibration: Calibration, generation: str) -> GemmParameters:
    """Return the parameters of a generation, with the priors where nothing was fitted.

    Priors: 0.78 of the 16-bit peak and 0.70 of the 8-bit one (best matmul searched over shapes, ml-engineering accelerator tables).
    """
    ceiling = {width: shared(calibration, f"gemm.ceiling{width}", generation, prior) for width, prior in _CEILING_PRIOR.items()}
    return GemmParameters(
        ceiling=ceiling,
        feed=shared(calibration, "gemm.feed", generation, 32.0),
        ramp=shared(calibration, "gemm.ramp", generation, 256.0),
        stream=shared(calibration, "gemm.stream", generation, 0.80),
        overlap=shared(calibration, "gemm.overlap", generation, 4.0),
        start_s=shared(calibration, "gemm.start", generation, 3e-6),
    )


def seconds(p: GemmParameters, m: Any, n: Any, k: Any, dtype: str, *, peak: float, bandwidth: float, units: int, l2: float) -> Floats:
    """Return seconds of (m x k) by (k x n); arguments broadcast; 0 s where a size is 0. ``peak`` in FLOP/s of the whole device."""
    m_, n_, k_ = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (m, n, k)))
    width = dtype_class(dtype)
    unit_rate = peak * p.ceiling[width] / units
    element = DTYPE_BITS.get(dtype, 16) / 8
    out_element = max(element, 2.0)
    best = np.full(m_.shape, np.inf)
    for bm, bn in TILES:
        tiles = np.ceil(m_ / bm) * np.ceil(n_ / bn)
        feed = 1.0 + p.feed * (1.0 / bm + 1.0 / bn)
        for split in SPLITS:
            depth = np.ceil(k_ / split)
            waves = np.ceil(tiles * split / units)
            compute = waves * (2.0 * bm * bn * (depth + p.ramp) * feed / unit_rate)
            extra = 0.0 if split == 1 else 2.0 * (split - 1) * 4.0 * m_ * n_
            memory = ((m_ * k_ + k_ * n_) * element + m_ * n_ * out_element + extra) / (bandwidth * p.stream)
            joined = (compute**p.overlap + memory**p.overlap) ** (1.0 / p.overlap)
            best = np.minimum(best, joined)
    return np.where((m_ > 0) & (n_ > 0) & (k_ > 0), p.start_s + best, 0.0)
