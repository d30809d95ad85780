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

    @property
    def nodes(self) -> int:
        """Nodes of the hardware."""
        return int(self.hardware.get("nodes") or 1)

    @property
    def processes_per_node(self) -> int:
        """Processes a node runs: one a device."""
        return max(1, self.plan.devices // self.nodes)

    @property
    def title(self) -> str:
        """One line that says what the files are for, for their header comments."""
        return f"{self.task} {self.model['name']} on {self.hardware['name']} (plan {self.plan_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """A format.

    ``obstacle(answer)`` says why the plan cannot be written in it, or None. ``write`` returns the files. ``check`` returns what is wrong
    with files of this format (its own or edited ones) for that answer, empty if nothing; it uses the tool's own parser where that is
    installed and our rules for what the parser lets pass. ``targets`` names the tool and the versions the format was written against.
    """

    name: str
    title: str
    targets: str
    obstacle: Callable[[Answer], str | None]
    write: Callable[[Answer], Files]
    check: Callable[[Files, Answer], list[str]]
