"""A claim, what an experiment found, and the result that is stored and shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["confirmed", "refuted", "depends", "inconclusive", "not_testable", "ill_posed"]
Basis = Literal["measured", "published", "predicted", "none"]
#: How the number must lie to the claimed one: not under it, not over it, or within the tolerance on both sides.
Holds = Literal["at_least", "at_most", "about"]

Say = Callable[[str], None]
"""Tells people where a run stands."""

VERDICTS: tuple[Verdict, ...] = ("confirmed", "refuted", "depends", "inconclusive", "not_testable", "ill_posed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTest:
    """One way to put a claim to the test: the name of an experiment and its parameters.

    ``differs`` says what is not as in the claim (another system in its place, a smaller network); it is shown with the verdict.
    ``part`` makes it the test of another part of the statement, judged by its own ``metric``, ``low``, ``high``, ``unit``, ``holds`` and
    ``tolerance``: always run, shown beside, and a claim that is confirmed but for a part that is refuted ``depends``.
    """

    experiment: str
    parameters: Mapping[str, Any]
    differs: str | None = None
    part: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement with a number. ``low`` and ``high`` are the claimed value twice, or the ends of a claimed range.

    ``tests`` are in order of preference: the first that can answer here gives the verdict, the others stand beside it. ``premise`` is
    set where the statement cannot be true or tested as worded (``ill_posed``, ``not_testable``), with ``why``. ``needs`` says what a
    machine would have to have for a test of the claim itself.
    """

    id: str
    statement: str
    metric: str
    low: float
    high: float
    unit: str
    holds: Holds
    tolerance: float
    conditions: str
    source: str
    tests: tuple[ClaimTest, ...]
    premise: Verdict | None = None
    why: str | None = None
    needs: str | None = None
    advice: Mapping[str, str] = field(default_factory=dict)
    """By verdict: what it means for somebody who decides."""

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as JSON holds it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What an experiment found in one setting (a network, a batch, a pair of published rows).

    ``samples`` are one number a round (a ratio, or an absolute value) where it was measured; otherwise ``value`` with the 95 %
    interval ``low`` to ``high``. ``evidence`` are the ids of the rows or measurements behind it.
    """

    label: str
    samples: tuple[float, ...] = ()
    value: float | None = None
    low: float | None = None
    high: float | None = None
    evidence: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an experiment came to: settings, or what it lacks. ``drift`` is the prior spread of its samples (see ``verdict``)."""

    settings: tuple[Setting, ...] = ()
    lacks: str | None = None
    drift: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A setting with its number and verdict."""

    label: str
    value: float
    low: float
    high: float
    verdict: Verdict
    samples: tuple[float, ...] = ()
    evidence: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer of one test of a claim."""

    experiment: str
    basis: Basis
    verdict: Verdict
    settings: tuple[Judged, ...] = ()
    lacks: str | None = None
    differs: str | None = None
    part: Mapping[str, Any] | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A claim's verdict on one machine. ``value``, ``low``, ``high`` are those of the setting that stands for it (the median one)."""

    claim: Claim
    verdict: Verdict
    basis: Basis
    value: float | None
    low: float | None
    high: float | None
    reason: str
    meaning: str
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON holds it."""
        return {"id": self.claim.id, **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What experiments may use: threads, the device as frameworks call it, the time left, and the questions that stand above this part.

    ``estimate(model, plan, hardware, question)`` prices a plan, ``recommend(model, hardware, question)`` answers a question; both return
    the documents of the commands of those names.
    """

    threads: int
    device: str
    device_id: str
    end: float
    rounds: int
    seed: int
    estimate: Callable[..., Mapping[str, Any]]
    recommend: Callable[..., Mapping[str, Any]]
    say: Say = lambda text: None

    @property
    def left_s(self) -> float:
        """Seconds until the budget of this claim ends."""
        return self.end - time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A kind of experiment. ``needs`` and ``options`` name its parameters, mandatory and optional; others are an error in the claim.

    ``cost_s(parameters, rounds)`` is about what it takes, for the budget. ``prepare(parameters, context)`` builds what a run uses again and
    again (exports, tunings); its outcome says what it lacks, if anything.
    """

    name: str
    title: str
    basis: Basis
    run: Callable[[Mapping[str, Any], Claim, Context], Outcome]
    needs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    cost_s: Callable[[Mapping[str, Any], int], float] = lambda parameters, rounds: 1.0
    prepare: Callable[[Mapping[str, Any], Context], Outcome] | None = None
