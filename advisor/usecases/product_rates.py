"""What users measured on a product moves its predictions: products timed there against those that the curves predict.

One factor a product: the geometric mean of measured over predicted rates, drawn towards 1 where there are few. It multiplies the rate
that full tiles reach in the kernel curves (``gemm.ceiling``), on which training and inference both rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.hardware.platform import KernelPoint, Platform

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration

#: Products from 1024³ on: smaller ones time the launch.
_LARGE = float(1 << 30)
#: As many measurements as the curves weigh: they were fitted on hundreds, but of other machines.
_PRIOR_WEIGHT = 3.0
#: A rate outside this share of the dense peak is of another device, of another format, or broken.
_CREDIBLE = (0.02, 1.02)
_DTYPES = ("bf16", "fp16")


def with_product_rates(platform: Platform, calibration: Calibration) -> tuple[Platform, Calibration, tuple[str, ...]]:
    """Return the platform with the points that were used alone, the calibration moved by them, and their ids.

    Platforms of a CPU carry curves of their own and are returned as they are.
    """
    if platform.is_cpu or not platform.points:
        return platform, calibration, ()
    from advisor.cost.curves import curves_for, gemm_seconds

    curves = curves_for(platform, "torch", calibration)
    used = _credible(platform, {dtype: curves.peak(dtype) for dtype in _DTYPES})
    if not used:
        return replace(platform, points=()), calibration, ()
    gaps = []
    for point in used:
        m, n, k = (float(point.shape[name]) for name in "mnk")
        gaps.append(np.log(point.rate * float(gemm_seconds(curves, m, n, k, point.dtype)) / (2.0 * m * n * k)))
    factor = float(np.exp(np.mean(gaps) * len(gaps) / (len(gaps) + _PRIOR_WEIGHT)))
    return replace(platform, points=used), _scaled(calibration, curves.generation, factor), tuple(point.id for point in used)


def _credible(platform: Platform, peaks: Mapping[str, float]) -> tuple[KernelPoint, ...]:
    """Return the fastest credible large product of each shape and dtype: what a tuned library reaches there."""
    best: dict[tuple[Any, ...], KernelPoint] = {}
    for point in platform.points:
        sizes = [point.shape.get(name) for name in "mnk"]
        if point.kind != "gemm" or point.dtype not in _DTYPES or not all(isinstance(s, int | float) and s > 0 for s in sizes):
            continue
        share = point.rate / peaks[point.dtype]
        if float(np.prod([float(s) for s in sizes if s is not None])) < _LARGE or not _CREDIBLE[0] <= share <= _CREDIBLE[1]:
            continue
        key = (point.dtype, *sizes)
        if key not in best or point.rate > best[key].rate:
            best[key] = point
    return tuple(best.values())


def _scaled(calibration: Calibration, generation: str, factor: float) -> Calibration:
    """Return the calibration with the rates of large 16-bit products of ``generation`` multiplied by ``factor``, within their bounds."""
    kernels = dict(calibration.section("kernels"))
    parameters = dict(kernels.get("parameters", {}))
    key = next((k for k in (f"gemm.ceiling.16.{generation}", "gemm.ceiling.16.any") if k in parameters), None)
    if key is not None:
        old = parameters[key]
        parameters[f"gemm.ceiling.16.{generation}"] = {**old, "value": min(float(old["value"]) * factor, 1.0)}
        calibration = replace(calibration, sections={**calibration.sections, "kernels": {**kernels, "parameters": parameters}})
    return calibration
