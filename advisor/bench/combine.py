"""Combine the rounds of one case into a Measurement whose interval contains a later run.

Within a process the median is known to a per cent; from process to process the speed of one and the same kernel differs by more
(page placement, neighbours, clock). With the logarithm x_i of each round's median, the standard deviation sigma of rounds is
estimated from the rounds themselves together with a prior, as in Bayesian estimation of a normal variance under a scaled inverse
chi-square prior (Gelman et al., Bayesian Data Analysis, section 2.6)::

    sigma^2 = (PRIOR_ROUNDS s0^2 + sum (x_i - mean)^2) / (PRIOR_ROUNDS + n - 1)

and a later run lies with 95 % in mean -+ t sigma sqrt(1 + 1/n), t being Student's for PRIOR_ROUNDS + n - 1 degrees of freedom.
"""

from __future__ import annotations

import math
import statistics
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from microbench.protocol import Measurement

#: Prior standard deviation between processes, relative: measured on quiet virtual machines for compute-bound and for memory-bound
#: kernels (see docs/how-to-add-a-backend.md); the prior weighs as much as six rounds.
DRIFT = {"flops_per_s": 0.04, "bytes_per_s": 0.05, "seconds": 0.04, "samples_per_s": 0.04}
PRIOR_ROUNDS = 6
#: Where too few samples were quiet, the estimate rests on disturbed ones and the prior is widened.
DISTURBED = 2.0
CLEAN_SAMPLES = 3

#: 97.5 % points of Student's t (two-sided 95 %) for 1 to 30 degrees of freedom.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
       2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)  # fmt: skip

#: Which status stands for a case that no round measured: the most telling one first.
PRECEDENCE = ("wrong_result", "failed", "timeout", "throttled", "contended", "unsupported")


def student_t95(degrees: int) -> float:
    """Return the two-sided 95 % point of Student's t."""
    return T95[degrees - 1] if 1 <= degrees <= len(T95) else 1.96


def later_run(values: Sequence[float], drift: float) -> tuple[float, float, float]:
    """Return (value, low, high): the median of the rounds' values and the 95 % interval of a later run; values are positive."""
    logs = [math.log(value) for value in values]
    n = len(logs)
    mean = statistics.fmean(logs)
    degrees = PRIOR_ROUNDS + n - 1
    sigma = math.sqrt((PRIOR_ROUNDS * drift**2 + sum((x - mean) ** 2 for x in logs)) / degrees)
    reach = student_t95(degrees) * sigma * math.sqrt(1 + 1 / n)
    middle = statistics.median(values)
    return middle, middle * math.exp(-reach), middle * math.exp(reach)


def combine(rounds: Sequence[Mapping[str, Any]], device_id: str, driver: str | None = None) -> Measurement:
    """Return one Measurement from what each round reported of one case.

    A wrong result in any round is a wrong result. Otherwise the rounds that measured count, those with clean samples before those
    without; contended only if all of them were. ``driver`` is the device's, recorded with the conditions.
    """
    good = [line for line in rounds if line["status"] == "ok"] or [line for line in rounds if line["status"] == "contended"]
    wrong = [line for line in rounds if line["status"] == "wrong_result"]
    spent = sum(float(line.get("seconds") or 0.0) for line in rounds)
    if wrong or not good:
        line = min(wrong or rounds, key=lambda item: PRECEDENCE.index(item["status"]))
        return _measurement(line, device_id, seconds=spent, samples=0, sample_seconds=())
    # A round that others disturbed all through says nothing of the kernel where another round had clean samples.
    good = [line for line in good if ((line.get("conditions") or {}).get("clean_samples") or 0) >= CLEAN_SAMPLES] or good
    metric = str(good[0]["metric"])
    details = [dict(line.get("conditions") or {}) for line in good]
    # Others were there in every round: an estimate on samples that did not wait for them still shares memory and caches with them.
    disturbed = all((detail.get("quiet_samples", detail.get("clean_samples")) or 0) < CLEAN_SAMPLES for detail in details)
    value, low, high = later_run([float(line["value"]) for line in good], DRIFT[metric] * (DISTURBED if disturbed else 1.0))
    last = good[-1]
    run_low, run_high = (statistics.median(float(line[name]) for line in good) for name in ("run_low", "run_high"))
    run_low, run_high = min(run_low, value), max(run_high, value)
    return _measurement(
        last,
        device_id,
        value=value,
        low=min(low, run_low),
        high=max(high, run_high),
        run_low=run_low,
        run_high=run_high,
        seconds=spent,
        max_error=max((float(line["max_error"]) for line in good if line["max_error"] is not None), default=None),
        **_samples(rounds),
        conditions={**details[-1], **_over_rounds(good, details), **_rests_on(rounds, good), "driver": driver},
    )


def _measured(rounds: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [line for line in rounds if line["value"] is not None and line["status"] in ("ok", "contended", "throttled")]


def _samples(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the samples of every round that measured, those that the estimate does not rest on among them."""
    seconds = tuple(float(s) for line in _measured(rounds) for s in line["sample_seconds"])
    return {"samples": len(seconds), "sample_seconds": seconds}


def _rests_on(rounds: Sequence[Mapping[str, Any]], good: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how to redo the statistics: samples a round, and a digit a sample, 1 where the estimate rests on it.

    The value is the median over rounds of the work over the median of the round's samples that are marked (see ``redo``).
    """
    counts, digits = [], []
    for line in _measured(rounds):
        count = len(line["sample_seconds"])
        counts.append(count)
        used = (line.get("conditions") or {}).get("used") or "1" * count
        digits.append(used if any(line is kept for kept in good) else "0" * count)
    return {"round_samples": counts, "used": "".join(digits)}


def redo(sample_seconds: Sequence[float], conditions: Mapping[str, Any]) -> list[float]:
    """Return the seconds of one call in each round that counted, again from stored samples: their median is the measurement's."""
    medians, start = [], 0
    for count in conditions["round_samples"]:
        marked = zip(sample_seconds[start : start + count], conditions["used"][start : start + count], strict=True)
        kept = [seconds for seconds, digit in marked if digit == "1"]
        if kept:
            medians.append(statistics.median(kept))
        start += count
    return medians


def _over_rounds(good: Sequence[Mapping[str, Any]], details: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    shares = [detail["foreign_share"] for detail in details if detail.get("foreign_share") is not None]
    return {
        "rounds": len(good),
        "round_values": [line["value"] for line in good],
        "clean_samples": sum(int(detail.get("clean_samples") or 0) for detail in details),
        "quiet_samples": sum(int(detail.get("quiet_samples") or 0) for detail in details),
        "foreign_share": max(shares) if shares else None,
        "converged": all(detail.get("converged") for detail in details),
        "first_call_s": details[0].get("first_call_s"),
    }


def _measurement(line: Mapping[str, Any], device_id: str, **changes: Any) -> Measurement:
    return Measurement(**{**line, "device": device_id, "id": str(uuid.uuid4()), **changes})
