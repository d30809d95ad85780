"""Megatron-LM: the arguments of pretrain_gpt.py or pretrain_bert.py as a script."""

from __future__ import annotations

from advisor.export import _rules
from advisor.export._known import known
from advisor.export._launch import check_torchrun, launch_notes, torchrun_words
from advisor.export._megatron import layers_of, parallel_obstacle, sharding_flags
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import Raw, command, options, script

_TARGETS = "Megatron-LM main of 2026-08 (d98e8a64)"
_PROGRAMS = {"decoder": "pretrain_gpt.py", "encoder": "pretrain_bert.py"}
_ATTENTION = {"flash": "flash", "fused": "fused", "math": "unfused"}

Flags = dict[str, str | int | None]


def obstacle(answer: Answer) -> str | None:
    """Return why Megatron-LM cannot run the plan, or None."""
    if answer.model["kind"] not in _PROGRAMS:
        return f"its launch scripts train decoders and encoders, {answer.model['name']} is of the kind {answer.model['kind']}"
    if answer.plan.adapter != "none":
        return "Megatron-LM trains whole models; `megatron-bridge` trains adapters"
    return parallel_obstacle(answer)


def _sizes(answer: Answer) -> Flags:
    t = answer.transformer
    flags: Flags = {
        "num-layers": t["layers"],
        "hidden-size": t["hidden"],
        "ffn-hidden-size": t["ffn_hidden"],
        "num-attention-heads": t["heads"],
        "seq-length": answer.seq_len,
        "max-position-embeddings": max(t["max_seq"], answer.seq_len) if t["learned_positions"] else answer.seq_len,
        "position-embedding-type": "learned_absolute" if t["learned_positions"] else "rope",
        "normalization": "RMSNorm" if t["norm"] == "rmsnorm" else "LayerNorm",
        "tokenizer-type": "NullTokenizer",
        "vocab-size": t["vocab"],
        "make-vocab-size-divisible-by": 128,
    }
    if t["head_dim"] * t["heads"] != t["hidden"]:
        flags["kv-channels"] = t["head_dim"]
    if t["kv_heads"] != t["heads"] and not t.get("kv_lora_rank"):
        flags |= {"group-query-attention": None, "num-query-groups": t["kv_heads"]}
    flags |= {"swiglu": None} if t["gated_mlp"] else {}
    flags |= {"disable-bias-linear": None} if t["norm"] == "rmsnorm" else {}
    flags |= {} if t["tied_embeddings"] else {"untie-embeddings-and-output-weights": None}
    if t.get("window") and t["window"] < answer.seq_len:
        flags["window-size"] = f"({t['window'] - 1},0)"
    return flags | _latent(answer) | _experts(answer)


def _latent(answer: Answer) -> Flags:
    t = answer.transformer
    if not t.get("kv_lora_rank"):
        return {}
    flags: Flags = {"multi-latent-attention": None, "kv-lora-rank": t["kv_lora_rank"]}
    if t.get("q_lora_rank"):
        flags["q-lora-rank"] = t["q_lora_rank"]
    rope = int(t.get("rope_head_dim") or 0)
    # Our head size counts the rotary part; Megatron's qk-head-dim is the part without it.
    return flags | {
        "qk-head-dim": t["head_dim"] - rope,
        "qk-pos-emb-head-dim": rope,
        "v-head-dim": t.get("value_head_dim") or t["head_dim"],
    }


def _experts(answer: Answer) -> Flags:
    t = answer.transformer
    if t["experts"] <= 1:
        return {}
    width = t.get("moe_ffn_hidden") or t["ffn_hidden"]
    flags: Flags = {"num-experts": t["experts"], "moe-router-topk": t["experts_per_token"], "moe-ffn-hidden-size": width}
    flags |= {"moe-grouped-gemm": None, "moe-token-dispatcher-type": "alltoall", "expert-model-parallel-size": answer.plan.ep}
    if t.get("shared_experts"):
        flags["moe-shared-expert-intermediate-size"] = t["shared_experts"] * width
    if t.get("dense_layers"):
        flags["moe-layer-freq"] = f"([0]*{t['dense_layers']}+[1]*{t['layers'] - t['dense_layers']})"
    return flags


def _parallel(answer: Answer) -> Flags:
    p = answer.plan
    flags: Flags = {
        "tensor-model-parallel-size": p.tp,
        "pipeline-model-parallel-size": p.pp,
        "context-parallel-size": p.cp,
        "micro-batch-size": p.micro_batch,
        "global-batch-size": p.global_batch,
    }
    if p.vpp > 1:
        flags["num-layers-per-virtual-pipeline-stage"] = layers_of(answer)
    flags |= {"sequence-parallel": None} if p.sequence_parallel else {}
    return flags | sharding_flags(answer)


def _precision(answer: Answer) -> Flags:
    return {
        "bf16": {"bf16": None},
        # Loss scaling of torch.amp.GradScaler's defaults; Megatron's own start of 2^32 loses the first twenty steps.
        "fp16": {"fp16": None, "initial-loss-scale": 65536, "loss-scale-window": 2000},
        "fp8": {"bf16": None, "fp8-format": "hybrid"},
    }.get(answer.plan.precision, {})  # type: ignore[return-value]


def flags_of(answer: Answer) -> Flags:
    """Return every argument of the plan, without dashes; None for a flag without a value."""
    p = answer.plan
    flags = _sizes(answer) | _parallel(answer) | _precision(answer)
    if p.recompute == "full":
        flags |= {"recompute-granularity": "full", "recompute-method": "uniform", "recompute-num-layers": 1}
    elif p.recompute == "selective":
        flags |= {"recompute-granularity": "selective"}
    flags |= {"attention-backend": _ATTENTION.get(p.attention, "auto"), "transformer-impl": "transformer_engine"}
    flags |= {"optimizer": "sgd" if p.optimizer == "sgd" else "adam", "lr": "3e-4", "clip-grad": "1.0", "weight-decay": "0.1"}
    return flags | {"train-iters": 100, "mock-data": None}


def write(answer: Answer) -> Files:
    """Return run.sh."""
    program = _PROGRAMS[answer.model["kind"]]
    words = [*torchrun_words(answer), program]
    for name, value in flags_of(answer).items():
        words.append(f"--{name}" if value is None else f"--{name}={value}")
    # Without one queue, communication of tensor parallelism does not overlap as it should (Megatron-LM's own launch scripts).
    one_queue = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" if answer.plan.tp > 1 and "use-megatron-fsdp" not in flags_of(answer) else ""
    words.append(Raw('"$@"'))
    body = f'cd "${{MEGATRON:?set MEGATRON to your checkout of Megatron-LM}}"\n{one_queue}exec {command(words)}'
    note = "Trains on mock data: put --data-path, --tokenizer-type and your --save in the place of --mock-data."
    return {"run.sh": script(answer, _TARGETS, body, note, *launch_notes(answer))}


def check(files: Files, answer: Answer) -> Checked:
    """Check names against the flags of that Megatron-LM, its arithmetic, and the plan."""
    words, validators, problems = check_torchrun(files["run.sh"], answer, _PROGRAMS[answer.model["kind"]])
    flags = known("megatron")
    if words:
        found = {name[2:]: value for name, value in options([w for w in words if w != "$@"]).items()}
        problems += flags.problems(found)
        expected = flags_of(answer)
        problems += _rules.differences(found, {name: value for name, value in expected.items() if name in _FROM_PLAN})
        problems += [f"{name} is given, the plan says no" for name in sorted(_SWITCHES & found.keys() - expected.keys())]
        problems += _arithmetic(found, answer)
    return Checked(validators=(*validators, flags.title, "our rules"), problems=(*problems, *_rules.arithmetic(answer)))


_SWITCHES = {"bf16", "fp16", "fp8-format", "sequence-parallel", "use-distributed-optimizer", "use-megatron-fsdp", "recompute-granularity"}
_FROM_PLAN = _SWITCHES | {
    "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "num-query-groups", "seq-length", "micro-batch-size",
    "global-batch-size", "tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size",
    "num-layers-per-virtual-pipeline-stage", "expert-model-parallel-size", "num-experts", "data-parallel-sharding-strategy",
    "num-distributed-optimizer-instances", "optimizer-cpu-offload", "vocab-size",
}  # fmt: skip


def _arithmetic(found: dict[str, str | None], answer: Answer) -> list[str]:
    """Return what Megatron's own start would refuse, from the numbers in the file."""

    def number(name: str, default: int = 1) -> int:
        value = found.get(name) or ""
        return int(value) if value.isdigit() and int(value) > 0 else default

    tp, pp, cp = (number(f"{n}-parallel-size") for n in ("tensor-model", "pipeline-model", "context"))
    problems = []
    if answer.plan.devices % (tp * pp * cp):
        problems.append(f"tp {tp} · pp {pp} · cp {cp} does not divide the {answer.plan.devices} processes")
    data = max(1, answer.plan.devices // (tp * pp * cp))
    if number("global-batch-size") % (number("micro-batch-size") * data):
        problems.append(f"the global batch is not a multiple of micro-batch {number('micro-batch-size')} · dp {data}")
    if number("num-layers") % pp:
        problems.append(f"{number('num-layers')} layers cannot be divided by pp {pp}")
    heads = [name for name in ("num-attention-heads", "num-query-groups") if number(name, tp) % tp]
    problems += [f"{name} {number(name)} cannot be divided by tp {tp}" for name in heads]
    if "sequence-parallel" in found and tp == 1:
        problems.append("sequence-parallel needs tp above 1")
    if number("seq-length", 2 * cp) % (2 * cp if cp > 1 else 1):
        problems.append(f"a sequence of {number('seq-length')} cannot be divided into {cp} balanced parts")
    if "bf16" in found and "fp16" in found:
        problems.append("bf16 and fp16 exclude each other")
    return problems


EXPORTER = Exporter(name="megatron", title="Megatron-LM arguments", targets=_TARGETS, obstacle=obstacle, write=write, check=check)
