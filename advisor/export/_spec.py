"""Exporter: how a plan is written for one tool, and how what was written is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.plan.records import Plan

#: File name to text.
Files = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an exporter writes from: a plan and the question it answers, as the stored document has them.

    ``model``, ``hardware``, ``workload`` and ``estimate`` are the objects of that name in ``advisor recommend --json``;
    ``transformer`` holds the sizes of the model (``layers``, ``hidden``, ``heads`` …), empty for a convolutional one.
    """

    plan_id: str
    plan: Plan
    task: str
    model: Mapping[str, Any]
    hardware: Mapping[str, Any]
    workload: Mapping[str, Any]
    estimate: Mapping[str, Any]
    transformer: Mapping[str, Any]
    versions: Mapping[str, str]
    """Framework versions that were measured, where any were."""
    target: str = "cuda"
    """What the devices are programmed through: ``cuda``, ``rocm``, ``cpu-x86``, ``tpu`` …"""
    hub: str | None = None
    """The id of the weights on a model hub, where one is known."""

    @property
    def nodes(self) -> int:
        """Nodes the plan runs on."""
        return max(1, min(int(self.hardware.get("nodes") or 1), self.plan.devices))

    @property
    def processes_per_node(self) -> int:
        """Processes a node runs: one a device."""
        return -(-self.plan.devices // self.nodes)

    @property
    def is_training(self) -> bool:
        """Tell whether the plan has a backward pass and an optimizer."""
        return self.task in ("train", "finetune")

    @property
    def is_cpu(self) -> bool:
        """Tell whether the devices are CPUs."""
        return self.target.startswith("cpu")

    @property
    def seq_len(self) -> int:
        """Tokens a sequence holds: prompt and answer together when tokens are generated."""
        return int(self.workload.get("seq_len") or 1)

    @property
    def title(self) -> str:
        """One line that says what the files are for, for their header comments."""
        return f"{self.task} {self.model['name']} on {self.hardware['name']} (plan {self.plan_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The verdict on files: which validators looked, and what they found wrong."""

    validators: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """A format.

    ``obstacle(answer)`` says why the plan cannot be written in it, or None; ``write`` is called only where it is None.
    ``check`` judges files of this format (its own or edited ones) for that answer, with the tool's own parser where that is installed
    and our rules for what the parser lets pass. ``targets`` names the tool and the versions the format was written against.
    """

    name: str
    title: str
    targets: str
    obstacle: Callable[[Answer], str | None]
    write: Callable[[Answer], Files]
    check: Callable[[Files, Answer], Checked]
