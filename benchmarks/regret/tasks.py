"""The five questions about this machine, and the plans of each one's table: framework x execution x precision x batch x threads."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.frameworks import framework
from advisor.plan.records import Plan
from advisor.search.space import context_for, enumerate_plans
from advisor.usecases.question import Request, resolve

#: Batches of a table whose question leaves the batch open.
BATCHES = (1, 2, 4, 8, 16, 32)
#: A GPT as small as a training step on a CPU wants it (6 layers of 384), as a Hugging Face file.
SMALL_GPT = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 6, "n_embd": 384, "n_head": 6, "n_positions": 512,
    "vocab_size": 4096, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """A question. ``latency``: seconds of a batch decide, else seconds of a sample."""

    name: str
    request: Request
    latency: bool


def tasks(folder: Path) -> list[Task]:
    """Return the five tasks; the small GPT's configuration is written into ``folder``."""
    config = folder / "small-gpt" / "config.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps(SMALL_GPT))
    bert, resnet = Request(model="bert-base", task="infer", seq=128), Request(model="resnet-50", task="infer")
    gpt = Request(model=str(config), task="train", seq=128)
    return [
        Task("bert-base-latency", replace(bert, global_batch=1, objective="latency"), True),
        Task("bert-base-throughput", bert, False),
        Task("resnet-50-latency", replace(resnet, global_batch=1, objective="latency"), True),
        Task("resnet-50-throughput", resnet, False),
        Task("small-gpt-train", gpt, False),
    ]


def tiny(folder: Path) -> list[Task]:
    """Return two tasks of seconds, to try the benchmark itself."""
    del folder
    bert = Request(model="bert-tiny", task="infer", seq=32)
    return [
        Task("bert-tiny-latency", replace(bert, global_batch=1, objective="latency"), True),
        Task("bert-tiny-throughput", bert, False),
    ]


def plans(task: Task, batches: tuple[int, ...]) -> list[Plan]:
    """Return the plans of the table: all that are legal here and have a backend, at ``batches`` where the batch is open.

    Recomputation saves memory alone, and plans that differ in the attention kernel's name alone run the same trial.
    """
    question = resolve(task.request)
    table = enumerate_plans(context_for(question.model, question.workload, question.platform), task.request.fixed)
    found: dict[tuple[object, ...], Plan] = {}
    for row in range(len(table)):
        plan = table.plan(row)
        spec = framework(plan.framework)
        if spec is None or spec.bench_backend is None or plan.recompute != "none" or plan.grad_accumulation != 1:
            continue
        if task.request.global_batch is None and plan.micro_batch not in batches:
            continue
        found.setdefault(key(plan), plan)
    return list(found.values())


def key(plan: Plan) -> tuple[object, ...]:
    """Return what a trial of the plan depends on."""
    return (plan.framework, plan.execution, plan.precision, plan.quantization, plan.micro_batch, plan.threads)
