"""Time of a convolution as an implicit matrix product, and of a depthwise one as a pass over memory.

An image batch B with output H x W is a product of (B*H*W) x (C_in/groups * kh*kw) by (C_out/groups) for each group (Chetlur et al.,
cuDNN, 2014). Vendors' kernels gather the operand on the fly, which costs ``gather`` of the product's time; groups are run as one
batched product whose tiles are only as wide as a group, so few channels a group waste most of a tile. With one channel a group nothing
is left for a matrix unit: inputs and outputs stream through memory ``depthwise`` times slower than a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import KernelParameter, declare, shared
from advisor.units import DTYPE_BITS

Floats = npt.NDArray[np.float64]

PARAMETERS: tuple[KernelParameter, ...] = (
    declare("gather", 1.35, 1.0, 4.0, "ratio", "Time of an implicit product over a plain one of the same sizes"),
    declare("depthwise", 2.5, 1.0, 12.0, "ratio", "Time of a depthwise convolution over a copy of its input and output"),
)
#: Narrowest operand of a group that a matrix instruction takes; narrower ones are padded to it.
_NARROWEST = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvParameters:
    """``gather`` and ``depthwise``, see the module."""

    gather: float
    depthwise: float


def parameters(calibration: Calibration, generation: str) -> ConvParameters:
    """Return the parameters of a generation; where nothing was fitted, of its relatives; then the priors."""
    gather, depthwise = (shared(calibration, f"conv.{p.name}", generation, p.prior) for p in PARAMETERS)
    return ConvParameters(gather=gather, depthwise=depthwise)


def seconds(
    p: ConvParameters,
    gemm: Callable[[Any, Any, Any, float], Floats],
    stream: Callable[[Any], Floats],
    *,
    batch: Any,
    in_channels: float,
    out_channels: float,
    kernel: float,
    groups: float,
    out_h: float,
    out_w: float,
    stride: float,
    dtype: str,
) -> Floats:
    """Return seconds of one convolution; ``kernel`` is the window's area, ``gemm`` and ``stream`` the device's own curves."""
    b = np.asarray(batch, dtype=np.float64)
    element = max(DTYPE_BITS.get(dtype, 16) / 8, 1.0)
    rows = b * out_h * out_w
    moved = (rows * stride * stride * in_channels + rows * out_channels) * element
    if groups > 1 and in_channels / groups < 2:
        return p.depthwise * stream(moved)
    inner = in_channels / groups * kernel
    # A window's pixels overlap with the next one's: each is read from memory once.
    reuse = max(kernel / (stride * stride), 1.0)
    outer = out_channels / groups
    if groups == 1:
        return p.gather * gemm(rows, outer, inner, reuse)
    # One batched product: the groups' rows side by side, each as wide as a group, padded to the matrix unit's narrowest operand.
    wide = max(outer, _NARROWEST)
    return np.maximum(p.gather * gemm(rows * groups, wide, max(inner, _NARROWEST), reuse), p.gather * stream(moved))
