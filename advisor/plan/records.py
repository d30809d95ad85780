"""Workload and Plan: the question's job, and one complete way to run it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

Task = Literal["train", "finetune", "infer", "serve"]
Objective = Literal["throughput", "latency", "cost", "energy", "memory"]

TASKS = ("train", "finetune", "infer", "serve")
OBJECTIVES = ("throughput", "latency", "cost", "energy", "memory")
PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
QUANTIZATIONS = ("none", "int8", "int8-dynamic", "int8-static", "int4", "int4-awq", "int4-gptq", "nf4", "fp8", "fp4")
EXECUTIONS = ("eager", "compile", "script", "jit", "graph", "engine")
SHARDINGS = ("none", "zero1", "zero2", "zero3", "fsdp", "hsdp")
RECOMPUTES = ("none", "selective", "full")
OFFLOADS = ("none", "optimizer", "params")
OPTIMIZERS = ("adamw", "adam8bit", "sgd", "none")
ADAPTERS = ("none", "lora", "qlora")
ATTENTIONS = ("math", "flash", "fused", "paged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is to be done with a model, apart from how.

    Lengths are tokens per sequence; for vision models ``seq_len`` is the model's own token count. ``global_batch`` is in
    sequences or images a step; None lets the search choose the knee. ``limits`` are the ``--limit`` keys.
    """

    task: Task
    seq_len: int
    global_batch: int | None = None
    input_len: int | None = None
    output_len: int | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    objective: Objective = "throughput"
    limits: dict[str, float] = field(default_factory=dict)

    @property
    def is_training(self) -> bool:
        """Tell whether there is a backward pass and an optimizer step."""
        return self.task in ("train", "finetune")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way to run a Workload. Every field always has a value.

    Laws: ``dp*tp*pp*cp == devices``; ``ep`` divides ``dp*cp*tp``; ``shard_degree`` divides ``dp*cp`` and is 1 for no sharding;
    ``micro_batch*grad_accumulation*dp == global_batch``. ``micro_batch`` counts sequences (images) of one model replica in one
    forward, under pipeline parallelism one pipeline micro-batch.
    """

    framework: str
    execution: str
    precision: str
    quantization: str = "none"
    micro_batch: int = 1
    grad_accumulation: int = 1
    global_batch: int = 1
    dp: int = 1
    tp: int = 1
    pp: int = 1
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    sharding: str = "none"
    shard_degree: int = 1
    sequence_parallel: bool = False
    recompute: str = "none"
    offload: str = "none"
    optimizer: str = "adamw"
    adapter: str = "none"
    adapter_rank: int = 0
    attention: str = "flash"
    threads: int = 1
    devices: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the ``plan`` object of the JSON documents."""
        return asdict(self)


PLAN_FIELDS = tuple(f.name for f in fields(Plan))
