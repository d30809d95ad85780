"""What an inference engine adds to the kernels: a few parameters each, with physical meaning, by engine and by device generation.

    latency = batch_s + prefill_pass + (output - 1) * step
    prefill_pass, step = gemm/… + attention*… + stream*… + reduces*(collective + call_s) + step_s + layers*layer_s + batch*sequence_s

A parameter fitted for an engine on a generation (``<engine>.<generation>``) stands first, then the engine's own mean
(``<engine>``), then what is known of how the engine is built (``BUILT``), then the mean over engines (``any``), then the prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import RELATIVES, KernelParameter, declare
from advisor.hardware.platform import Evidence

PARAMETERS: tuple[KernelParameter, ...] = (
    declare("weights", 1.05, 0.7, 8.0, "ratio", "Products of a decode step over the kernel curves: bandwidth the engine's kernels miss"),
    declare("prefill", 1.15, 0.6, 20.0, "ratio", "Products and attention of the prompt over the kernel curves"),
    declare("keys", 1.2, 0.4, 40.0, "ratio", "Attention of a decode step over the kernel curves"),
    declare("pass", 0.5, 0.02, 5.0, "ratio", "Element-wise passes over the curves without fusion"),
    declare("step_s", 1e-3, 1e-5, 0.5, "s", "Host work of one step that the device waits for"),
    declare("layer_s", 1e-5, 1e-7, 1e-2, "s", "Launches of one layer that the device waits for"),
    declare("sequence_s", 1e-5, 1e-7, 5e-3, "s", "Host and sampling work of one sequence in one step"),
    declare("call_s", 5e-6, 1e-7, 2e-2, "s", "What one tensor-parallel collective costs beyond the collective curves"),
    declare("batch_s", 1e-2, 1e-4, 30.0, "s", "Start of a batch: tokenization, scheduling, first allocations"),
)
#: What the design of an engine says before any measurement.
#: vllm: scheduler, input preparation and sampling are Python on the critical path, some milliseconds a step at tens of sequences
#: (vLLM v0.6.0 blog, 2024); prompts run without captured graphs. llama.cpp: attention is unfused products and softmax, launched
#: operator by operator, and its own product kernels serve the prompt (llama.cpp before flash attention became the default, 2025).
#: deepspeed-mii: a Python loop that fuses prompt pieces with decode steps (Holmes et al., DeepSpeed-FastGen, 2024). megatron: a
#: training framework's eager forward pass.
BUILT: Mapping[str, Mapping[str, float]] = {
    "vllm": {"step_s": 2e-3, "sequence_s": 4e-5, "prefill": 1.5},
    "llama.cpp": {"keys": 6.0, "step_s": 2e-3, "prefill": 1.5},
    "deepspeed-mii": {"step_s": 3e-3, "sequence_s": 4e-5, "prefill": 1.5},
    "megatron": {"layer_s": 1e-4, "keys": 3.0, "prefill": 1.5},
}
#: Names that published tables and plans use for one engine.
_ALIASES: Mapping[str, str] = {
    "vllm": "vllm",
    "tensorrt-llm": "tensorrt-llm",
    "tensorrt": "tensorrt-llm",
    "llama.cpp": "llama.cpp",
    "deepspeed": "deepspeed",
    "deepspeed-mii": "deepspeed-mii",
    "fastertransformer": "fastertransformer",
    "megatron": "megatron",
    "optimum-habana": "deepspeed",
    "torch": "torch",
    "jax": "jax",
    "onnxruntime": "onnxruntime",
}


@dataclass(frozen=True, slots=True)
class Engine:
    """Values by name (see PARAMETERS), and how well they are known."""

    name: str
    values: Mapping[str, float]
    evidence: Evidence


def engine_name(framework: str) -> str:
    """Return the engine that a framework's printed name means: lower case, without version and remarks."""
    text = framework.lower().strip()
    for name in sorted(_ALIASES, key=len, reverse=True):
        if text == name or text.startswith((name + " ", name + "/")):
            return _ALIASES[name]
    return text


def engine_for(calibration: Calibration, framework: str, generation: str, is_cpu: bool = False) -> Engine:
    """Return the engine's parameters on a generation. On a CPU the curves are the framework's own: only dispatch is added."""
    name = engine_name(framework)
    if is_cpu:
        return Engine(name, CPU, "spec")
    fitted = calibration.section("inference").get("parameters", {})
    keys = [f"{name}.{g}" for g in (generation, *RELATIVES.get(generation, ()))] + [name]
    values: dict[str, float] = {}
    for p in PARAMETERS:
        mean = fitted.get(f"engine.{p.name}.any", {}).get("value", p.prior)
        fallback = BUILT.get(name, {}).get(p.name, mean)
        values[p.name] = float(
            next((fitted[f"engine.{p.name}.{key}"]["value"] for key in keys if f"engine.{p.name}.{key}" in fitted), fallback)
        )
    evidence: Evidence = "spec"
    if f"engine.weights.{name}.{generation}" in fitted:
        evidence = "calibrated"
    elif f"engine.weights.{name}" in fitted or "engine.weights.any" in fitted:
        evidence = "transferred"
    return Engine(name, values, evidence)


#: On a CPU the measured curves hold what a kernel costs inside the framework; dispatch of about ten microseconds a layer remains.
#: Norms, activations and softmax compute exponentials and roots, so a pass takes about three times a copy of its bytes.
CPU: Mapping[str, float] = {
    "weights": 1.0,
    "prefill": 1.0,
    "keys": 1.0,
    "pass": 3.0,
    "step_s": 2e-4,
    "layer_s": 2e-5,
    "sequence_s": 1e-6,
    "call_s": 1e-5,
    "batch_s": 1e-4,
}
