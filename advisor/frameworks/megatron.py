"""Megatron-LM (Megatron-Core): tensor, pipeline, context and expert parallel training with a distributed optimizer."""

from __future__ import annotations

from dataclasses import replace

from advisor.frameworks._spec import Capability, FrameworkSpec
from advisor.frameworks._training import Traits

#: Megatron-Core: ``--overlap-grad-reduce``, ``--overlap-param-gather``, ``gradient_accumulation_fusion``; it keeps the 16-bit logits and
#: their fp32 copy, and takes the exponential in place (vocab_parallel_cross_entropy).
_CORE = Traits(keeps_gate_product=False, kept_activations_fp8=0.84, logit_kept_bytes=6.0)
#: Megatron-LM as published until 2022: no overlap of exchanges, unfused attention, dropout.
_MEGATRON_2021 = Traits(
    fused_accumulation=False,
    dropout=True,
    # Bias gradients, jitted bias-dropout-add and transposes run as kernels of their own in backward.
    kernels_backward=58.0,
    gradient_bytes_bf16=4.0,
    overlap_gradients=0.0,
    overlap_parameters=0.0,
    logit_passes_bytes=48.0,
    # 16-bit logits, their fp32 copy, the shifted copy and its exponential exist together (vocab_parallel_cross_entropy).
    logit_kept_bytes=14.0,
    gradient_bytes=2.0,
)
_STACKS = {
    # NeMo and Megatron-Bridge in their published best configurations: user buffers, overlapped pipeline and expert exchanges, graphs.
    "megatron-tuned": replace(
        _CORE,
        overlap_tensor=0.7,
        overlap_pipeline=0.8,
        overlap_expert=0.5,
        host_factor=0.5,
        gradient_bytes=2.0,
        stored_weight_bytes_fp8=1.0,
    ),
    "megatron-2021": _MEGATRON_2021,
    # BigScience's fork: Megatron's layers under DeepSpeed's pipeline engine, whose BF16_Optimizer adds up in fp32 beside the 16-bit
    # gradients (deepspeed/runtime/bf16_optimizer.py). It says little of DeepSpeed's own data parallelism.
    "megatron-deepspeed": replace(_MEGATRON_2021, working_gradient_bytes_bf16=2.0, bucket_bytes=2e9, reduces_whole=True),
    # Every exchange waits: the setting of profiling runs.
    "megatron-plain": replace(_CORE, overlap_gradients=0.0, overlap_parameters=0.0, overlap_context=0.0),
    # 3D-parallel code of unstated origin that keeps the vocabulary as it is on one tensor-parallel rank.
    "unnamed-3d": replace(_MEGATRON_2021, pads_vocab=False),
    "nanotron": replace(
        _MEGATRON_2021,
        balanced_by_cost=True,
        gradient_bytes=4.0,
        fusion="eager",
        keeps_gate_product=True,
        kernels_forward=35.0,
        kernels_backward=55.0,
    ),
    # InternEvo configuration guide: gradients are reduced and parameters gathered beside computation.
    "internevo": replace(_MEGATRON_2021, dropout=False, gradient_bytes_bf16=2.0, overlap_gradients=1.0, overlap_parameters=1.0),
    "libai": replace(_MEGATRON_2021, host_factor=0.5),
}

FRAMEWORK = FrameworkSpec(
    name="megatron",
    title="Megatron-LM (Megatron-Core)",
    distributions=("megatron-core",),
    module="megatron.core",
    install="pip install megatron-core",
    training=_CORE,
    stacks=_STACKS,
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
