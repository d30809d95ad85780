"""DeepSpeed: ZeRO stages 1 to 3 with offload of optimizer or parameters to the host."""

from __future__ import annotations

from dataclasses import replace

from advisor.frameworks._spec import Capability, FrameworkSpec
from advisor.frameworks._training import Traits
from advisor.frameworks.megatron import MEGATRON_2021

#: ZeRO adds gradients up in the weights' precision unless ``data_types.grad_accum_dtype`` says otherwise (``get_data_types`` in
#: runtime/engine.py); stages 2 and 3 free the whole gradient once a bucket of 5e8 elements is reduced to the rank's own part.
_DEEPSPEED = Traits(
    dropout=True,
    fusion="eager",
    bucket_bytes=2e9,
    overlap_gradients=1.0,
    overlap_parameters=1.0,
    gradient_bytes=2.0,
    logit_passes_bytes=48.0,
    kernels_forward=40.0,
    kernels_backward=60.0,
)
#: BigScience's fork of Megatron-DeepSpeed: Megatron's layers under DeepSpeed's pipeline engine, whose BF16_Optimizer adds up in fp32 beside
#: the 16-bit gradients (runtime/bf16_optimizer.py).
_STACKS = {"megatron-deepspeed": replace(MEGATRON_2021, working_gradient_bytes_bf16=2.0, bucket_bytes=2e9, reduces_whole=True)}

FRAMEWORK = FrameworkSpec(
    name="deepspeed",
    title="DeepSpeed",
    distributions=("deepspeed",),
    module="deepspeed",
    install="pip install deepspeed",
    training=_DEEPSPEED,
    stacks=_STACKS,
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
