"""Compare two sets of measurements, case by case: a ratio with an interval and a verdict that noise does not sway."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["same", "faster", "slower"]
#: A gap under this is no difference worth having, even where the intervals are narrow.
LEAST_GAP = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One case in A and in B. ``ratio`` is B's speed over A's: above 1, B is faster, whatever the metric."""

    benchmark: str
    backend: str
    dtype: str
    params: dict[str, Any]
    unit: str
    a: float
    b: float
    ratio: float
    low: float
    high: float
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON holds it."""
        return asdict(self)


def compare(a: Iterable[Mapping[str, Any]], b: Iterable[Mapping[str, Any]]) -> list[Comparison]:
    """Return a Comparison for every case measured in both, in A's order; the newest of each counts.

    A measurement's interval holds a later run with 95 %; the two errors are independent, so in logarithms the widths add as squares.
    """
    ours, theirs = _by_case(a), _by_case(b)
    return [_compared(ours[key], theirs[key]) for key in ours if key in theirs]


def left_out(a: Iterable[Mapping[str, Any]], b: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many cases have a good measurement in A alone and in B alone."""
    ours, theirs = _by_case(a), _by_case(b)
    return {"a": len(ours.keys() - theirs.keys()), "b": len(theirs.keys() - ours.keys())}


def _by_case(measurements: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return usable measurements by case; of several the first (stored ones come newest first)."""
    found: dict[str, Mapping[str, Any]] = {}
    for m in measurements:
        if m["status"] == "ok" and m["value"]:
            key = json.dumps([m["benchmark"], m["backend"], m["dtype"], m["params"]], sort_keys=True)
            found.setdefault(key, m)
    return found


def _log_width(m: Mapping[str, Any]) -> float:
    low, high = m.get("low") or m["value"], m.get("high") or m["value"]
    return math.log(high / low) / 2 if low > 0 and high > 0 else 0.0


def _compared(a: Mapping[str, Any], b: Mapping[str, Any]) -> Comparison:
    ratio = b["value"] / a["value"]
    if a["metric"] == "seconds":
        ratio = 1 / ratio
    reach = math.hypot(_log_width(a), _log_width(b))
    low, high = ratio * math.exp(-reach), ratio * math.exp(reach)
    verdict: Verdict = "same"
    if low > 1 and ratio >= 1 + LEAST_GAP:
        verdict = "faster"
    elif high < 1 and 1 / ratio >= 1 + LEAST_GAP:
        verdict = "slower"
    return Comparison(
        benchmark=a["benchmark"],
        backend=a["backend"],
        dtype=a["dtype"],
        params=dict(a["params"]),
        unit=a["unit"],
        a=a["value"],
        b=b["value"],
        ratio=ratio,
        low=low,
        high=high,
        verdict=verdict,
    )
