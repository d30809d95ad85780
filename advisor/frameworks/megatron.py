"""Megatron-LM (Megatron-Core): tensor, pipeline, context and expert parallel training with a distributed optimizer."""

from __future__ import annotations

from advisor.frameworks._spec import Capability, FrameworkSpec

FRAMEWORK = FrameworkSpec(
    name="megatron",
    title="Megatron-LM (Megatron-Core)",
    distributions=("megatron-core",),
    module="megatron.core",
    install="pip install megatron-core",
    capabilities=(
        Capability(
            tasks=("train", "finetune"),
            targets=("cuda", "rocm", "npu"),
            kinds=("decoder", "encoder", "encoder-decoder", "state-space"),
            executions=("eager",),
            precisions=("bf16", "fp16", "fp8", "fp32"),
            shardings=("none", "zero1"),
            data_parallel=True,
            tensor_parallel=True,
            pipeline_parallel=True,
            interleaved_pipeline=True,
            context_parallel=True,
            expert_parallel=True,
            sequence_parallel=True,
            recomputes=("none", "selective", "full"),
            adapters=("none", "lora"),
            attentions=("flash", "fused", "math"),
        ),
    ),
)
