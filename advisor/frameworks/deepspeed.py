"""DeepSpeed: ZeRO stages 1 to 3 with offload of optimizer or parameters to the host."""

from __future__ import annotations

from advisor.frameworks._spec import Capability, FrameworkSpec

FRAMEWORK = FrameworkSpec(
    name="deepspeed",
    title="DeepSpeed",
    distributions=("deepspeed",),
    module="deepspeed",
    install="pip install deepspeed",
    capabilities=(
        Capability(
            tasks=("train", "finetune"),
            targets=("cuda", "rocm", "npu", "gaudi"),
            executions=("eager",),
            precisions=("bf16", "fp16", "fp32"),
            shardings=("none", "zero1", "zero2", "zero3"),
            data_parallel=True,
            recomputes=("none", "full"),
            offloads=("none", "optimizer", "params"),
            adapters=("none", "lora", "qlora"),
            attentions=("flash", "fused", "math"),
        ),
    ),
)
