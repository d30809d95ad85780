"""DeepSpeed's configuration for a plan, as ``deepspeed`` and ``accelerate`` write it."""

from __future__ import annotations

from typing import Any

from advisor.export._spec import Answer

_STAGES = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3, "hsdp": 3}


def obstacle(answer: Answer) -> str | None:
    """Return why DeepSpeed cannot run the plan, or None."""
    p = answer.plan
    if not answer.is_training:
        return "the configuration is for training; `vllm` and `tensorrt-llm` serve"
    split = [f"{name} {getattr(p, name)}" for name in ("tp", "pp", "cp", "ep") if getattr(p, name) > 1]
    if split:
        return f"the configuration says data parallelism only, the plan has {', '.join(split)}; `megatron` can say them"
    if p.precision not in ("bf16", "fp16", "fp32", "tf32"):
        return f"DeepSpeed's configuration has no {p.precision}; `megatron` has"
    if p.offload == "params" and _STAGES[p.sharding] != 3:
        return "parameters can be offloaded only with ZeRO stage 3"
    if answer.target in ("tpu", "mps"):
        return f"DeepSpeed does not run on {answer.target}"
    return None


def stage_of(answer: Answer) -> int:
    """Return the ZeRO stage: 0 to 3; offload of the optimizer needs at least 1."""
    stage = _STAGES[answer.plan.sharding]
    return max(stage, 1) if answer.plan.offload == "optimizer" else stage


def config(answer: Answer) -> dict[str, Any]:
    """Return the configuration object."""
    p = answer.plan
    document: dict[str, Any] = {
        "train_batch_size": p.global_batch,
        "train_micro_batch_size_per_gpu": p.micro_batch,
        "gradient_accumulation_steps": p.grad_accumulation,
        "gradient_clipping": 1.0,
        "steps_per_print": 10,
    }
    if p.precision == "bf16":
        document["bf16"] = {"enabled": True}
    elif p.precision == "fp16":
        # From 2^16, doubled after 2000 steps without overflow, as torch.amp.GradScaler does.
        document["fp16"] = {"enabled": True, "loss_scale": 0, "initial_scale_power": 16, "loss_scale_window": 2000}
    document["zero_optimization"] = zero(answer)
    if p.recompute != "none":
        document["activation_checkpointing"] = {"partition_activations": False, "contiguous_memory_optimization": False}
    return document


def zero(answer: Answer) -> dict[str, Any]:
    """Return the ``zero_optimization`` object; bucket sizes h·h, 0.9·h·h and 10·h as the Hugging Face integration sets them."""
    stage = stage_of(answer)
    found: dict[str, Any] = {"stage": stage}
    if stage == 0:
        return found
    found |= {"overlap_comm": True, "contiguous_gradients": True}
    hidden = int(answer.transformer.get("hidden") or 0)
    if hidden:
        found["reduce_bucket_size"] = hidden * hidden
    if stage == 3:
        if hidden:
            found |= {"stage3_prefetch_bucket_size": int(0.9 * hidden * hidden), "stage3_param_persistence_threshold": 10 * hidden}
        found["stage3_gather_16bit_weights_on_model_save"] = True
        if answer.plan.sharding == "hsdp":
            found["mics_shard_size"] = answer.plan.shard_degree
    if answer.plan.offload in ("optimizer", "params"):
        found["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if answer.plan.offload == "params":
        found["offload_param"] = {"device": "cpu", "pin_memory": True}
    return found


def world_problems(document: dict[str, Any], answer: Answer) -> list[str]:
    """Return what DeepSpeed's parser lets pass or cannot see without the processes: batch arithmetic, precisions, group sizes."""
    world = answer.plan.devices
    batch, micro, steps = (document.get(k) for k in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"))
    problems = []
    if all(isinstance(n, int) for n in (batch, micro, steps)) and batch != micro * steps * world:  # type: ignore[operator]
        problems.append(f"train_batch_size {batch} is not micro-batch {micro} · accumulation {steps} · {world} processes")
    on = [name for name in ("bf16", "fp16") if isinstance(document.get(name), dict) and document[name].get("enabled")]
    if len(on) > 1:
        problems.append("bf16 and fp16 exclude each other")
    given = document.get("zero_optimization")
    zero_given = given if isinstance(given, dict) else {}
    if zero_given.get("stage") not in (0, 1, 2, 3):
        problems.append(f"zero_optimization.stage is 0, 1, 2 or 3, not {zero_given.get('stage')!r}")
    for name in ("zero_hpz_partition_size", "mics_shard_size"):
        size = zero_given.get(name)
        if isinstance(size, int) and size > 0 and world % size:
            problems.append(f"{name} {size} does not divide the {world} processes")
    for name in ("offload_optimizer", "offload_param"):
        part = zero_given.get(name)
        if isinstance(part, dict) and part.get("device") not in ("cpu", "nvme", "none"):
            problems.append(f"{name}.device is cpu, nvme or none, not {part.get('device')!r}")
    optimizer = document.get("optimizer")
    if isinstance(optimizer, dict) and str(optimizer.get("type")).lower() not in OPTIMIZERS:
        problems.append(f"DeepSpeed has no optimizer {optimizer.get('type')!r}")
    return problems


#: deepspeed/runtime/config.py, DEEPSPEED_OPTIMIZERS, and torch's SGD.
OPTIMIZERS = {
    "adagrad",
    "adam",
    "adamw",
    "lamb",
    "onebitadam",
    "onebitlamb",
    "lion",
    "zerooneadam",
    "muadam",
    "muadamw",
    "musgd",
    "muon",
    "sgd",
}
