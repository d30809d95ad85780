"""FrameworkSpec: what the probe, the plan space, the trials and the cost model need to know of a framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.frameworks._training import Traits


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """What a framework can do for some tasks on some targets. A field lists the plan values it can take."""

    tasks: tuple[str, ...]
    targets: tuple[str, ...]
    kinds: tuple[str, ...] = ("decoder", "encoder", "encoder-decoder", "vision", "convolutional", "state-space")
    executions: tuple[str, ...] = ("eager",)
    precisions: tuple[str, ...] = ("fp32",)
    quantizations: tuple[str, ...] = ("none",)
    shardings: tuple[str, ...] = ("none",)
    data_parallel: bool = False
    tensor_parallel: bool = False
    pipeline_parallel: bool = False
    interleaved_pipeline: bool = False
    context_parallel: bool = False
    expert_parallel: bool = False
    sequence_parallel: bool = False
    recomputes: tuple[str, ...] = ("none",)
    offloads: tuple[str, ...] = ("none",)
    optimizers: tuple[str, ...] = ("adamw",)
    adapters: tuple[str, ...] = ("none",)
    attentions: tuple[str, ...] = ("flash",)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkSpec:
    """A framework. ``query`` runs in a child with the framework's own interpreter and may import it.

    It returns ``{"version": str, "build": str | None, "targets": [...], "detail": {...}}``; what it raises becomes the reason.
    """

    name: str
    title: str
    distributions: tuple[str, ...]
    """Distribution names that bring it, most usual first."""
    module: str
    install: str
    """The command that would bring it."""
    query: Callable[[], dict[str, Any]] | None = None
    capabilities: tuple[Capability, ...] = ()
    min_compute_capability: float | None = None
    """Oldest NVIDIA device it runs on (7.0 is Volta); None where it states none."""
    bench_backend: str | None = None
    """Name of the microbench backend that measures it, where there is one."""
    environment: str | None = None
    """The managed environment that brings it where the advisor's own has it not (``advisor env list``)."""
    overheads: dict[str, float] = field(default_factory=dict)
    """Seconds that a trial spends before its first timed call: ``start_s`` to start and import, ``prepare_EXECUTION_s`` to make BERT-base
    ready at batch 1 (compiling includes the first call). Seen on two cores of an AMD EPYC; they only order what a limited budget
    measures first. ``cpu_convolution_ratio[.EXECUTION]``: see ``advisor.cost.local``."""
    training: Traits | None = None
    """How it trains, for the cost model; None where it does not train, or where nothing is known of it."""
    training_on: Mapping[str, Traits] = field(default_factory=dict)
    """The same on targets where another compiler runs it."""
    stacks: Mapping[str, Traits] = field(default_factory=dict)
    """Published training software that is built on it or shares its kernels and schedule, by name: how that trains. Its measured runs
    count as runs of this framework."""
