"""vLLM: serving with paged attention and continuous batching."""

from __future__ import annotations

from advisor.frameworks._spec import Capability, FrameworkSpec

FRAMEWORK = FrameworkSpec(
    name="vllm",
    title="vLLM",
    distributions=("vllm",),
    module="vllm",
    install="pip install vllm",
    # "compute capability 7.5 or higher": vLLM documentation of 2026, Installation, NVIDIA CUDA (releases up to 0.14 took 7.0).
    min_compute_capability=7.5,
    capabilities=(
        Capability(
            tasks=("infer", "serve"),
            targets=("cuda", "rocm", "tpu", "gaudi", "npu", "xpu", "neuron"),
            kinds=("decoder",),
            executions=("engine",),
            precisions=("bf16", "fp16", "fp32"),
            quantizations=("none", "fp8", "int8", "int4-awq", "int4-gptq"),
            data_parallel=True,
            tensor_parallel=True,
            pipeline_parallel=True,
            expert_parallel=True,
            optimizers=("none",),
            attentions=("paged",),
        ),
    ),
)
