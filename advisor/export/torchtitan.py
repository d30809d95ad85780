"""torchtitan: a module with the configuration function that ``torchtitan.train --module`` loads."""

from __future__ import annotations

import ast
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from advisor.export import _rules
from advisor.export._launch import check_torchrun, launch_notes, torchrun_words
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import Raw, command, header, script
from microbench.child import run_child

_TARGETS = "torchtitan 0.3 (0.2 and earlier read TOML)"
_MODULE, _FUNCTION = "titan_config", "plan"
_DEADLINE_S = 180.0

#: Our model names to torchtitan's registries (torchtitan/models/*/config_registry.py, 0.3.0): module and function.
MODELS: Mapping[str, tuple[str, str]] = {
    "llama-3-8b": ("llama3", "llama3_8b"), "llama-3.1-8b": ("llama3", "llama3_8b"), "llama-3-70b": ("llama3", "llama3_70b"),
    "llama-3.1-70b": ("llama3", "llama3_70b"), "llama-3.1-405b": ("llama3", "llama3_405b"), "qwen3-0.6b": ("qwen3", "qwen3_0_6b"),
    "qwen3-1.7b": ("qwen3", "qwen3_1_7b"), "qwen3-14b": ("qwen3", "qwen3_14b"), "qwen3-32b": ("qwen3", "qwen3_32b"),
    "qwen3-30b-a3b": ("qwen3", "qwen3_30b_a3b"), "deepseek-v3": ("deepseek_v3", "deepseek_v3_671b"),
    "gpt-oss-20b": ("gpt_oss", "gpt_oss_20b"), "gpt-oss-120b": ("gpt_oss", "gpt_oss_120b"),
}  # fmt: skip

#: Fields of ParallelismConfig, TrainingConfig and CompileConfig (torchtitan/config/configs.py, 0.3.0).
FIELDS: Mapping[str, frozenset[str]] = {
    "parallelism": frozenset({
        "data_parallel_replicate_degree", "data_parallel_shard_degree", "fsdp_reshard_after_forward", "enable_fsdp_symm_mem",
        "tensor_parallel_degree", "enable_sequence_parallel", "spmd_backend", "pipeline_parallel_degree", "module_fqns_per_model_part",
        "pipeline_parallel_first_stage_less_layers", "pipeline_parallel_last_stage_less_layers", "pipeline_parallel_layers_per_stage",
        "pipeline_parallel_schedule", "pipeline_parallel_schedule_csv", "pipeline_parallel_microbatch_size", "context_parallel_degree",
        "context_parallel_load_balancer", "context_parallel_ptrr_mask_key", "expert_parallel_degree",
    }),
    "training": frozenset({
        "local_batch_size", "global_batch_size", "seq_len", "max_norm", "steps", "enable_cpu_offload", "disable_cuda_graphs", "dtype",
        "mixed_precision_param", "mixed_precision_reduce", "gc_freq", "gc_debug",
    }),
    "compile": frozenset({"enable", "enable_async_tensor_parallel", "components", "backend"}),
}  # fmt: skip


def obstacle(answer: Answer) -> str | None:
    """Return why torchtitan cannot say the plan, or None."""
    p = answer.plan
    if not answer.is_training:
        return "torchtitan trains; `vllm` and `tensorrt-llm` serve"
    if answer.is_cpu or answer.target == "tpu":
        return f"torchtitan needs GPUs, not {answer.target}"
    if answer.model["name"] not in MODELS:
        return f"torchtitan 0.3 builds llama3, qwen3, deepseek_v3 and gpt_oss models of given sizes, {answer.model['name']} is none of them"
    if p.precision not in ("bf16", "fp32", "tf32"):
        return f"torchtitan trains in bf16 or fp32, {p.precision} needs converters of its own; `megatron` has it"
    if p.adapter != "none" or p.optimizer not in ("adamw",):
        return f"its configuration has no {p.adapter if p.adapter != 'none' else p.optimizer}; `accelerate` can say it"
    if p.offload == "optimizer":
        return "torchtitan offloads parameters, gradients and optimizer together; `deepspeed` offloads the optimizer alone"
    return None


def values(answer: Answer) -> dict[str, Any]:
    """Return the fields the module sets, by dotted name below ``config``."""
    p = answer.plan
    shard = max(1, p.shard_degree // p.cp) if p.sharding in ("fsdp", "hsdp", "zero2", "zero3") else 1
    if p.ep > 1 and (shard * p.cp * p.tp) % p.ep:
        shard = p.dp  # expert parallelism takes its ranks from the sharded ones
    found: dict[str, Any] = {
        "parallelism.data_parallel_replicate_degree": p.dp // shard,
        "parallelism.data_parallel_shard_degree": shard,
        "parallelism.tensor_parallel_degree": p.tp,
        "parallelism.pipeline_parallel_degree": p.pp,
        "parallelism.context_parallel_degree": p.cp,
        "parallelism.expert_parallel_degree": p.ep,
        "parallelism.enable_sequence_parallel": p.sequence_parallel,
        "parallelism.fsdp_reshard_after_forward": "default" if p.sharding in ("fsdp", "hsdp", "zero3") and p.pp == 1 else "never",
        # A pipeline splits the local batch into its micro-batches; without one torchtitan accumulates up to the global batch.
        "training.local_batch_size": p.micro_batch * (p.grad_accumulation if p.pp > 1 else 1),
        "training.global_batch_size": p.global_batch,
        "training.seq_len": answer.seq_len,
        "training.mixed_precision_param": "bfloat16" if p.precision == "bf16" else "float32",
        "training.enable_cpu_offload": p.offload == "params",
        "compile.enable": p.execution == "compile",
    }
    if p.pp > 1:
        layers = int(answer.transformer["layers"]) // (p.pp * p.vpp)
        found |= {"parallelism.pipeline_parallel_schedule": "Interleaved1F1B" if p.vpp > 1 else "1F1B"}
        found |= {"parallelism.pipeline_parallel_microbatch_size": p.micro_batch, "parallelism.pipeline_parallel_layers_per_stage": layers}
        found |= {"parallelism.pipeline_parallel_first_stage_less_layers": 0, "parallelism.pipeline_parallel_last_stage_less_layers": 0}
    return found


def write(answer: Answer) -> Files:
    """Return titan_config.py and run.sh."""
    module, function = MODELS[answer.model["name"]]
    recompute = {"full": "FullAC.Config()", "selective": "SelectiveAC.Config()"}.get(answer.plan.recompute, "None")
    name = recompute.split(".")[0]
    imports = f"from torchtitan.distributed.activation_checkpoint import {name}\n" if recompute != "None" else ""
    lines = "".join(f"    config.{name} = {value!r}\n" for name, value in values(answer).items())
    notes = ["main of late 2026 renamed training.local_batch_size and training.seq_len."]
    text = (
        header(answer, _TARGETS, *notes)
        + f"{imports}from torchtitan.models.{module}.config_registry import {function}\nfrom torchtitan.trainer import Trainer\n\n\n"
        + f"def {_FUNCTION}() -> Trainer.Config:\n    config = {function}()\n{lines}"
        + f"    config.activation_checkpoint = {recompute}\n    return config\n"
    )
    words = [*torchrun_words(answer), "-m", "torchtitan.train", f"--module={_MODULE}", f"--config={_FUNCTION}", Raw('"$@"')]
    body = f'export PYTHONPATH="$PWD${{PYTHONPATH:+:$PYTHONPATH}}"\nexec {command(words)}'
    return {f"{_MODULE}.py": text, "run.sh": script(answer, _TARGETS, body, *launch_notes(answer))}


def check(files: Files, answer: Answer) -> Checked:
    """Check the fields against torchtitan's configuration classes and the plan; load it with torchtitan itself where it is installed."""
    words, validators, problems = check_torchrun(files["run.sh"], answer, "torchtitan.train")
    if words and not {f"--module={_MODULE}", f"--config={_FUNCTION}"} <= set(words):
        problems.append(f"run.sh does not load {_MODULE}.{_FUNCTION}")
    source = files[f"{_MODULE}.py"]
    found, wrong = _assigned(source)
    problems += wrong
    if not wrong:
        for name in found:
            section, _, field = name.partition(".")
            if section in FIELDS and field not in FIELDS[section]:
                problems.append(f"torchtitan has no {name}")
        problems += _rules.differences(found, values(answer))
        if find_spec("torchtitan") is not None:
            refused = _loaded(source, answer)
            if refused is not None:
                validators.append("torchtitan's ConfigManager and ParallelDims")
                problems += refused
    return Checked(validators=(*validators, "fields of torchtitan 0.3.0", "our rules"), problems=(*problems, *_rules.arithmetic(answer)))


def _assigned(source: str) -> tuple[dict[str, Any], list[str]]:
    """Return what the function assigns below ``config``, by dotted name; only literals are compared."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return {}, [f"{_MODULE}.py is not valid Python: {error}"]
    function = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == _FUNCTION), None)
    if function is None:
        return {}, [f"{_MODULE}.py has no function {_FUNCTION}"]
    found: dict[str, Any] = {}
    for node in function.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            name = ast.unparse(node.targets[0]).removeprefix("config.")
            try:
                found[name] = ast.literal_eval(node.value)
            except ValueError:
                found[name] = ast.unparse(node.value)
    return found, []


_LOADER = f"""
import sys
sys.path.insert(0, sys.argv[1])
try:
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims
    from torchtitan.trainer import Trainer
except ImportError:
    sys.exit(77)
config = ConfigManager().parse_args(["--module", "{_MODULE}", "--config", "{_FUNCTION}"])
ParallelDims.from_config(config.parallelism, world_size=int(sys.argv[2]))
"""


def _loaded(source: str, answer: Answer) -> list[str] | None:
    """Return what torchtitan itself refuses, or None where it is installed without what it needs."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{_MODULE}.py").write_text(source, encoding="utf-8")
        child = run_child([sys.executable, "-c", _LOADER, folder, str(answer.plan.devices)], timeout_s=_DEADLINE_S)
    if child.returncode == 77:
        return None
    return [] if child.status == "ok" else [f"torchtitan: {child.reason}"]


EXPORTER = Exporter(
    name="torchtitan", title="torchtitan configuration module", targets=_TARGETS, obstacle=obstacle, write=write, check=check
)
