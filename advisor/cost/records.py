"""Estimate: what a Plan is predicted to do, each value with an 80 % interval and split into named parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from advisor.hardware.platform import Evidence

Bottleneck = Literal["compute", "memory_bandwidth", "communication", "bubble", "launch", "input"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with the low and high end of its 80 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The prediction (or, after a trial, the measurement) for one Plan. See docs/reference for each field.

    ``time_parts_s`` holds exposed time only and adds up to ``step_time_s`` (to ``latency_s`` for infer and serve);
    ``memory_parts_bytes`` adds up to ``memory_bytes_per_device``.
    """

    step_time_s: Interval | None
    throughput: Interval | None
    throughput_unit: str
    tokens_per_s_per_device: Interval | None
    mfu: Interval | None
    latency_s: Interval | None
    ttft_s: Interval | None
    tpot_s: Interval | None
    memory_bytes_per_device: Interval | None
    energy_j: Interval | None
    cost_usd: Interval | None
    time_parts_s: Mapping[str, float]
    memory_parts_bytes: Mapping[str, float]
    bottleneck: Bottleneck
    fits: bool
    evidence: Evidence
    measurements: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return the ``estimate`` object of the JSON documents."""
        return asdict(self)
