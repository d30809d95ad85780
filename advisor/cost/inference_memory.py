"""Memory of an inference replica on one device: weights, key-value cache, activations, workspace, context."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.model.records import Model
from advisor.plan.table import PlanTable
from advisor.units import GIB, MIB

Floats = npt.NDArray[np.float64]

#: Bytes of a stored weight by quantization; four-bit formats with their scales (16 bits for 128 or 64 elements).
_WEIGHT_BYTES: Mapping[str, float] = {
    "int8": 1.0,
    "int8-dynamic": 1.0,
    "int8-static": 1.0,
    "int4": 0.52,
    "int4-awq": 0.52,
    "int4-gptq": 0.52,
    "nf4": 0.53,
    "fp8": 1.0,
    "fp4": 0.5625,
}
_PRECISION_BYTES: Mapping[str, float] = {
    "fp64": 8.0,
    "fp32": 4.0,
    "tf32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5625,
}
#: Driver and runtime on an accelerator (CUDA context with loaded modules, 0.4 to 0.6 GB) and a framework's process on a CPU.
_CONTEXT_BYTES = 0.55 * GIB
_CPU_CONTEXT_BYTES = 0.35 * GIB
#: Workspace of product kernels and of the engine's own buffers.
_WORKSPACE_BYTES = 256 * MIB
#: Engines reserve workspaces, captured graphs and buffers for their largest batch: FasterTransformer on A100 shows 2.3 to 2.6 GB
#: beyond weights, cache and context for models of 0.35 and 1.3 B parameters (gpt_guide).
_ENGINE_BYTES = 2.2 * GIB
#: Tokens a serving engine puts through one pass at most (chunked prefill of vLLM and TensorRT-LLM: 8192).
_PASS_TOKENS = 8192.0


def weight_bytes(model: Model, precision: Floats, quantized: Floats) -> Floats:
    """Return bytes of all weights: quantization leaves embedding and norms at the plan's precision."""
    embedding = float(sum(b.parameters * b.repeat for b in model.blocks if b.section == "embedding"))
    rest = max(float(model.parameters) - embedding, 0.0)
    return embedding * precision + rest * quantized


def expert_bytes(model: Model, quantized: Floats) -> Floats:
    """Return bytes of the routed experts among all weights."""
    return float(sum(b.expert_parameters * b.repeat for b in model.blocks)) * quantized


def inference_memory(model: Model, plans: PlanTable, tokens: float, calibration: Calibration) -> dict[str, Floats]:
    """Return memory parts in bytes per device, float64[n]; ``tokens`` are prompt and output of one sequence."""
    precision = plans.lookup("precision", _PRECISION_BYTES, 2.0)
    compute = np.maximum(precision, 2.0)
    quantized = plans.lookup("quantization", {"none": -1.0, **_WEIGHT_BYTES}, -1.0)
    quantized = np.where(quantized < 0, precision, quantized)
    tp, pp, batch = plans.ints("tp"), plans.ints("pp"), plans.ints("micro_batch")
    on_cpu = plans.ints("threads") > 0
    full = np.where(precision < 2.0, 2.0, precision)
    experts = expert_bytes(model, quantized)
    # Whole experts are dealt out over ep devices, more finely where tensor parallelism cuts them.
    parts = {"weights": (weight_bytes(model, full, quantized) - experts) / (tp * pp) + experts / (np.maximum(tp, plans.ints("ep")) * pp)}
    cached = np.where(plans.equals("quantization", "fp8") | plans.equals("quantization", "fp4") | (precision < 1.5), 1.0, compute)
    parts["kv_cache"] = kv_cache_bytes(model, batch, tokens, cached, tp, pp)
    parts["activations"] = _activations(model, batch, tokens, compute, tp)
    parts["workspace"] = np.where(plans.equals("execution", "engine"), _ENGINE_BYTES, float(_WORKSPACE_BYTES))
    parts["context"] = np.where(on_cpu & (plans.ints("devices") <= 1), _CPU_CONTEXT_BYTES, _CONTEXT_BYTES)
    return parts


def kv_cache_bytes(model: Model, batch: Floats, tokens: float | Floats, element: Floats, tp: Floats, pp: Floats) -> Floats:
    """Return bytes of keys and values on one device; heads are never split finer than one key head a device."""
    t = model.transformer
    if t is None or model.kind not in ("decoder", "encoder-decoder"):
        return np.zeros_like(batch)
    kept = np.minimum(tokens, t.window) if t.window else tokens
    split = tp if t.kv_lora_rank else np.minimum(tp, float(t.kv_heads))
    if t.kv_lora_rank:
        split = np.ones_like(tp)
    return batch * kept * t.kv_elements_per_token_layer * t.layers * element / split / pp


def _activations(model: Model, batch: Floats, tokens: float, element: Floats, tp: Floats) -> Floats:
    t = model.transformer
    if t is None:
        # Input and output of the widest layer live together; frameworks keep about three such tensors.
        widest = max((b.activation_elements_per_token for b in model.blocks), default=0.0)
        return batch * widest * element
    at_once = np.minimum(batch * tokens, np.maximum(_PASS_TOKENS, batch))
    live = at_once * (4.0 * t.hidden + (3.0 if t.gated_mlp else 2.0) * t.ffn_hidden / tp) * element
    logits = batch * t.vocab * 4.0 if model.kind == "decoder" else 0.0
    return live + logits
