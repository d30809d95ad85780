"""PyTorch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from advisor.frameworks._host import cpu_target
from advisor.frameworks._spec import Capability, FrameworkSpec
from advisor.frameworks._training import Traits

#: Fully sharded or replicated data parallelism with automatic mixed precision (PyTorch FSDP documentation): fp32 weights are the master
#: copy; gradients are reduced after every micro-batch; torch's selective checkpoint keeps every other product.
TORCH_TRAINING = Traits(
    fusion="eager",
    fused_accumulation=False,
    gathers_once=True,
    pads_vocab=False,
    balanced_context=False,
    selective_products=0.45,
    selective_kept=0.43,
    stored_weight_bytes=4.0,
    master_bytes=0.0,
    kernels_forward=40.0,
    kernels_backward=60.0,
    logit_passes_bytes=48.0,
    logit_kept_bytes=12.0,
    reduces_each_micro_batch=True,
    optimizer_bytes=28.0,
    host_update_s=1.48e-9,
    # Dynamic scaling reads every operand once more for its maximum, and writes it in both layouts (torchao float8 README).
    cast_passes=2.0,
)
_STACKS = {
    "llm-foundry": replace(TORCH_TRAINING, logit_passes_bytes=10.0, logit_kept_bytes=4.0),
    "torchtitan": replace(TORCH_TRAINING, logit_kept_bytes=12.5),
    # Recipes for one device: 16-bit states, optimizer fused into backward (no gradients kept), chunked loss.
    "torchtune": replace(
        TORCH_TRAINING,
        stored_weight_bytes=2.0,
        gradient_bytes=0.0,
        logit_kept_bytes=3.0,
        # 16-bit gradient and weight: 2 + 2 + 2 bytes beside 16 of two fp32 moments; no pass that clips.
        optimizer_bytes=22.0,
        step_traffic_bytes=0.0,
    ),
    "flash-attn": replace(TORCH_TRAINING, fusion="fused", kernels_forward=24.0, kernels_backward=36.0, reduces_each_micro_batch=False),
}


def query() -> dict[str, Any]:
    """Return what this build of torch can use here: its CUDA, ROCm, XPU and MPS devices, and which GPU code it carries."""
    import torch

    targets = [cpu_target()]
    detail: dict[str, Any] = {
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": torch.backends.mkldnn.is_available(),
        "threads": torch.get_num_threads(),
        "bf16_cpu": bool(getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)())
        if torch.backends.mkldnn.is_available()
        else False,
    }
    build = "cuda" if torch.version.cuda else "rocm" if torch.version.hip else "xpu" if getattr(torch.version, "xpu", None) else "cpu"
    if build in ("cuda", "rocm"):
        detail["arch_list"] = list(torch.cuda.get_arch_list())
        if torch.cuda.is_available():
            targets.append(build)
            detail["devices"] = [_gpu(torch, index) for index in range(torch.cuda.device_count())]
        else:
            detail["unavailable"] = _why_not(torch)
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        targets.append("xpu")
        detail["xpu_devices"] = [xpu.get_device_name(index) for index in range(xpu.device_count())]
    if torch.backends.mps.is_available():
        targets.append("mps")
    return {"version": torch.__version__, "build": build, "targets": targets, "detail": detail}


def _gpu(torch: Any, index: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    return {
        "name": properties.name,
        "compute_capability": list(torch.cuda.get_device_capability(index)),
        "memory_bytes": properties.total_memory,
        "gcn_arch": getattr(properties, "gcnArchName", None),
        "uuid": str(getattr(properties, "uuid", "")) or None,
    }


def _why_not(torch: Any) -> str:
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error)[:300]
    return "no device is visible"


FRAMEWORK = FrameworkSpec(
    name="torch",
    title="PyTorch",
    distributions=("torch", "torch-cpu"),
    module="torch",
    install="pip install torch",
    query=query,
    bench_backend="torch",
    environment="torch",
    training=TORCH_TRAINING,
    stacks=_STACKS,
    # Time of convolutions on a CPU over products of the same size: ResNet-50 in fp32 on two AVX2 cores, batch 1 and 8, 2026.
    overheads={
        "cpu_convolution_ratio": 1.45,
        "cpu_convolution_ratio.script": 0.95,
        "start_s": 5.0,
        "prepare_eager_s": 1.0,
        "prepare_script_s": 5.0,
        "prepare_compile_s": 30.0,
    },
    capabilities=(
        Capability(
            tasks=("train", "finetune"),
            targets=("cuda", "rocm", "xpu", "npu", "gaudi"),
            executions=("eager", "compile"),
            precisions=("bf16", "fp16", "tf32", "fp32"),
            shardings=("none", "fsdp", "hsdp"),
            data_parallel=True,
            tensor_parallel=True,
            pipeline_parallel=True,
            interleaved_pipeline=True,
            context_parallel=True,
            sequence_parallel=True,
            recomputes=("none", "selective", "full"),
            offloads=("none", "params"),
            optimizers=("adamw", "adam8bit", "sgd"),
            adapters=("none", "lora", "qlora"),
            attentions=("flash", "fused", "math"),
        ),
        Capability(
            tasks=("train", "finetune"),
            targets=("cpu-x86", "cpu-arm", "cpu-other", "mps"),
            executions=("eager", "compile"),
            precisions=("fp32", "bf16"),
            shardings=("none", "fsdp"),
            data_parallel=True,
            tensor_parallel=True,
            pipeline_parallel=True,
            sequence_parallel=True,
            recomputes=("none", "full"),
            optimizers=("adamw", "sgd"),
            adapters=("none", "lora"),
            attentions=("flash", "math"),
        ),
        Capability(
            tasks=("infer", "serve"),
            targets=("cuda", "rocm", "xpu", "npu", "gaudi", "mps"),
            executions=("eager", "compile"),
            precisions=("bf16", "fp16", "tf32", "fp32"),
            quantizations=("none", "int8", "int4"),
            data_parallel=True,
            tensor_parallel=True,
            optimizers=("none",),
            attentions=("flash", "fused", "math"),
        ),
        Capability(
            tasks=("infer", "serve"),
            targets=("cpu-x86", "cpu-arm", "cpu-other"),
            executions=("eager", "compile", "script"),
            precisions=("fp32", "bf16"),
            optimizers=("none",),
            attentions=("flash", "math"),
        ),
        Capability(
            tasks=("infer", "serve"),
            targets=("cpu-x86", "cpu-arm"),
            kinds=("decoder", "encoder", "encoder-decoder", "vision"),
            executions=("eager",),
            precisions=("fp32",),
            quantizations=("int8-dynamic",),
            optimizers=("none",),
            attentions=("flash", "math"),
        ),
    ),
)
