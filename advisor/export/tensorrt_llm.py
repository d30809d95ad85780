"""TensorRT-LLM: the YAML of ``trtllm-serve`` and a script that starts one server a replica."""

from __future__ import annotations

import shlex
from typing import Any

from advisor.export import _rules
from advisor.export._known import known
from advisor.export._serving import cache_dtype, engine_obstacle, lengths_note, sequences, tokens_per_step, weights, weights_note
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import header, read_yaml_mapping, script, shell_words, yaml_text

_TARGETS = "TensorRT-LLM 1.2"
_FILE = "config.yaml"
_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
#: Share of the memory left after the weights that the key-value cache may take: the server's own default is 0.9; a margin for its graphs.
_CACHE_SHARE = 0.85
_PORT = 8000


def obstacle(answer: Answer) -> str | None:
    """Return why TensorRT-LLM cannot serve the plan, or None."""
    p = answer.plan
    if answer.target != "cuda":
        return f"TensorRT-LLM needs NVIDIA devices, not {answer.target}"
    if p.precision not in _DTYPES:
        return f"TensorRT-LLM computes in bf16 or fp16, not {p.precision}"
    if p.quantization not in ("none", "fp8", "fp4", "int8", "int4-awq", "int4-gptq"):
        return f"TensorRT-LLM has no {p.quantization} weights"
    if p.tp * p.pp > answer.processes_per_node:
        return f"a replica of {p.tp * p.pp} devices is larger than a node of {answer.processes_per_node}; `vllm` can span nodes"
    return engine_obstacle(answer, "TensorRT-LLM")


def config(answer: Answer) -> dict[str, Any]:
    """Return the configuration of one server."""
    p = answer.plan
    document: dict[str, Any] = {
        "tensor_parallel_size": p.tp,
        "pipeline_parallel_size": p.pp,
        "dtype": _DTYPES[p.precision],
        "max_batch_size": sequences(answer),
        "max_num_tokens": tokens_per_step(answer),
        "max_seq_len": answer.seq_len,
        "enable_chunked_prefill": True,
        "kv_cache_config": {"free_gpu_memory_fraction": _CACHE_SHARE, "enable_block_reuse": True, "dtype": cache_dtype(answer)},
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": sequences(answer)},
    }
    if p.ep > 1:
        document["moe_expert_parallel_size"] = min(p.ep, p.tp)
    return document


def write(answer: Answer) -> Files:
    """Return config.yaml and run.sh; each replica of the plan is a server with its own devices and port."""
    p = answer.plan
    group, replicas = p.tp * p.pp, max(1, answer.processes_per_node // (p.tp * p.pp))
    # A default inside ${…:-…} in double quotes would keep single quotes as characters: it is bound first.
    body = f"""default={shlex.quote(weights(answer))}
model="${{MODEL:-$default}}"
for replica in $(seq 0 {replicas - 1}); do
  first=$((replica * {group}))
  devices=$(seq -s, "$first" $((first + {group - 1})))
  CUDA_VISIBLE_DEVICES="$devices" \\
    trtllm-serve "$model" --config {_FILE} --host 127.0.0.1 --port $(({_PORT} + replica)) "$@" &
done
wait -n
"""
    notes = [weights_note(answer), lengths_note(answer)]
    if p.quantization != "none":
        notes.append(f"The weights are a checkpoint quantized to {p.quantization}; the server reads the method from it.")
    if replicas * answer.nodes > 1:
        notes.append(f"{replicas} servers a node on {answer.nodes} nodes, ports from {_PORT}: put a load balancer before them.")
    return {_FILE: header(answer, _TARGETS, *notes) + yaml_text(config(answer)), "run.sh": script(answer, _TARGETS, body, *notes)}


def check(files: Files, answer: Answer) -> Checked:
    """Check names and kinds against llm_args, values that only the server's start would refuse, and the plan."""
    fields = known("tensorrt-llm")
    validators = ("YAML parser", fields.title, "our rules")
    document, wrong = read_yaml_mapping(files, _FILE)
    if wrong:
        return Checked(validators=validators[:1], problems=(wrong,))
    found = fields.flat(document)
    problems = [*fields.problems(found), *_values(found)]
    free = {"max_num_tokens", "kv_cache_config.free_gpu_memory_fraction", "enable_chunked_prefill", "kv_cache_config.enable_block_reuse"}
    expected = {name: value for name, value in fields.flat(config(answer)).items() if name not in free}
    problems += _rules.differences(found, expected)
    try:
        if shell_words(files["run.sh"], "trtllm-serve") is None:
            problems.append("run.sh does not start trtllm-serve")
    except ValueError as error:
        problems.append(f"run.sh: {error}")
    return Checked(validators=validators, problems=(*problems, *_rules.arithmetic(answer)))


def _values(found: dict[str, Any]) -> list[str]:
    problems = []
    share = found.get("kv_cache_config.free_gpu_memory_fraction")
    if isinstance(share, int | float) and not 0 < share < 1:
        problems.append(f"free_gpu_memory_fraction is a share of the free memory, between 0 and 1, not {share}")
    sizes = found.get("cuda_graph_config.batch_sizes")
    largest = found.get("cuda_graph_config.max_batch_size")
    if isinstance(sizes, list) and sizes and isinstance(largest, int) and max(sizes) != largest:
        problems.append(f"cuda_graph_config.max_batch_size {largest} is not the largest of batch_sizes {max(sizes)}")
    tokens, running = found.get("max_num_tokens"), found.get("max_batch_size")
    if isinstance(tokens, int) and isinstance(running, int) and tokens < running:
        problems.append(f"max_num_tokens {tokens} is below max_batch_size {running}")
    if isinstance(running, int) and running < 1:
        problems.append(f"max_batch_size is at least 1, not {running}")
    return problems


EXPORTER = Exporter(
    name="tensorrt-llm", title="TensorRT-LLM serve YAML and command", targets=_TARGETS, obstacle=obstacle, write=write, check=check
)
