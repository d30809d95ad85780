"""Order statistics of one run's samples: median and its distribution-free confidence interval. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

#: Two-sided 95 % point of the normal distribution.
Z95 = 1.959964


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return (median, low, high): the median and its 95 % confidence interval from order statistics.

    The number of samples below the median is binomial(n, 1/2); the ranks n/2 -+ 1.96 sqrt(n)/2 bound it (Conover, Practical
    Nonparametric Statistics, section 3.2). Under six samples no such interval has 95 %; the range of the samples is returned.
    """
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    n = len(ordered)
    if n < 6:
        return median(ordered), ordered[0], ordered[-1]
    reach = Z95 * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach))
    return median(ordered), ordered[low], ordered[high]


def half_width(samples: Sequence[float]) -> float:
    """Return half the width of the median's 95 % interval as a fraction of the median (infinite under three samples)."""
    if len(samples) < 3:
        return math.inf
    mid, low, high = median_interval(samples)
    return (high - low) / 2 / mid if mid > 0 else math.inf
