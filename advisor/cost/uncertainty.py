"""Intervals: log-normal around the prediction, as wide as predictions of groups never seen turned out to be wrong."""

from __future__ import annotations

import math

from advisor.cost.calibration import Calibration
from advisor.cost.records import Interval

#: Quantile of the standard normal distribution that leaves 10 % on each side.
Z_80 = 1.2815515655446004


def interval(value: float, sigma_log: float) -> Interval:
    """Return ``value`` with its 80 % interval. A rate has the width of the time it comes from: inverting only flips the logarithm."""
    if not math.isfinite(value) or value <= 0:
        return Interval(value=value, low=value, high=value)
    factor = math.exp(Z_80 * sigma_log)
    return Interval(value=value, low=value / factor, high=value * factor)


def sigma(calibration: Calibration, task: str, evidence: str) -> float:
    """Return the spread of log(measured / predicted) for ``task`` under ``evidence`` (``training.calibrated``)."""
    return calibration.sigma.get(f"{task}.{evidence}", 0.3)


def training_sigma(calibration: Calibration, evidence: str, *, experts: bool) -> float:
    """Return the spread of log(measured / predicted) of a training step; mixtures of experts are predicted less well."""
    return sigma(calibration, "training", evidence) * (calibration.sigma.get("training.experts", EXPERTS_UNSEEN) if experts else 1.0)


#: How much wider the interval of a mixture of experts is where no other mixture was seen: as for a device carried over from its relatives.
EXPERTS_UNSEEN = 1.5
