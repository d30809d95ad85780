"""MaxText: overrides of its base.yml on the command line."""

from __future__ import annotations

from typing import Any

from advisor.export import _rules
from advisor.export._known import known
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import Raw, command, script, shell_words

_TARGETS = "MaxText main of 2026-08"
_PROGRAM = "maxtext.trainers.pre_train.train"
_REMAT = {"none": "minimal_with_context", "selective": "save_qkv_proj", "full": "full"}
_HARDWARE = {"tpu": "tpu", "cuda": "gpu", "rocm": "gpu"}

Overrides = dict[str, str | int | float | bool]


def obstacle(answer: Answer) -> str | None:
    """Return why MaxText cannot say the plan, or None."""
    p = answer.plan
    if not answer.is_training:
        return "the overrides are for training; `vllm` serves"
    if answer.target not in _HARDWARE:
        return f"MaxText trains on TPUs and GPUs, not on {answer.target}"
    if answer.model["kind"] != "decoder" or not answer.transformer:
        return f"MaxText trains decoders, {answer.model['name']} is of the kind {answer.model['kind']}"
    if answer.transformer.get("kv_lora_rank") or not answer.transformer["gated_mlp"]:
        return f"its sizes describe decoders with a gated MLP and plain attention, {answer.model['name']} is not one; `jax` writes a script"
    if p.precision not in ("bf16", "fp32", "fp8"):
        return f"MaxText trains in bf16, fp32 or fp8, not {p.precision}"
    if p.adapter != "none" or p.optimizer not in ("adamw", "sgd"):
        return f"MaxText's pre-training has no {p.adapter if p.adapter != 'none' else p.optimizer}"
    if p.tp * p.pp > answer.processes_per_node and answer.target != "tpu":
        return f"tp {p.tp} · pp {p.pp} is more than the {answer.processes_per_node} devices of a node; write ici and dcn by hand"
    return None


def overrides(answer: Answer) -> Overrides:
    """Return the overrides by name. Data parallelism takes what is left of a node and the nodes; a TPU slice is one ici domain."""
    p, t = answer.plan, answer.transformer
    nodes = 1 if answer.target == "tpu" else answer.nodes
    found: Overrides = {
        "base_emb_dim": t["hidden"],
        "base_num_query_heads": t["heads"],
        "base_num_kv_heads": t["kv_heads"],
        "base_mlp_dim": t["ffn_hidden"],
        "base_num_decoder_layers": t["layers"],
        "head_dim": t["head_dim"],
        "vocab_size": t["vocab"],
        "logits_via_embedding": t["tied_embeddings"],
        "max_target_length": answer.seq_len,
        # Sequences of one step without accumulation, spread over all devices.
        "per_device_batch_size": p.micro_batch * p.dp * (p.grad_accumulation if p.pp > 1 else 1) / p.devices,
        "gradient_accumulation_steps": 1 if p.pp > 1 else p.grad_accumulation,
        "remat_policy": _REMAT[p.recompute],
        "dtype": "float32" if p.precision == "fp32" else "bfloat16",
        "hardware": _HARDWARE[answer.target],
        "dataset_type": "synthetic",
        "steps": 20,
        "opt_type": "sgd" if p.optimizer == "sgd" else "adamw",
        "optimizer_memory_host_offload": p.offload == "optimizer",
        "parameter_memory_host_offload": p.offload == "params",
    }
    if p.precision == "fp8":
        found["quantization"] = "fp8"
    if t["experts"] > 1:
        found |= {"decoder_block": "mixtral", "num_experts": t["experts"], "num_experts_per_tok": t["experts_per_token"]}
        found["base_moe_mlp_dim"] = t.get("moe_ffn_hidden") or t["ffn_hidden"]
    return found | _mesh(answer, nodes)


def _mesh(answer: Answer, nodes: int) -> Overrides:
    p = answer.plan
    expert = p.ep if p.ep > 1 else 1
    # Experts take their ranks from the data-parallel ones in MaxText's mesh.
    data = p.dp // expert if p.dp % expert == 0 else p.dp
    across = nodes if data % nodes == 0 else 1
    inside = data // across
    sharded = p.sharding in ("fsdp", "hsdp", "zero2", "zero3")
    if p.sharding == "hsdp":
        shard = max(1, p.shard_degree // p.cp)
        degrees = {"ici_fsdp_parallelism": min(shard, inside), "ici_data_parallelism": inside // min(shard, inside)}
        degrees |= {"dcn_fsdp_parallelism": max(1, shard // inside), "dcn_data_parallelism": across // max(1, shard // inside)}
    elif sharded:
        degrees = {"ici_fsdp_parallelism": inside, "ici_data_parallelism": 1, "dcn_fsdp_parallelism": across, "dcn_data_parallelism": 1}
    else:
        degrees = {"ici_data_parallelism": inside, "ici_fsdp_parallelism": 1, "dcn_data_parallelism": across, "dcn_fsdp_parallelism": 1}
    degrees |= {"ici_tensor_parallelism": p.tp, "ici_pipeline_parallelism": p.pp, "ici_context_parallelism": p.cp}
    found: Overrides = {**degrees, "ici_expert_parallelism": expert, "shard_optimizer_over_data": p.sharding == "zero1"}
    if p.pp > 1:
        found |= {
            "num_pipeline_microbatches": p.grad_accumulation,
            "num_layers_per_pipeline_stage": answer.transformer["layers"] // (p.pp * p.vpp),
        }
    return found


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def write(answer: Answer) -> Files:
    """Return run.sh."""
    words = ["python3", "-m", _PROGRAM, Raw('"${MAXTEXT:?set MAXTEXT to your checkout of MaxText}/src/maxtext/configs/base.yml"')]
    words += [Raw(f'run_name="${{RUN_NAME:-plan-{answer.plan_id}}}"'), Raw('base_output_directory="${OUTPUT:-/tmp/maxtext}"')]
    words += [f"{name}={_word(value)}" for name, value in overrides(answer).items()]
    words.append(Raw('"$@"'))
    notes = ["Trains on synthetic data: set dataset_type and its options for yours."]
    if answer.nodes > 1:
        notes.append(f"Run it on each of the {answer.nodes} nodes.")
    memory = "" if answer.target == "tpu" else 'export XLA_PYTHON_CLIENT_MEM_FRACTION="${XLA_PYTHON_CLIENT_MEM_FRACTION:-0.92}"\n'
    return {"run.sh": script(answer, _TARGETS, f"{memory}exec {command(words)}", *notes)}


def check(files: Files, answer: Answer) -> Checked:
    """Check names and kinds against base.yml, the product of the mesh, and the plan."""
    keys = known("maxtext")
    validators = (keys.title, "our rules")
    try:
        words = shell_words(files["run.sh"], "python3")
    except ValueError as error:
        return Checked(validators=validators, problems=(f"run.sh: {error}",))
    if words is None or _PROGRAM not in words:
        return Checked(validators=validators, problems=(f"run.sh does not run {_PROGRAM}",))
    pairs = [word.partition("=") for word in words if "=" in word and not word.startswith("-") and "${MAXTEXT" not in word]
    found = {name: _value(text) for name, _, text in pairs}
    numbers = {name: float(v) if keys.keys.get(name) == "float" and isinstance(v, int) else v for name, v in found.items()}
    problems = keys.problems(numbers)
    product = 1
    for name, value in found.items():
        if name.endswith("_parallelism") and isinstance(value, int) and not isinstance(value, bool):
            product *= value
    if product != answer.plan.devices:
        problems.append(f"the parallelisms multiply to {product}, the plan has {answer.plan.devices} devices")
    free = {"steps", "dataset_type"}
    problems += _rules.differences(found, {name: value for name, value in overrides(answer).items() if name not in free})
    return Checked(validators=validators, problems=(*problems, *_rules.arithmetic(answer)))


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


EXPORTER = Exporter(name="maxtext", title="MaxText overrides", targets=_TARGETS, obstacle=obstacle, write=write, check=check)
