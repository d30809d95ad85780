"""TensorRT-LLM: compiled engines with in-flight batching on NVIDIA devices."""

from __future__ import annotations

from advisor.frameworks._spec import Capability, FrameworkSpec

FRAMEWORK = FrameworkSpec(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    distributions=("tensorrt-llm", "tensorrt_llm"),
    module="tensorrt_llm",
    install="pip install tensorrt-llm",
    # Ampere and later are developed and tested (TensorRT-LLM 0.18.2 "Support Matrix", and "Supported Hardware" of the current docs).
    min_compute_capability=8.0,
    capabilities=(
        Capability(
            tasks=("infer", "serve"),
            targets=("cuda",),
            kinds=("decoder", "encoder-decoder", "encoder"),
            executions=("engine",),
            precisions=("bf16", "fp16"),
            quantizations=("none", "fp8", "int8", "int4-awq", "int4-gptq", "fp4"),
            data_parallel=True,
            tensor_parallel=True,
            pipeline_parallel=True,
            expert_parallel=True,
            optimizers=("none",),
            attentions=("paged",),
        ),
    ),
)
