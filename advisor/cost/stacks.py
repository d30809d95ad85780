"""What a training or vision framework adds to the kernels of a step, by framework and by device generation.

    device = matrix*(products + convolutions) + passes*(element-wise) + scores*(softmax of unfused attention)
    step   = start_s + (device^3 + (kernels*kernel_s)^3)^(1/3)        host and device run side by side; the slower one shows

``matrix`` and ``passes`` are products of the framework's and the generation's own factor. Training adds a backward pass with twice the
products, ``backward`` times the element-wise work of the forward, and an optimizer that streams weights and states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import RELATIVES, KernelParameter, declare
from advisor.hardware.platform import Evidence

#: Of a framework.
PER_FRAMEWORK: tuple[KernelParameter, ...] = (
    declare("matrix", 1.1, 0.5, 4.0, "ratio", "Products and convolutions over the kernel curves"),
    declare("passes", 0.7, 0.05, 4.0, "ratio", "Element-wise work over separate passes: below 1 with fusion"),
    declare("scores", 1.0, 0.05, 4.0, "ratio", "Softmax of attention over four separate passes"),
    declare("kernel_s", 1.2e-5, 5e-7, 2e-4, "s", "Host time to launch one kernel"),
    declare("start_s", 3e-4, 1e-6, 2e-2, "s", "Fixed time of a step: input, synchronization, fetching the result"),
)
#: Of a generation of devices and a width of numbers (``16``, ``tf32``, ``32``, ``8``).
PER_WIDTH: tuple[KernelParameter, ...] = (declare("width", 1.0, 0.4, 4.0, "ratio", "Products in this width over the kernel curves"),)
#: Of a width of numbers on every generation.
PER_NUMBERS: tuple[KernelParameter, ...] = (
    declare("dense", 1.0, 0.3, 4.0, "ratio", "Dense convolutions over implicit products of the curves"),
)
#: Of everything.
GLOBAL: tuple[KernelParameter, ...] = (
    declare("folded", 1.0, 0.02, 1.2, "ratio", "Element-wise passes of a convolutional network at inference that folding leaves"),
    declare("grouped", 1.0, 0.3, 8.0, "ratio", "Grouped convolutions over batched products"),
    declare("depthwise", 1.0, 0.3, 8.0, "ratio", "Depthwise convolutions over streaming their operands"),
    declare("backward", 2.2, 1.0, 3.0, "ratio", "Element-wise work of the backward pass over that of the forward"),
    declare("reduce", 0.6, 0.05, 3.0, "ratio", "Gradient reduction that does not hide behind the backward pass"),
)
POWER = 3.0

#: What the design of a stack says before any measurement. Engines fuse element-wise work into products and launch from C++; graph
#: executors dispatch each operator from C++ and copy the fetched result; eager Python pays the interpreter for each operator.
_ENGINE = {"matrix": 1.0, "passes": 0.6, "scores": 0.5, "kernel_s": 3e-6, "start_s": 3e-4}
_GRAPH = {"matrix": 1.1, "passes": 1.0, "scores": 1.5, "kernel_s": 1.5e-5, "start_s": 1e-3}
_EAGER = {"matrix": 1.15, "passes": 1.0, "scores": 2.0, "kernel_s": 2.5e-5, "start_s": 2e-3}
BUILT: Mapping[str, Mapping[str, float]] = {
    "fastertransformer": _ENGINE,
    "tensorrt": _ENGINE,
    "onnxruntime": _ENGINE,
    "openvino": _ENGINE,
    "tensorflow": _GRAPH,
    "mxnet": _GRAPH,
    "jax": _GRAPH,
    "torchscript": _GRAPH,
    "torch": _EAGER,
}
#: The T4 sustains under two thirds of its 65 TFLOP/s at 70 W (Jia et al., "Dissecting the NVidia Turing T4 GPU via
#: Microbenchmarking", 2019); products in tf32 reach about three quarters of what 16-bit ones do of their peak.
_WIDTHS: Mapping[str, float] = {"16.turing": 1.6, "tf32.ampere": 1.3}


def prior_of(name: str, key: str, prior: float) -> float:
    """Return what is believed of parameter ``name`` of a stack or of a width and generation (``key``) before any measurement."""
    return _WIDTHS.get(key, prior) if name == "width" else BUILT.get(key, {}).get(name, prior)


@dataclass(frozen=True, slots=True)
class Stack:
    """Values by name: PER_FRAMEWORK, PER_WIDTH, PER_NUMBERS and GLOBAL; numbers, or float64[n] of one stack a row."""

    name: str
    values: Mapping[str, Any]
    evidence: Evidence


def stack_name(framework: str) -> str:
    """Return the software stack that a framework's printed name means."""
    text = framework.lower()
    for word, name in (("fastertransformer", "fastertransformer"), ("ft-int8", "fastertransformer"), ("torchscript", "torchscript")):
        if word in text:
            return name
    for word in ("tensorflow", "mxnet", "jax", "onnxruntime", "openvino", "tensorrt"):
        if word in text:
            return word
    return "torch" if "torch" in text else text


def width_of(precision: str) -> str:
    """Return the width of numbers a precision multiplies in: ``8``, ``16``, ``tf32`` or ``32``."""
    return {"fp16": "16", "bf16": "16", "tf32": "tf32", "int8": "8", "fp8": "8"}.get(precision, "32")


def stack_for(calibration: Calibration, framework: str, generation: str, precision: str) -> Stack:
    """Return the stack's parameters: the framework's own or the mean over frameworks; the generation's width, a relative's, or 1."""
    fitted = calibration.section("classic").get("parameters", {})
    name = stack_name(framework)

    def value(p: KernelParameter, keys: list[str]) -> float:
        return float(next((fitted[f"stack.{p.name}.{k}"]["value"] for k in keys if f"stack.{p.name}.{k}" in fitted), p.prior))

    width = width_of(precision)
    values = {}
    for p in PER_FRAMEWORK:
        own = fitted.get(f"stack.{p.name}.{name}", {}).get("value", BUILT.get(name, {}).get(p.name))
        values[p.name] = value(p, ["any"]) if own is None else float(own)
    for p in PER_WIDTH:
        here = f"stack.{p.name}.{width}.{generation}" in fitted or f"{width}.{generation}" in _WIDTHS
        others = () if here else RELATIVES.get(generation, ())
        stated = fitted.get(f"stack.{p.name}.{width}.{generation}", {}).get("value", _WIDTHS.get(f"{width}.{generation}"))
        values[p.name] = value(p, [f"{width}.{g}" for g in others]) if stated is None else float(stated)
    values |= {p.name: value(p, [width]) for p in PER_NUMBERS}
    values |= {p.name: value(p, ["any"]) for p in GLOBAL}
    known = f"stack.matrix.{name}" in fitted
    here = any(key.startswith("stack.width.") and key.endswith(f".{generation}") for key in fitted)
    evidence: Evidence = "calibrated" if known and here else ("transferred" if fitted else "spec")
    return Stack(name, values, evidence)
