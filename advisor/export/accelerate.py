"""Hugging Face Accelerate: its YAML for FSDP2, DeepSpeed, DDP or one device."""

from __future__ import annotations

from typing import Any

from advisor.export import _deepspeed, _rules
from advisor.export._known import known
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import Raw, command, header, options, read_yaml_mapping, script, shell_words, yaml_text

_TARGETS = "Accelerate 1.10 to 1.15"
_FILE = "accelerate.yaml"
_PRECISIONS = ("no", "fp16", "bf16", "fp8")
_TYPES = ("NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_XPU", "MULTI_HPU", "FSDP", "DEEPSPEED", "MEGATRON_LM", "TPU", "XLA")

#: The transformer layer class that Hugging Face Transformers wraps, by our family.
_LAYERS = {
    "gpt": "GPT2Block", "opt": "OPTDecoderLayer", "neox": "GPTNeoXLayer", "llama": "LlamaDecoderLayer", "mistral": "MistralDecoderLayer",
    "falcon": "FalconDecoderLayer", "bert": "BertLayer", "phi": "PhiDecoderLayer", "t5": "T5Block", "mamba": "MambaBlock",
    "vit": "ViTLayer",
}  # fmt: skip


def obstacle(answer: Answer) -> str | None:
    """Return why Accelerate cannot launch the plan, or None."""
    p = answer.plan
    if not answer.is_training:
        return "Accelerate launches training; `vllm` and `torchrun` answer requests"
    if answer.target in ("tpu", "neuron"):
        return f"FSDP2 and DeepSpeed do not run on {answer.target}; `jax` and `maxtext` do on TPUs"
    if p.pp > 1 or p.ep > 1:
        return f"its configuration has no pipeline or expert parallelism (pp {p.pp}, ep {p.ep}); `megatron` has"
    if p.sharding.startswith("zero") or p.offload == "optimizer":
        return _deepspeed.obstacle(answer)
    if p.tp * p.cp > 1 and p.sharding == "none":
        return f"tp {p.tp} and cp {p.cp} need FSDP2 in Accelerate, the plan does not shard"
    if p.precision not in ("bf16", "fp16", "fp32", "tf32"):
        return f"Accelerate's {p.precision} needs a backend of its own (fp8_config); `megatron` writes it"
    if p.offload == "params" and p.sharding == "none":
        return "parameters can be offloaded only with FSDP or ZeRO stage 3"
    return None


def _kind(answer: Answer) -> str:
    p = answer.plan
    if p.sharding.startswith("zero") or p.offload == "optimizer":
        return "DEEPSPEED"
    if p.devices == 1:
        return "NO"
    if p.sharding != "none":
        return "FSDP"
    return {"xpu": "MULTI_XPU", "npu": "MULTI_NPU", "gaudi": "MULTI_HPU"}.get(answer.target, "MULTI_CPU" if answer.is_cpu else "MULTI_GPU")


def config(answer: Answer) -> dict[str, Any]:
    """Return the configuration file as a document."""
    p, kind = answer.plan, _kind(answer)
    document: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "mixed_precision": p.precision if p.precision in ("bf16", "fp16") else "no",
        "num_machines": answer.nodes,
        "num_processes": p.devices,
        "machine_rank": 0,
        "rdzv_backend": "static" if answer.nodes == 1 else "c10d",
        "same_network": True,
        "main_training_function": "main",
        "use_cpu": answer.is_cpu,
    }
    if kind == "FSDP":
        document["fsdp_config"] = _fsdp(answer)
        if p.sharding == "hsdp" or p.tp * p.cp > 1:
            document["parallelism_config"] = _parallelism(answer)
    if kind == "DEEPSPEED":
        document["deepspeed_config"] = {"deepspeed_config_file": "ds_config.json", "zero3_init_flag": _deepspeed.stage_of(answer) == 3}
    if p.execution == "compile":
        document["dynamo_config"] = {"dynamo_backend": "INDUCTOR"}
    return document


def _fsdp(answer: Answer) -> dict[str, Any]:
    layer = _LAYERS.get(answer.model["family"])
    named = {"fsdp_transformer_layer_cls_to_wrap": layer} if layer else {}
    return {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": True,
        # Without a class name Accelerate takes the model's own _no_split_modules.
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        **named,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_offload_params": answer.plan.offload == "params",
        "fsdp_activation_checkpointing": answer.plan.recompute == "full",
    }


def _parallelism(answer: Answer) -> dict[str, Any]:
    p = answer.plan
    # The plan's shards run over dp·cp ranks; Accelerate counts cp apart.
    shard = max(1, p.shard_degree // p.cp)
    sizes = {"dp_replicate": p.dp // shard, "dp_shard": shard, "tp": p.tp, "cp": p.cp}
    return {f"parallelism_config_{name}_size": size for name, size in sizes.items()}


def write(answer: Answer) -> Files:
    """Return accelerate.yaml, run.sh and, where DeepSpeed is used, its JSON."""
    from advisor.export._text import json_text

    words = ["accelerate", "launch", f"--config_file={_FILE}"]
    if answer.nodes > 1:
        words += [Raw('--machine_rank="${NODE_RANK:?set NODE_RANK to 0 … on each node}"')]
        words += [
            Raw('--main_process_ip="${MASTER_ADDR:?set MASTER_ADDR to the first node}"'),
            Raw('--main_process_port="${MASTER_PORT:-29500}"'),
        ]
    words += [Raw('"${SCRIPT:-train.py}"'), Raw('"$@"')]
    p = answer.plan
    notes = [f"SCRIPT uses micro-batches of {p.micro_batch} and {p.grad_accumulation} accumulation steps (global batch {p.global_batch})."]
    if p.adapter != "none":
        notes.append(f"The script adds the {p.adapter} adapter (rank {p.adapter_rank}), as Hugging Face PEFT does.")
    if p.recompute != "none" and not (_kind(answer) == "FSDP" and p.recompute == "full"):
        notes.append(f"{p.recompute.capitalize()} activation checkpointing is the script's: gradient_checkpointing_enable().")
    files = {_FILE: header(answer, _TARGETS, *notes) + yaml_text(config(answer))}
    files["run.sh"] = script(answer, _TARGETS, f"exec {command(words)}", *notes)
    if _kind(answer) == "DEEPSPEED":
        files["ds_config.json"] = json_text(_deepspeed.config(answer))
    return files


def check(files: Files, answer: Answer) -> Checked:
    """Check the YAML: known keys and values at every level, world size and parallel sizes, and the plan."""
    keys = known("accelerate")
    validators = ("YAML parser", keys.title, "our rules")
    document, wrong = read_yaml_mapping(files, _FILE)
    if wrong:
        return Checked(validators=validators[:1], problems=(wrong,))
    found = keys.flat(document)
    problems = [*keys.problems(found), *_values(found, answer)]
    expected = keys.flat(config(answer))
    free = {"machine_rank", "rdzv_backend", "same_network", "main_training_function"}
    problems += _rules.differences(found, {name: value for name, value in expected.items() if name not in free})
    problems += _launch(files["run.sh"])
    if _kind(answer) == "DEEPSPEED":
        from advisor.export.deepspeed import check as check_deepspeed
        from advisor.export.deepspeed import write as write_deepspeed

        inner = check_deepspeed({**write_deepspeed(answer), "ds_config.json": files["ds_config.json"]}, answer)
        problems += [f"ds_config.json: {text}" for text in inner.problems]
        validators = (*validators, *inner.validators[:2])
    return Checked(validators=validators, problems=tuple(dict.fromkeys([*problems, *_rules.arithmetic(answer)])))


def _values(found: dict[str, Any], answer: Answer) -> list[str]:
    problems = []
    if found.get("mixed_precision") not in _PRECISIONS:
        problems.append(f"mixed_precision is one of {', '.join(_PRECISIONS)}, not {found.get('mixed_precision')!r}")
    if found.get("distributed_type") not in _TYPES:
        problems.append(f"Accelerate has no distributed_type {found.get('distributed_type')!r}")
    sizes = [v for k, v in found.items() if k.startswith("parallelism_config.") and k.endswith("_size") and isinstance(v, int)]
    product = 1
    for size in sizes:
        product *= size
    if sizes and product != found.get("num_processes"):
        problems.append(f"the sizes of parallelism_config multiply to {product}, num_processes is {found.get('num_processes')}")
    if found.get("fsdp_config.fsdp_version") == 2 and "fsdp_config.fsdp_sharding_strategy" in found:
        problems.append("fsdp_sharding_strategy is FSDP1's; FSDP2 has fsdp_reshard_after_forward")
    return problems


def _launch(text: str) -> list[str]:
    try:
        words = shell_words(text, "accelerate")
    except ValueError as error:
        return [f"run.sh: {error}"]
    if words is None or words[1:2] != ["launch"]:
        return ["run.sh does not run `accelerate launch`"]
    given = options([word for word in words if word.startswith("--")])
    return [f"run.sh: {text}" for text in _rules.differences(given, {"--config_file": _FILE})]


EXPORTER = Exporter(
    name="accelerate", title="Accelerate YAML (FSDP2, DeepSpeed, DDP)", targets=_TARGETS, obstacle=obstacle, write=write, check=check
)
