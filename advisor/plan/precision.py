"""Which precisions a device and a model allow, and why not."""

from __future__ import annotations

from advisor.hardware.platform import Platform
from advisor.model.records import Model

#: Compute capability from which a CUDA device has the arithmetic: NVIDIA CUDA C++ Programming Guide, "Compute Capabilities",
#: table "Arithmetic Instructions" and the tensor-core data types per generation.
_CUDA_FROM = {"bf16": 80, "tf32": 80, "fp8": 89, "fp4": 100, "int8": 61, "fp16": 53}

#: CPU flags one of which gives the type matrix or vector instructions.
_CPU_FLAGS = {
    "bf16": ("avx512_bf16", "amx_bf16", "bf16", "svebf16"),
    "int8": ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm", "avx2", "sse4_1"),
    "fp16": ("avx512_fp16", "amx_fp16", "asimdhp", "fphp", "f16c"),
}


def precision_obstacle(precision: str, platform: Platform, model: Model | None = None) -> str | None:
    """Return why ``precision`` cannot be used, or None if it can. Unknown facts forbid nothing that the target always has."""
    if precision == "fp16" and model is not None and not model.fp16_safe:
        return f"activations of the {model.family} family overflow fp16 (it was trained in bf16)"
    profile = platform.profile
    if precision in ("fp32", "fp64"):
        return None
    if platform.is_cpu:
        return _cpu_obstacle(precision, platform)
    if profile.arch and profile.arch.startswith("sm_") and precision in _CUDA_FROM:
        digits = "".join(c for c in profile.arch[3:] if c.isdigit())
        if digits and int(digits) < _CUDA_FROM[precision]:
            need = _CUDA_FROM[precision]
            return f"{profile.name} has compute capability {int(digits) / 10:.1f}, {precision} needs {need / 10:.1f}"
    if profile.dense_tflops and precision not in profile.dense_tflops:
        return f"the data sheet of {profile.name} states no {precision} rate"
    return None


def _cpu_obstacle(precision: str, platform: Platform) -> str | None:
    if precision in ("tf32", "fp8", "fp4"):
        return f"CPUs have no {precision}"
    flags = _CPU_FLAGS.get(precision, ())
    if platform.isa and flags and not set(flags) & set(platform.isa):
        return f"this CPU has no {precision} instructions ({', '.join(flags)})"
    return None
