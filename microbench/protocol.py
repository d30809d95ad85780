"""What goes between the advisor and a measuring child: a Request in, Measurements out, one JSON object a line.

Standard library only. Names are those of ``advisor bench --json``.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

PROTOCOL_VERSION = 1

Status = Literal["ok", "failed", "unsupported", "timeout", "wrong_result", "throttled", "contended"]
Metric = Literal["flops_per_s", "bytes_per_s", "seconds", "samples_per_s"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing to measure: a benchmark with its sizes in one dtype."""

    benchmark: str
    dtype: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one child is asked: one backend, one thread setting, all its cases."""

    backend: str
    device: str
    threads: int
    cases: tuple[Case, ...]
    budget_s: float
    seed: int = 0
    quick: bool = False
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One benchmark result. A measurement is never edited; it is superseded.

    ``value`` is the median in ``unit``; ``low`` and ``high`` the 95 % interval for a later run's median, drift between processes
    included; ``run_low`` and ``run_high`` the one within this run. ``sample_seconds`` holds the samples themselves (seconds of one
    call), so that statistics can be redone. ``conditions`` records load, clocks, throttling and the environment variables in force.
    """

    benchmark: str
    backend: str
    backend_version: str | None
    device: str
    dtype: str
    params: dict[str, Any]
    metric: Metric
    unit: str
    value: float | None
    low: float | None
    high: float | None
    run_low: float | None
    run_high: float | None
    samples: int
    seconds: float
    status: Status
    reason: str | None = None
    max_error: float | None = None
    sample_seconds: tuple[float, ...] = ()
    conditions: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON holds it."""
        return asdict(self)
