"""What stands out among measurements: outliers against the fleet, regressions between framework versions. Pure; standard library only."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from advisor.results.hash import canonical_json

#: Modified z-score from which a value counts as an outlier (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
THRESHOLD = 3.5
#: The modified z-score's factor: the median absolute deviation of a normal distribution is 0.6745 standard deviations.
NORMAL_MAD = 0.6745
#: Fewer values than this say nothing about what is normal.
FEWEST = 5
#: Spread below which a difference is noise of any careful measurement, in log units (1 %).
LEAST_SPREAD = 0.01

OUTLIER_COLUMNS = (
    "device",
    "benchmark",
    "backend",
    "dtype",
    "params",
    "machine",
    "metric",
    "unit",
    "value",
    "median",
    "robust_z",
    "count",
    "id",
)
REGRESSION_COLUMNS = (
    "device", "machine", "benchmark", "backend", "dtype", "params", "metric", "unit",
    "from_version", "to_version", "before", "after", "worse_pct", "id",
)  # fmt: skip


def _usable(measurements: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [m for m in measurements if m["status"] == "ok" and m["retracted"] is None and m["value"] is not None and m["value"] > 0]


def _shared(m: Mapping[str, Any]) -> dict[str, Any]:
    return {name: m[name] for name in ("benchmark", "backend", "dtype", "params", "metric", "unit")} | {
        "device": m["device_name"] or m["device"]
    }


def outliers(measurements: Iterable[Mapping[str, Any]], threshold: float = THRESHOLD) -> list[dict[str, Any]]:
    """Return measurements (dictionaries of ``Store.measurements``) far from the median of the same product doing the same thing.

    ``robust_z`` is 0.6745 · (x − median) / MAD of the logarithms, so that twice and half are equally far. The farthest come first.
    """
    fleets: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for m in _usable(measurements):
        product = m["device_profile"] or m["device_name"] or m["device"]
        fleets[(product, m["benchmark"], m["backend"], m["dtype"], m["metric"], m["unit"], canonical_json(m["params"]))].append(m)
    found = []
    for fleet in fleets.values():
        if len(fleet) < FEWEST:
            continue
        logs = [math.log(m["value"]) for m in fleet]
        middle = statistics.median(logs)
        spread = max(statistics.median(abs(value - middle) for value in logs), LEAST_SPREAD)
        for m, value in zip(fleet, logs, strict=True):
            score = NORMAL_MAD * (value - middle) / spread
            if abs(score) >= threshold:
                own = {"machine": m["machine"], "value": m["value"], "id": m["id"]}
                found.append(_shared(m) | own | {"median": math.exp(middle), "robust_z": score, "count": len(fleet)})
    return sorted(found, key=lambda row: -abs(row["robust_z"]))


def regressions(measurements: Iterable[Mapping[str, Any]], least_pct: float = 5.0) -> list[dict[str, Any]]:
    """Return where a later framework version is slower than the one before it on the same machine doing the same thing.

    Versions follow each other by when they were first measured; each stands for the median of its measurements. Slower means by at
    least ``least_pct`` percent, and outside the 95 % interval of the newest measurement where it has one. The worst come first.
    """
    lines: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for m in _usable(measurements):
        if m["backend_version"] is not None and m["measured_at"] is not None:
            lines[m["series"]][m["backend_version"]].append(m)
    found = []
    for versions in lines.values():
        inorder = sorted(versions.items(), key=lambda item: min(m["measured_at"] for m in item[1]))
        for (old, before), (new, after) in itertools.pairwise(inorder):
            change = _regression(before, after)
            if change is not None and change["worse_pct"] >= least_pct:
                newest = max(after, key=lambda m: m["measured_at"])
                own = {"machine": newest["machine"], "from_version": old, "to_version": new, "id": newest["id"]}
                found.append(_shared(newest) | own | change)
    return sorted(found, key=lambda row: -row["worse_pct"])


def _regression(before: list[Mapping[str, Any]], after: list[Mapping[str, Any]]) -> dict[str, float] | None:
    """Return the medians and by how many percent more time the same work takes; None where it may be chance."""
    was, now = (statistics.median(m["value"] for m in side) for side in (before, after))
    newest = max(after, key=lambda m: m["measured_at"])
    low, high = newest["low"], newest["high"]
    if low is not None and high is not None and low <= was <= high:
        return None
    slowdown = now / was if newest["metric"] == "seconds" else was / now
    return {"before": was, "after": now, "worse_pct": 100 * (slowdown - 1)}
