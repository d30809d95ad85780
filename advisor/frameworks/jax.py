"""JAX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from advisor.frameworks._host import cpu_target
from advisor.frameworks._spec import Capability, FrameworkSpec
from advisor.frameworks._training import compiled
from advisor.frameworks.torch import TORCH_TRAINING

#: XLA on TPUs (MaxText README): element-wise work is folded into products, collectives are split and run beside them, the host enqueues
#: one program a step; rematerialization ``minimal`` keeps all products.
_ON_TPU = replace(
    compiled(TORCH_TRAINING),
    fusion="xla",
    overlap_tensor=0.5,
    host_factor=0.1,
    reduces_each_micro_batch=False,
    logit_kept_bytes=8.0,
    balanced_context=True,
    selective_products=0.0,
    selective_kept=0.7,
)
#: Elsewhere XLA compiles kernels of its own, and nothing published measures training there: element-wise work and exchanges get what
#: compiled torch gets.
_ELSEWHERE = replace(_ON_TPU, fusion="compiled", overlap_tensor=0.0, reduces_each_micro_batch=True)

#: Platform names of PJRT plug-ins to Device targets.
_PLATFORMS = {"cuda": "cuda", "gpu": "cuda", "rocm": "rocm", "tpu": "tpu", "METAL": "mps", "metal": "mps", "neuron": "neuron", "xpu": "xpu"}


def query() -> dict[str, Any]:
    """Return the platforms JAX initializes here."""
    import jax
    import jaxlib

    devices = jax.devices()
    targets = [cpu_target()]
    for device in devices:
        platform = str(device.platform)
        if platform == "cpu":
            continue
        version = str(getattr(device.client, "platform_version", "")).lower()
        target = "rocm" if platform == "gpu" and "rocm" in version else _PLATFORMS.get(platform, "other")
        if target not in targets:
            targets.append(target)
    detail = {
        "jaxlib": jaxlib.__version__,
        "default_backend": jax.default_backend(),
        "devices": [{"kind": str(device.device_kind), "platform": str(device.platform)} for device in devices],
    }
    build = next((target for target in targets if not target.startswith("cpu")), "cpu")
    return {"version": jax.__version__, "build": build, "targets": targets, "detail": detail}


FRAMEWORK = FrameworkSpec(
    name="jax",
    title="JAX",
    distributions=("jax",),
    module="jax",
    install="pip install jax",
    query=query,
    bench_backend="jax",
    environment="jax",
    training=_ELSEWHERE,
    training_on={"tpu": _ON_TPU},
    # Time of convolutions on a CPU over products of the same size: ResNet-50 in fp32 on two AVX2 cores, batch 1 and 8, 2026.
    overheads={
        "cpu_convolution_ratio": 1.65,
        "start_s": 4.0,
        "prepare_jit_s": 6.0,
    },
    capabilities=(
        Capability(
            tasks=("train", "finetune"),
            targets=("tpu", "cuda", "rocm"),
            executions=("jit",),
            precisions=("bf16", "fp32"),
            shardings=("none", "fsdp", "hsdp"),
            data_parallel=True,
            tensor_parallel=True,
            pipeline_parallel=True,
            context_parallel=True,
            expert_parallel=True,
            sequence_parallel=True,
            recomputes=("none", "selective", "full"),
            attentions=("flash", "fused", "math"),
        ),
        Capability(
            tasks=("train", "finetune"),
            targets=("cpu-x86", "cpu-arm", "cpu-other"),
            executions=("jit",),
            precisions=("fp32", "bf16"),
            shardings=("none", "fsdp"),
            data_parallel=True,
            tensor_parallel=True,
            recomputes=("none", "full"),
            attentions=("math",),
        ),
        Capability(
            tasks=("infer", "serve"),
            targets=("tpu", "cuda", "rocm"),
            executions=("jit",),
            precisions=("bf16", "fp32"),
            quantizations=("none", "int8"),
            data_parallel=True,
            tensor_parallel=True,
            optimizers=("none",),
            attentions=("fused", "math"),
        ),
        Capability(
            tasks=("infer", "serve"),
            targets=("cpu-x86", "cpu-arm", "cpu-other"),
            executions=("jit",),
            precisions=("fp32", "bf16"),
            optimizers=("none",),
            attentions=("math",),
        ),
    ),
)
