"""Recommendation: the answer to a question, with the runners-up, the reasons, and what was refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from advisor.cost.records import Estimate
from advisor.plan.records import Plan

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason with its number: a stable code, a sentence, and the value it rests on; ``detail`` holds further numbers by name."""

    code: str
    text: str
    value: float | str | None = None
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plan with its estimate. ``ratio`` is its score over the best one's; ``loses`` says why it is not the answer."""

    plan_id: str
    plan: Plan
    estimate: Estimate
    family: str
    why: tuple[Reason, ...] = ()
    tie: bool = False
    ratio: float = 1.0
    loses: str | None = None
    predicted: Estimate | None = None
    """What was predicted, where ``estimate`` is a measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A kind of plan that was considered and refused."""

    plan: Plan | None
    code: str
    text: str
    family: str | None = None
    binding_constraint: str | None = None
    """What the memory goes to that is too much: ``memory.state``, ``memory.activations``, ``memory.weights``, ``memory.kv_cache``."""
    suggestion: str | None = None
    """A field of the plan that would change it, as ``--fix`` takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """What would do it where nothing fits: a change, on which hardware, with its plan and estimate."""

    change: str
    hardware: str
    plan: Plan
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchInfo:
    """How the answer was found."""

    engine: str
    trials: int
    space_size: int
    seconds: float
    seed: int
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The document of ``advisor recommend --json``."""

    assumed: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    task: str
    objective: str
    workload: dict[str, Any]
    feasible: bool
    verdict: str
    recommendation: Candidate | None
    alternatives: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    nearest: tuple[Nearest, ...]
    search: SearchInfo
    notes: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    """Commands to type next."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}

    def with_answer(self, answer: Candidate, alternatives: tuple[Candidate, ...]) -> Recommendation:
        """Return the same answer with another order of preference (after measuring)."""
        return replace(self, recommendation=answer, alternatives=alternatives)


def plan_id(question: dict[str, Any], plan: Plan) -> str:
    """Return the stable id of a plan as the answer to a question: twelve hex digits of a hash over both."""
    text = json.dumps({"question": question, "plan": plan.to_dict()}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
