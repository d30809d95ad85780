"""From samples to a verdict. Pure.

Samples are positive numbers, one a round of fresh processes. On the logarithm they are treated as normal, so that the ratio of A to B
and that of B to A have intervals that are each other's inverse. The spread is estimated from the samples together with a prior drift
between processes, as in ``advisor.bench.combine`` (Gelman et al., Bayesian Data Analysis, section 2.6); the
interval is Student's for the mean of the logarithms, trimmed by a fifth on each side (Tukey and McLaughlin 1963), since a neighbour that
wakes up makes one round of many wrong by a factor.

With the claimed band [low, high] and the tolerance t, a number holds the claim where it is

    at_least:  number >= low (1 - t)          at_most:  number <= high (1 + t)          about:  both

The claim is **confirmed** where the number holds it and its interval neither lies mostly outside nor reaches back to "no difference" (a
ratio of 1, where the claimed one is apart from 1); **refuted** where no number in the interval holds it; **inconclusive** between.
Over several settings: one verdict if they agree, **depends** if some confirm and some refute, else inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from advisor.bench.combine import PRIOR_ROUNDS, student_t95
from advisor.claims.records import Claim, Judged, Outcome, Setting, Verdict

#: Number of these rules: an answer that was found by others is found anew.
RULES = 1
#: Share of the samples that is cut on each side: none of up to four, one of five to nine.
TRIM = 0.2


def sample_interval(samples: Sequence[float], drift: float) -> tuple[float, float, float]:
    """Return (trimmed geometric mean, low, high) of positive ``samples`` with the 95 % interval of the mean.

    ``drift`` is the prior standard deviation of the logarithm; 0 takes the samples alone (one sample is then a point).
    """
    logs = [math.log(value) for value in samples]
    n = len(logs)
    cut = int(TRIM * n)
    logs.sort()
    kept = logs[cut : n - cut]
    mean = math.fsum(kept) / len(kept)
    # Winsorized: what is cut counts as the nearest value that is kept.
    held = kept + [kept[0]] * cut + [kept[-1]] * cut
    middle = math.fsum(held) / n
    prior = PRIOR_ROUNDS if drift > 0 else 0
    degrees = prior + len(kept) - 1
    if degrees == 0:
        return math.exp(mean), math.exp(mean), math.exp(mean)
    sigma = math.sqrt((prior * drift**2 + math.fsum((x - middle) ** 2 for x in held)) / (prior + n - 1))
    reach = student_t95(degrees) * sigma / (len(kept) / n * math.sqrt(n))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def band(claim: Claim) -> tuple[float, float]:
    """Return the numbers with which the claim holds, tolerance included."""
    least, most = claim.low * (1 - claim.tolerance), claim.high * (1 + claim.tolerance)
    return (-math.inf if claim.holds == "at_most" else least), (math.inf if claim.holds == "at_least" else most)


def judge(claim: Claim, value: float, low: float, high: float) -> Verdict:
    """Return the verdict on one number with its interval."""
    least, most = band(claim)
    if high < least or low > most:
        return "refuted"
    if not least <= value <= most:
        return "inconclusive"
    if claim.unit == "ratio" and not least <= 1.0 <= most and low <= 1.0 <= high:
        return "inconclusive"
    return "confirmed"


def judged(claim: Claim, setting: Setting, drift: float) -> Judged:
    """Return a setting with its number, interval and verdict."""
    if setting.samples:
        value, low, high = sample_interval(setting.samples, drift)
    elif setting.value is None:
        raise ValueError(f"setting {setting.label!r} has neither samples nor a value")
    else:
        value = setting.value
        low = value if setting.low is None else setting.low
        high = value if setting.high is None else setting.high
    return Judged(
        label=setting.label,
        value=value,
        low=low,
        high=high,
        verdict=judge(claim, value, low, high),
        samples=setting.samples,
        evidence=setting.evidence,
        detail=setting.detail,
    )


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict over several settings."""
    found = set(verdicts)
    if not found:
        return "not_testable"
    if len(found) == 1:
        return found.pop()
    return "depends" if {"confirmed", "refuted"} <= found else "inconclusive"


def judge_outcome(claim: Claim, outcome: Outcome) -> tuple[Verdict, tuple[Judged, ...]]:
    """Return the verdict of an outcome and its settings, judged."""
    settings = tuple(judged(claim, setting, outcome.drift) for setting in outcome.settings)
    return overall(setting.verdict for setting in settings), settings
