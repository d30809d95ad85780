"""DeepSpeed: ZeRO stages 1 to 3 with offload of optimizer or parameters to the host."""

from __future__ import annotations

from advisor.frameworks._spec import Capability, FrameworkSpec
from advisor.frameworks._training import Traits

#: ZeRO adds gradients up in the weights' precision unless ``data_types.grad_accum_dtype`` says otherwise (``get_data_types`` in
#: runtime/engine.py); stages 2 and 3 free the whole gradient once a bucket of 5e8 elements is reduced to the rank's own part, which they
#: do in every micro-batch. Gradients are copied into the bucket, not added up by the product. The model is the user's own, as under FSDP:
#: its vocabulary is not padded, and its loss keeps what torch's does. Under stages 1 and 2 the step ends with the gathering of all updated
#: weights (``all_gather_dp_groups`` in runtime/zero/stage_1_and_2.py).
_DEEPSPEED = Traits(
    dropout=True,
    fusion="eager",
    bucket_bytes=2e9,
    fused_accumulation=False,
    reduces_each_micro_batch=True,
    waits_for_update=True,
    overlap_gradients=1.0,
    overlap_parameters=1.0,
    gradient_bytes=2.0,
    pads_vocab=False,
    logit_passes_bytes=48.0,
    logit_kept_bytes=12.0,
    kernels_forward=40.0,
    kernels_backward=60.0,
)

FRAMEWORK = FrameworkSpec(
    name="deepspeed",
    title="DeepSpeed",
    distributions=("deepspeed",),
    module="deepspeed",
    install="pip install deepspeed",
    training=_DEEPSPEED,
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
