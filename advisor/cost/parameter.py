"""Parameter: one fitted number of the cost model, with its meaning, prior, bounds and spread."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One physical quantity that a data sheet does not state.

    ``prior`` and ``prior_log_sigma`` are what is believed before any measurement (log-normal); ``low`` and ``high`` are physical
    bounds; ``spread`` is the standard deviation of the logarithm after the fit, None before one.
    """

    name: str
    meaning: str
    unit: str
    value: float
    prior: float
    low: float
    high: float
    prior_log_sigma: float = 0.3
    spread: float | None = None
    source: str = ""
    """Where the prior comes from."""

    def __post_init__(self) -> None:
        if not (0.0 < self.low <= self.value <= self.high and self.low <= self.prior <= self.high):
            raise ValueError(f"parameter {self.name}: {self.value} (prior {self.prior}) is outside [{self.low}, {self.high}]")
