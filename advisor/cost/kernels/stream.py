"""Memory-bound kernels: a fixed start plus bytes over the bandwidth that copies really reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import shared

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamParameters:
    """``efficiency``: reached over sheet bandwidth for large copies; ``start_s``: time of an empty kernel on the device."""

    efficiency: float
    start_s: float


def parameters(calibration: Calibration, generation: str) -> StreamParameters:
    """Return the parameters of a generation. Priors: 0.88 (BabelStream on HBM parts), 2 µs."""
    return StreamParameters(
        efficiency=shared(calibration, "stream.efficiency", generation, 0.88), start_s=shared(calibration, "stream.start", generation, 2e-6)
    )


def seconds(p: StreamParameters, bytes_: Any, *, bandwidth: float) -> Floats:
    """Return seconds to move ``bytes_`` (reads and writes together); 0 for no bytes."""
    size = np.asarray(bytes_, dtype=np.float64)
    return np.where(size > 0, p.start_s + size / (bandwidth * p.efficiency), 0.0)
