"""JAX: a mesh, how every weight lies on it, and a self-contained script that runs a step."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from advisor.export import _rules
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import header, literal, template
from microbench.child import run_child

_TARGETS = "JAX 0.6 to 0.10"
_DEADLINE_S = 180.0
#: Above this many fake devices tracing takes too long to wait for; then only the rules look.
_MOST_FAKE_DEVICES = 256
_DTYPES = {"bf16": "bfloat16", "fp32": "float32", "tf32": "float32"}
_LEARNING_RATE = 3e-4


def obstacle(answer: Answer) -> str | None:
    """Return why no script can be written for the plan, or None."""
    p, m, t = answer.plan, answer.model, answer.transformer
    if m["kind"] not in ("decoder", "encoder") or not t:
        return f"the script builds decoders and encoders, {m['name']} is of the kind {m['kind']}"
    if t["experts"] > 1 or t.get("kv_lora_rank"):
        return "the script has no mixture-of-experts layer and no latent attention; `maxtext` and `megatron` have"
    if p.pp > 1:
        return f"the script has no pipeline (pp {p.pp}); `maxtext` has"
    if p.precision not in _DTYPES:
        return f"the script computes in bf16 or fp32, not {p.precision}; `maxtext` has fp8"
    if p.quantization != "none" or p.adapter != "none" or p.offload != "none":
        odd = next(v for v in (p.quantization, p.adapter, f"offload of {p.offload}") if v not in ("none", "offload of none"))
        return f"the script has no {odd}"
    if answer.is_training and p.optimizer != "adamw":
        return f"the script trains with AdamW, not {p.optimizer}"
    if int(answer.workload.get("output_len") or 0) > 0:
        return "the script runs one pass, not the generation of tokens; `vllm` generates on GPUs and TPUs"
    return None


def _name(answer: Answer) -> str:
    return "train.py" if answer.is_training else "infer.py"


def settings(answer: Answer) -> dict[str, Any]:
    """Return PLAN, MESH and MODEL, the literals of the script that a check compares."""
    p, t = answer.plan, answer.transformer
    shard = max(1, p.shard_degree // p.cp) if p.sharding != "none" else 1
    multiple = 128 * p.tp if p.tp * shard > 1 else 1
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "gated_mlp", "causal", "norm", "learned_positions")
    vocab = -(-t["vocab"] // multiple) * multiple
    sizes = {"vocab": vocab, "max_seq": max(t["max_seq"], answer.seq_len), "tied_embeddings": t["tied_embeddings"]}
    return {
        "PLAN": {name: getattr(p, name) for name in ("dp", "devices", "micro_batch", "grad_accumulation", "global_batch")},
        "MESH": {"replica": p.dp // shard, "fsdp": shard, "context": p.cp, "tensor": p.tp},
        "MODEL": {name: t[name] for name in names} | sizes,
    }


def write(answer: Answer) -> Files:
    """Return the script."""
    p = answer.plan
    notes = [
        "The model has the sizes of the plan, no biases, and random weights: it shows the speed and the memory, put yours in its place."
    ]
    notes.append("`--check` traces a step with the shardings and runs nothing.")
    if p.sharding in ("zero1", "zero2"):
        notes.append(f"{p.sharding} is written as fully sharded weights: XLA gathers them where they are used.")
    if answer.nodes > 1:
        notes.append(f"Run it on each of the {answer.nodes} nodes.")
    constants = "".join(literal(name, value) for name, value in settings(answer).items())
    constants += f"NODES, SEQ_LEN, RECOMPUTE, DTYPE = {answer.nodes}, {answer.seq_len}, {p.recompute!r}, jnp.{_DTYPES[p.precision]}\n"
    constants += f"RATE = {_LEARNING_RATE}\n" if answer.is_training else ""
    if answer.target in ("cuda", "rocm"):
        # The share of the memory that JAX takes at its start: its default of 0.75 leaves a quarter unused.
        constants = constants.replace("NODES,", 'os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")\nNODES,', 1)
    head = template("jax.py.txt")
    if "os.environ" in constants:
        head = head.replace("import math\n", "import math\nimport os\n")
    body = template("jax_model.py.txt") + template("jax_train.py.txt" if answer.is_training else "jax_infer.py.txt")
    return {_name(answer): header(answer, _TARGETS, *notes) + head + constants + body}


def check(files: Files, answer: Answer) -> Checked:
    """Compare the literals with the plan; trace the script on fake devices in a child where JAX is installed."""
    source = files[_name(answer)]
    found, problems = _rules.literals(source, "PLAN", "MESH", "MODEL")
    validators = ["Python's parser", "our rules"]
    for key, expected in settings(answer).items():
        if isinstance(found.get(key), dict):
            problems += [f"{key}: {text}" for text in _rules.differences(found[key], expected)]
    problems += _divisible(answer)
    if not problems and find_spec("jax") is not None and answer.plan.devices <= _MOST_FAKE_DEVICES:
        validators.insert(0, f"JAX on {answer.plan.devices} fake devices")
        problems += _traced(source, answer.plan.devices)
    return Checked(validators=tuple(validators), problems=(*problems, *_rules.arithmetic(answer)))


def _divisible(answer: Answer) -> list[str]:
    """Return which weights cannot be cut evenly over the mesh."""
    both = settings(answer)
    mesh, m = both["MESH"], both["MODEL"]
    shard = mesh["fsdp"] * mesh["context"]
    problems = [f"hidden size {m['hidden']} cannot be divided over {shard} shards"] if m["hidden"] % shard else []
    columns = {"query": m["heads"], "key-value": m["kv_heads"]}
    problems += [f"{n} {what} heads cannot be divided by tp {mesh['tensor']}" for what, n in columns.items() if n % mesh["tensor"]]
    if answer.seq_len % mesh["context"]:
        problems.append(f"a sequence of {answer.seq_len} cannot be divided over {mesh['context']} context ranks")
    return problems


def _traced(source: str, devices: int) -> list[str]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(source, encoding="utf-8")
        child = run_child([sys.executable, str(path), "--check"], timeout_s=_DEADLINE_S, env=environment)
    return [] if child.status == "ok" else [f"JAX: {child.reason}"]


EXPORTER = Exporter(
    name="jax", title="JAX mesh, shardings and a self-contained script", targets=_TARGETS, obstacle=obstacle, write=write, check=check
)
