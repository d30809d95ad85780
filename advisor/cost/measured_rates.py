"""What was measured on a product moves its curves: large products timed there against those that the fitted curves predict.

One factor a library class: the geometric mean of measured over predicted rates, drawn towards 1 where there are few. It multiplies the
share of the peak that full tiles reach (``ceiling``), on which training and inference both rest. The points that entered a factor are
named, and no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.cost.kernels.gemm import GemmParameters, dtype_class
from advisor.hardware.platform import KernelPoint
from advisor.units import DTYPE_BITS

#: Products from 1024³ on: smaller ones time the launch.
_LARGE = float(1 << 30)
#: As many measurements as the curves weigh: they were fitted on hundreds, but of other machines.
_PRIOR_WEIGHT = 3.0
#: A rate outside this share of the dense peak is of another device, of another format, or broken.
_CREDIBLE = (0.02, 1.02)

#: Predicts the seconds of an (m x k) by (k x n) product in a dtype.
Seconds = Callable[[float, float, float, str], float]
#: Gives the dense peak of a dtype in FLOP/s, None where the device has no unit of its own for it.
Peak = Callable[[str], float | None]


@dataclass(frozen=True, slots=True)
class Moved:
    """Product parameters moved by measurements, and the ids of those that moved them."""

    gemm: GemmParameters
    measurements: tuple[str, ...] = ()


def moved_by(points: Iterable[KernelPoint], gemm: GemmParameters, seconds: Seconds, peak: Peak) -> Moved:
    """Return ``gemm`` with the ceilings that ``points`` measured on this product ask for; as it is where none can be used."""
    used = _credible(points, peak)
    if not used:
        return Moved(gemm)
    gaps: dict[str, list[float]] = defaultdict(list)
    for point in used:
        m, n, k = (float(point.shape[name]) for name in "mnk")
        gaps[dtype_class(point.dtype)].append(float(np.log(point.rate * seconds(m, n, k, point.dtype) / (2.0 * m * n * k))))
    if "16" in gaps and "8v" not in gaps:
        # The vendor's library in 8 bits is known by its 16-bit products.
        gaps["8v"] = gaps["16"]
    by_class = dict(gemm.by_class)
    for name, found in gaps.items():
        factor = float(np.exp(np.mean(found) * len(found) / (len(found) + _PRIOR_WEIGHT)))
        by_class[name] = {**by_class[name], "ceiling": min(by_class[name]["ceiling"] * factor, 1.0)}
    return Moved(GemmParameters(by_class), tuple(point.id for point in used))


def _credible(points: Iterable[KernelPoint], peak: Peak) -> tuple[KernelPoint, ...]:
    """Return the fastest credible large product of each shape and dtype of 16 bits or fewer: what a tuned library reaches there."""
    best: dict[tuple[Any, ...], KernelPoint] = {}
    for point in points:
        sizes = [point.shape.get(name) for name in "mnk"]
        top = peak(point.dtype) if point.kind == "gemm" and DTYPE_BITS.get(point.dtype, 32) <= 16 else None
        if top is None or not all(isinstance(s, int | float) and s > 0 for s in sizes):
            continue
        if float(np.prod([float(s) for s in sizes if s is not None])) < _LARGE or not _CREDIBLE[0] <= point.rate / top <= _CREDIBLE[1]:
            continue
        key = (point.dtype, *sizes)
        if key not in best or point.rate > best[key].rate:
            best[key] = point
    return tuple(best.values())
