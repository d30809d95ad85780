"""The parameters of the training model: what each means, what was believed before fitting, and its bounds."""

from __future__ import annotations

from typing import Final

from advisor.cost.calibration import Parameter


def _parameter(name: str, prior: float, low: float, high: float, unit: str, meaning: str, source: str, sigma: float = 0.3) -> Parameter:
    return Parameter(name=name, meaning=meaning, unit=unit, value=prior, prior=prior, low=low, high=high, prior_log_sigma=sigma, source=source)


PARAMETERS: Final[tuple[Parameter, ...]] = (
    _parameter("fragmentation", 0.03, 0.001, 0.15, "fraction", "Memory the caching allocator holds but cannot use, of what is allocated", "prior"),
)

#: Standard deviation of log(measured / predicted) by task and evidence, before any left-out scoring.
SIGMA_PRIOR: Final[dict[str, float]] = {
    "training.measured": 0.05,
    "training.calibrated": 0.10,
    "training.transferred": 0.20,
    "training.spec": 0.30,
}
