"""What Megatron-LM and Megatron-Bridge share: what Megatron-Core can say, and its forms of sharding."""

from __future__ import annotations

from advisor.export._spec import Answer


def parallel_obstacle(answer: Answer) -> str | None:
    """Return what Megatron-Core cannot do of the plan, or None."""
    p = answer.plan
    if not answer.is_training:
        return "Megatron trains; `vllm` and `tensorrt-llm` serve"
    if answer.is_cpu or answer.target in ("tpu", "mps"):
        return f"Megatron needs CUDA or ROCm devices, not {answer.target}"
    if not answer.transformer:
        return f"Megatron trains transformers, {answer.model['name']} has no transformer layers"
    if answer.transformer.get("encoder_layers"):
        return "models with an encoder and a decoder are not written for Megatron"
    if p.precision not in ("bf16", "fp16", "fp8", "fp32", "tf32"):
        return f"Megatron does not train in {p.precision}"
    if p.offload == "params":
        return "Megatron keeps parameters on the device; `deepspeed` and `torchrun` can offload them"
    if p.optimizer == "adam8bit":
        return "Megatron has no 8-bit Adam; `torchrun` has"
    return None


def layers_of(answer: Answer) -> int:
    """Return the layers of one model chunk: of a stage, or of a virtual stage where the pipeline is interleaved."""
    return int(answer.transformer["layers"]) // (answer.plan.pp * answer.plan.vpp)


def sharding_flags(answer: Answer) -> dict[str, str | int | None]:
    """Return the arguments for the plan's sharding and offload (Megatron-Core, distributed optimizer and Megatron-FSDP guides)."""
    p = answer.plan
    ranks = p.dp * p.cp
    flags: dict[str, str | int | None] = {}
    if p.sharding != "none" and ranks > 1:
        flags["use-distributed-optimizer"] = None
    if p.sharding == "zero1" and ranks > 1:
        flags |= {"overlap-grad-reduce": None, "overlap-param-gather": None}
    elif p.sharding in ("zero2", "zero3", "fsdp", "hsdp") and ranks > 1:
        strategy = "optim_grads" if p.sharding == "zero2" else "optim_grads_params"
        flags |= {"use-megatron-fsdp": None, "data-parallel-sharding-strategy": strategy, "ckpt-format": "fsdp_dtensor"}
        flags |= {"no-gradient-accumulation-fusion": None, "init-model-with-meta-device": None}
        if p.sharding == "hsdp":
            flags["num-distributed-optimizer-instances"] = ranks // p.shard_degree
    elif p.sharding == "none" and ranks > 1:
        flags["overlap-grad-reduce"] = None
    if p.offload == "optimizer":
        flags |= {"use-distributed-optimizer": None, "optimizer-cpu-offload": None}
    return flags
