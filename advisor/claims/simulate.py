"""Serving policies on measured or given numbers. Pure: the random numbers come in with a seed.

``served`` runs a single server with a queue: requests arrive as a Poisson process; the server takes whatever waits, up to ``most``, and is
busy for the latency measured at that batch. ``replica_hours`` follows a day's load with as many replicas as it needs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

#: Requests of one simulated stretch: enough for a 95th percentile that repeats within some per cent.
REQUESTS = 4000


def served(latency_s: Mapping[int, float], rate: float, most: int, seed: int) -> tuple[float, float]:
    """Return (requests/s served, 95th percentile of waiting and service in seconds) at an arrival ``rate`` in requests/s.

    ``latency_s`` maps batch to seconds; a batch between two measured ones takes as long as the next larger.
    """
    rng = random.Random(seed)  # noqa: S311 - a simulation, not a secret
    arrivals, now = [], 0.0
    for _ in range(REQUESTS):
        now += rng.expovariate(rate)
        arrivals.append(now)
    sizes = sorted(size for size in latency_s if size <= most)
    free, index = 0.0, 0
    delays = []
    while index < len(arrivals):
        start = max(free, arrivals[index])
        waiting = 0
        while waiting < sizes[-1] and index + waiting < len(arrivals) and arrivals[index + waiting] <= start:
            waiting += 1
        free = start + latency_s[next(size for size in sizes if size >= waiting)]
        delays += [free - arrivals[index + i] for i in range(waiting)]
        index += waiting
    delays.sort()
    return len(arrivals) / free, delays[math.ceil(0.95 * len(delays)) - 1]


def best_utilisation(latency_s: Mapping[int, float], most: int, limit_s: float, seed: int) -> float:
    """Return the highest share of the device's best throughput that is served with the 95th percentile within ``limit_s``.

    The rate is searched by bisection between nothing and the best throughput; 0 where even one request alone takes longer.
    """
    best = max(size / seconds for size, seconds in latency_s.items())
    if min(latency_s.values()) > limit_s:
        return 0.0
    low, high = 0.0, best
    for _ in range(18):
        rate = (low + high) / 2
        if served(latency_s, rate, most, seed)[1] <= limit_s:
            low = rate
        else:
            high = rate
    return low / best


def day_load(floor: float, sharpness: float, slots: int = 288) -> list[float]:
    """Return a day's load as shares of its peak: from ``floor`` at night along a raised cosine to the power ``sharpness``."""
    return [floor + (1 - floor) * ((1 - math.cos(2 * math.pi * i / slots)) / 2) ** sharpness for i in range(slots)]


def replica_hours(load: Sequence[float], peak_replicas: int, target: float, lag: int, least: int) -> float:
    """Return replica-hours of one day scaled on demand over those of ``peak_replicas`` all day.

    Replicas are set so that the load ``lag`` slots ago keeps them busy to ``target``; they never go under ``least`` nor over the fixed
    number times 1 / ``target`` rounded up, which a peak with the same head-room would need.
    """
    fixed = math.ceil(peak_replicas / target)
    scaled = [min(fixed, max(least, math.ceil(load[i - lag] * peak_replicas / target))) for i in range(len(load))]
    return sum(scaled) / (fixed * len(load))
