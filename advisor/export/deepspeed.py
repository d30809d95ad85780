"""DeepSpeed: its JSON configuration and the command that passes it on."""

from __future__ import annotations

import json
from typing import Any

from advisor.export import _deepspeed, _rules
from advisor.export._known import known
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import Raw, command, json_text, options, script, shell_words

_TARGETS = "DeepSpeed 0.16 to 0.19"


def write(answer: Answer) -> Files:
    """Return ds_config.json and run.sh. JSON has no comments: the header stands in run.sh."""
    words = ["deepspeed", f"--num_nodes={answer.nodes}", f"--num_gpus={answer.processes_per_node}"]
    if answer.nodes > 1:
        words.append(Raw('--hostfile="${HOSTFILE:?set HOSTFILE to a list of HOST slots=N lines}"'))
    words += [Raw('"${SCRIPT:-train.py}"'), "--deepspeed", "--deepspeed_config=ds_config.json", Raw('"$@"')]
    notes = ["SCRIPT is your training script; it calls deepspeed.initialize(config=ds_config.json)."]
    if answer.plan.recompute != "none":
        notes.append("Activation checkpointing is the script's: gradient_checkpointing_enable() or deepspeed.checkpointing.checkpoint.")
    if answer.plan.adapter != "none":
        notes.append(f"The script adds the {answer.plan.adapter} adapter (rank {answer.plan.adapter_rank}), as Hugging Face PEFT does.")
    return {
        "ds_config.json": json_text(_deepspeed.config(answer)),
        "run.sh": script(answer, _TARGETS, f"exec {command(words)}", *notes),
    }


def check(files: Files, answer: Answer) -> Checked:
    """Check ds_config.json: known keys, batch arithmetic over the plan's processes, precision, group sizes; and run.sh's processes."""
    keys = known("deepspeed")
    validators = ("JSON parser", keys.title, "our rules")
    try:
        document: Any = json.loads(files["ds_config.json"])
    except ValueError as error:
        return Checked(validators=validators[:1], problems=(f"ds_config.json is not JSON: {error}",))
    if not isinstance(document, dict):
        return Checked(validators=validators[:1], problems=("ds_config.json is not an object",))
    found = keys.flat(document)
    problems = [*keys.problems(found), *_deepspeed.world_problems(document, answer)]
    expected = keys.flat(_deepspeed.config(answer))
    compared = {name: value for name, value in expected.items() if name in _FROM_PLAN}
    problems += _rules.differences(found, compared)
    problems += [f"{name} is on, the plan says {answer.plan.precision}" for name in _PRECISIONS if found.get(name) and name not in expected]
    return Checked(validators=validators, problems=(*problems, *_command(files["run.sh"], answer), *_rules.arithmetic(answer)))


_PRECISIONS = ("bf16.enabled", "fp16.enabled")
_FROM_PLAN = {
    *_PRECISIONS, "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "zero_optimization.stage",
    "zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device", "zero_optimization.mics_shard_size",
}  # fmt: skip


def _command(text: str, answer: Answer) -> list[str]:
    try:
        words = shell_words(text, "deepspeed")
    except ValueError as error:
        return [f"run.sh: {error}"]
    if words is None:
        return ["run.sh does not start deepspeed"]
    given = options([word for word in words if word.startswith("--")])
    expected = {"--num_nodes": answer.nodes, "--num_gpus": answer.processes_per_node, "--deepspeed_config": "ds_config.json"}
    return [f"run.sh: {text}" for text in _rules.differences(given, expected)]


EXPORTER = Exporter(
    name="deepspeed", title="DeepSpeed JSON and launch command", targets=_TARGETS, obstacle=_deepspeed.obstacle, write=write, check=check
)
