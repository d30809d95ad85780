"""Megatron-Bridge: overrides of a recipe that starts from Megatron-Core's own defaults."""

from __future__ import annotations

from typing import Any

from advisor.export import _rules
from advisor.export._known import known
from advisor.export._launch import check_torchrun, launch_notes, torchrun_words
from advisor.export._megatron import parallel_obstacle, sharding_flags
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import Raw, command, script

_TARGETS = "Megatron-Bridge main of 2026-08 (067f987d)"
_PROGRAM = "scripts/training/run_recipe.py"
#: The recipe that leaves every size at Megatron-Core's default, for any decoder.
_RECIPE = "vanilla_gpt_pretrain_config"
_PRECISIONS = {"bf16": "bf16_mixed", "fp16": "fp16_mixed", "fp8": "bf16_with_fp8_delayed_scaling_mixed"}

#: Which part of the configuration holds an argument of Megatron-LM's distributed optimizer.
_PARTS = {
    "use-distributed-optimizer": "ddp", "overlap-grad-reduce": "ddp", "overlap-param-gather": "ddp", "use-megatron-fsdp": "ddp",
    "data-parallel-sharding-strategy": "ddp", "num-distributed-optimizer-instances": "ddp", "optimizer-cpu-offload": "optimizer",
    "ckpt-format": "checkpoint", "init-model-with-meta-device": "model",
}  # fmt: skip

Overrides = dict[str, str | int | bool | float]


def obstacle(answer: Answer) -> str | None:
    """Return why the recipe cannot say the plan, or None."""
    if answer.model["kind"] != "decoder":
        return f"its recipes train decoders, {answer.model['name']} is of the kind {answer.model['kind']}"
    if answer.plan.adapter != "none":
        return "adapters need the recipe of the model itself (--mode lora), and none fits every size; `accelerate` can say it"
    if answer.transformer.get("kv_lora_rank"):
        return "the plain recipe has no latent attention; `megatron` has"
    if answer.plan.precision not in _PRECISIONS:
        return f"its recipes train in mixed precision, not {answer.plan.precision}; `megatron` does"
    return parallel_obstacle(answer)


def _sizes(answer: Answer) -> Overrides:
    t, p = answer.transformer, answer.plan
    found: Overrides = {
        "num_layers": t["layers"],
        "hidden_size": t["hidden"],
        "ffn_hidden_size": t["ffn_hidden"],
        "num_attention_heads": t["heads"],
        "num_query_groups": t["kv_heads"],
        "kv_channels": t["head_dim"],
        "vocab_size": -(-t["vocab"] // (128 * p.tp)) * 128 * p.tp,
        "normalization": "RMSNorm" if t["norm"] == "rmsnorm" else "LayerNorm",
        "add_bias_linear": t["norm"] == "layernorm",
        "share_embeddings_and_output_weights": t["tied_embeddings"],
        "position_embedding_type": "learned_absolute" if t["learned_positions"] else "rope",
        "gated_linear_unit": t["gated_mlp"],
        "activation_func": "silu" if t["gated_mlp"] else "gelu",
    }
    if t["experts"] > 1:
        found |= {"num_moe_experts": t["experts"], "moe_router_topk": t["experts_per_token"], "moe_grouped_gemm": True}
        found |= {"moe_ffn_hidden_size": t.get("moe_ffn_hidden") or t["ffn_hidden"], "moe_token_dispatcher_type": "alltoall"}
        found["expert_model_parallel_size"] = p.ep
        if t.get("shared_experts"):
            found["moe_shared_expert_intermediate_size"] = t["shared_experts"] * (t.get("moe_ffn_hidden") or t["ffn_hidden"])
        if t.get("dense_layers"):
            found["moe_layer_freq"] = f"[0]*{t['dense_layers']}+[1]*{t['layers'] - t['dense_layers']}"
    return found


def overrides(answer: Answer) -> Overrides:
    """Return the overrides of the plan by dotted name."""
    p = answer.plan
    model = _sizes(answer) | {
        "tensor_model_parallel_size": p.tp,
        "pipeline_model_parallel_size": p.pp,
        "context_parallel_size": p.cp,
        "sequence_parallel": p.sequence_parallel,
    }
    if p.vpp > 1:
        model["virtual_pipeline_model_parallel_size"] = p.vpp
    if p.recompute == "full":
        model |= {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    elif p.recompute == "selective":
        model["recompute_granularity"] = "selective"
    found: Overrides = {f"model.{name}": value for name, value in model.items()}
    found |= {"train.micro_batch_size": p.micro_batch, "train.global_batch_size": p.global_batch, "train.train_iters": 100}
    found |= {"dataset.seq_length": answer.seq_len, "mixed_precision": _PRECISIONS[p.precision]}
    for name, value in sharding_flags(answer).items():
        if name == "no-gradient-accumulation-fusion":
            found["model.gradient_accumulation_fusion"] = False
        else:
            found[f"{_PARTS[name]}.{name.replace('-', '_')}"] = True if value is None else value
    return found


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def write(answer: Answer) -> Files:
    """Return run.sh."""
    words = [*torchrun_words(answer), _PROGRAM, f"--recipe={_RECIPE}", "--mode=pretrain", "--dataset=mock"]
    words += [f"{name}={_word(value)}" for name, value in overrides(answer).items()]
    words.append(Raw('"$@"'))
    body = f'cd "${{MEGATRON_BRIDGE:?set MEGATRON_BRIDGE to your checkout of Megatron-Bridge}}"\nexec {command(words)}'
    return {"run.sh": script(answer, _TARGETS, body, "Trains on mock data: name your data set with --dataset.", *launch_notes(answer))}


def _parsed(words: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if equals and not name.startswith("-"):
            found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def check(files: Files, answer: Answer) -> Checked:
    """Check override names and kinds against the configuration classes, and the values against the plan."""
    words, validators, problems = check_torchrun(files["run.sh"], answer, _PROGRAM)
    fields = known("megatron-bridge")
    if words:
        found = _parsed(words)
        problems += fields.problems(found)
        free = {"train.train_iters", "model.moe_token_dispatcher_type"}
        problems += _rules.differences(found, {name: value for name, value in overrides(answer).items() if name not in free})
        if not any(word.startswith(("--recipe", "--model")) for word in words):
            problems.append("run.sh names no recipe")
    return Checked(validators=(*validators, fields.title, "our rules"), problems=(*problems, *_rules.arithmetic(answer)))


EXPORTER = Exporter(
    name="megatron-bridge", title="Megatron-Bridge recipe overrides", targets=_TARGETS, obstacle=obstacle, write=write, check=check
)
