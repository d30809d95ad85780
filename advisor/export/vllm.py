"""vLLM: the YAML of ``vllm serve`` and the command."""

from __future__ import annotations

from typing import Any

from advisor.export import _rules
from advisor.export._known import known
from advisor.export._serving import (
    MEMORY_SHARE,
    cache_dtype,
    engine_obstacle,
    lengths_note,
    sequences,
    tokens_per_step,
    weights,
    weights_note,
)
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import Raw, command, header, read_yaml_mapping, script, shell_words, yaml_text

_TARGETS = "vLLM 0.33"
_FILE = "vllm.yaml"
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32"}
#: Our quantization to the name of vLLM's method; int8 weights are read from the checkpoint's own description.
_QUANTIZATIONS = {"fp8": "fp8", "int4-awq": "awq_marlin", "int4-gptq": "gptq_marlin", "int8": "compressed-tensors", "nf4": "bitsandbytes"}


def obstacle(answer: Answer) -> str | None:
    """Return why vLLM cannot serve the plan, or None."""
    p = answer.plan
    if p.quantization not in ("none", *_QUANTIZATIONS):
        return f"vLLM has no {p.quantization} weights"
    if p.precision not in _DTYPES:
        return f"vLLM computes in bf16, fp16 or fp32, not {p.precision}"
    return engine_obstacle(answer, "vLLM")


def engine(answer: Answer) -> dict[str, Any]:
    """Return the options of the engine, as the YAML has them."""
    p = answer.plan
    options: dict[str, Any] = {
        "model": weights(answer),
        "dtype": _DTYPES[p.precision],
        "tensor-parallel-size": p.tp,
        "pipeline-parallel-size": p.pp,
        "data-parallel-size": p.dp,
        "gpu-memory-utilization": MEMORY_SHARE,
        "max-model-len": answer.seq_len,
        "max-num-seqs": sequences(answer),
        "max-num-batched-tokens": tokens_per_step(answer),
        "kv-cache-dtype": cache_dtype(answer),
    }
    if p.quantization != "none":
        options["quantization"] = _QUANTIZATIONS[p.quantization]
    if p.ep > 1:
        options["enable-expert-parallel"] = True
    if answer.is_cpu or answer.target == "tpu":
        del options["gpu-memory-utilization"]
    if answer.nodes > 1:
        options |= _nodes(answer)
    return options


def _nodes(answer: Answer) -> dict[str, Any]:
    """Return what several nodes need: replicas on their own nodes, or one replica over all through Ray."""
    p = answer.plan
    if p.tp * p.pp <= answer.processes_per_node:
        return {"data-parallel-size-local": answer.processes_per_node // (p.tp * p.pp)}
    return {"distributed-executor-backend": "ray"}


def write(answer: Answer) -> Files:
    """Return vllm.yaml and run.sh."""
    words = ["vllm", "serve", f"--config={_FILE}"]
    notes = [weights_note(answer), lengths_note(answer)]
    if answer.nodes > 1 and "data-parallel-size-local" in engine(answer):
        words.append(Raw('--data-parallel-address="${MASTER_ADDR:?set MASTER_ADDR to the first node}"'))
        words.append(Raw('--data-parallel-start-rank="${START_RANK:-0}"'))
        notes.append(
            "Run it on every node; START_RANK is the number of replicas on the nodes before, and all but the first add --headless."
        )
    elif answer.nodes > 1:
        notes.append(f"Join the {answer.nodes} nodes with `ray start` first, then run it on the head.")
    words.append(Raw('"$@"'))
    text = header(answer, _TARGETS, *notes) + yaml_text(engine(answer))
    return {_FILE: text, "run.sh": script(answer, _TARGETS, f"exec {command(words)}", *notes)}


def check(files: Files, answer: Answer) -> Checked:
    """Check option names and kinds against EngineArgs, values that vLLM checks only at start, and the plan."""
    fields = known("vllm")
    validators = ("YAML parser", fields.title, "our rules")
    found, wrong = read_yaml_mapping(files, _FILE)
    if wrong:
        return Checked(validators=validators[:1], problems=(wrong,))
    problems = [*fields.problems(found), *_values(found, answer)]
    expected = engine(answer)
    sizes = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "max-model-len", "max-num-seqs")
    problems += _rules.differences(found, {name: expected[name] for name in ("dtype", "kv-cache-dtype", *sizes)})
    problems += _rules.differences(found, {name: expected[name] for name in ("quantization", "enable-expert-parallel") if name in expected})
    problems += [f"{name} is given, the plan says no" for name in ("quantization",) if found.get(name) and name not in expected]
    problems += _command(files["run.sh"])
    return Checked(validators=validators, problems=(*problems, *_rules.arithmetic(answer)))


def _values(found: dict[str, Any], answer: Answer) -> list[str]:
    problems = []
    share = found.get("gpu-memory-utilization")
    if isinstance(share, int | float) and not 0 < share <= 1:
        problems.append(f"gpu-memory-utilization is a share of the memory, above 0 and at most 1, not {share}")
    tokens, running = found.get("max-num-batched-tokens"), found.get("max-num-seqs")
    if isinstance(tokens, int) and isinstance(running, int) and tokens < running:
        problems.append(f"max-num-batched-tokens {tokens} is below max-num-seqs {running}")
    heads = answer.transformer.get("heads")
    tp = found.get("tensor-parallel-size")
    if heads and isinstance(tp, int) and tp > 0 and heads % tp:
        problems.append(f"{heads} attention heads cannot be divided by tensor-parallel-size {tp}")
    if found.get("dtype") not in ("auto", "half", "float", *_DTYPES.values()):
        problems.append(f"vLLM has no dtype {found.get('dtype')!r}")
    if not found.get("model"):
        problems.append("model is missing")
    return problems


def _command(text: str) -> list[str]:
    try:
        words = shell_words(text, "vllm")
    except ValueError as error:
        return [f"run.sh: {error}"]
    if words is None or words[1:2] != ["serve"]:
        return ["run.sh does not run `vllm serve`"]
    return [] if f"--config={_FILE}" in words else [f"run.sh does not read {_FILE}"]


EXPORTER = Exporter(name="vllm", title="vLLM serve YAML and command", targets=_TARGETS, obstacle=obstacle, write=write, check=check)
