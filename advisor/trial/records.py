"""Trial: a plan really run on this machine for a few steps."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from advisor.plan.records import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A measurement of a plan. ``seconds`` is the median of one batch (one step in training), with its 95 % interval.

    ``rounds`` holds the median of each fresh process; ``max_error`` the largest error of the output against the reference of the
    same weights, relative. ``spent_s`` is what the trial cost.
    """

    plan: Plan
    plan_id: str
    status: Literal["ok", "failed", "unsupported", "timeout", "wrong_result", "throttled", "contended"]
    reason: str | None
    seconds: float | None
    low: float | None
    high: float | None
    samples: int
    rounds: tuple[float, ...] = ()
    max_error: float | None = None
    spent_s: float = 0.0
    backend_version: str | None = None
    measurement_id: str = ""
    conditions: dict[str, Any] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Tell whether the trial gave a number that may enter an answer; one taken beside other programs has the wider interval."""
        return self.status in ("ok", "contended") and self.seconds is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON holds it."""
        return asdict(self)
