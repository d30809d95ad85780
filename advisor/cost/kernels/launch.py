"""Host time to launch kernels: what bounds small work in eager frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import fitted

Floats = npt.NDArray[np.float64]

#: Host seconds a kernel, by how the framework launches. Priors: eager dispatch of PyTorch takes 5-10 µs an operator; captured
#: graphs and ahead-of-time engines leave about 1-3 µs of device-side launch.
_PRIORS = {"torch": 7e-6, "jax": 3e-6, "tensorrt-llm": 2e-6, "vllm": 2e-6, "onnxruntime": 4e-6, "tensorflow": 8e-6}
_CPU_PRIORS = {"torch": 4e-6, "jax": 6e-6, "onnxruntime": 2e-6, "numpy": 1e-6}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchParameters:
    """``host_s``: host seconds a kernel."""

    host_s: float


def parameters(calibration: Calibration, framework: str, is_cpu: bool) -> LaunchParameters:
    """Return the launch parameters of ``framework``; prior 6 µs a kernel where nothing is known (3 µs on a CPU)."""
    if is_cpu:
        return LaunchParameters(host_s=_CPU_PRIORS.get(framework, 3e-6))
    value = fitted(calibration, f"launch.host.{framework}")
    return LaunchParameters(host_s=_PRIORS.get(framework, 6e-6) if value is None else value)


def seconds(p: LaunchParameters, kernels: Any) -> Floats:
    """Return host seconds of ``kernels`` launches in a row."""
    return np.maximum(np.asarray(kernels, dtype=np.float64), 0.0) * p.host_s
