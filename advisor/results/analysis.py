"""What stands out among measurements: outliers against the fleet, regressions between framework versions. Needs numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from advisor.results import queries
from advisor.results.columns import UNKNOWN
from advisor.results.filters import Filters
from advisor.results.frame import Array, Frame, load
from advisor.results.groups import arranged, middle_of, number_of, sorted_within

#: Modified z-score from which a value counts as an outlier (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
THRESHOLD = 3.5
#: The modified z-score's factor: the median absolute deviation of a normal distribution is 0.6745 standard deviations.
NORMAL_MAD = 0.6745
#: Fewer values than this say nothing about what is normal.
FEWEST = 5
#: Spread below which a difference is noise of any careful measurement, in log units (1 %).
LEAST_SPREAD = 0.01
#: By how many percent more time something must take to count as a regression.
LEAST_PCT = 5.0

#: Fields of a *what* that are the same for measurements that can be compared.
_SAME = ("benchmark", "backend", "dtype", "metric", "unit")

OUTLIER_COLUMNS = (
    "device", "benchmark", "backend", "dtype", "params", "machine", "metric", "unit", "value", "median", "robust_z", "count", "id",
)  # fmt: skip
REGRESSION_COLUMNS = (
    "device", "machine", "benchmark", "backend", "dtype", "params", "metric", "unit",
    "from_version", "to_version", "before", "after", "worse_pct", "id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Findings:
    """Rows by name of column, the worst first; how many there are beyond those; how many measurements were looked at."""

    rows: list[dict[str, Any]]
    more: bool
    looked_at: int


def outliers(connection: Connection, filters: Filters) -> Findings:
    """Return measurements far from the median of the same product doing the same thing, at most ``filters.limit``.

    ``robust_z`` is 0.6745 · (x − median) / MAD of the logarithms, so that twice and half are equally far. The farthest come first.
    """
    frame = _usable(load(connection, filters, ["ids", "readings", "whats", "devices", "cases"]))
    product, _ = frame.table("devices", lambda device: device.profile or device.name or device.key, frame.devices())
    what, _ = frame.table(
        "whats", lambda what: tuple(what[name] for name in ("benchmark", "backend", "dtype", "metric", "unit")), frame.whats
    )
    fleet = number_of(product, what, frame["cases"])
    # Most of what is published stands alone: only fleets that are large enough are looked at.
    large = np.flatnonzero(np.bincount(fleet)[fleet] >= FEWEST)
    looked_at, frame, fleet = len(frame), frame.where(large), number_of(fleet[large])
    scores, medians, sizes = robust_z(fleet, frame["readings"])
    found = np.flatnonzero(np.abs(scores) >= THRESHOLD)
    found = found[np.argsort(-np.abs(scores[found]), kind="stable")]
    rows = []
    for index, row in zip(found, _rows(connection, frame, found[: filters.limit]), strict=False):
        own = {"median": float(medians[fleet[index]]), "robust_z": float(scores[index]), "count": int(sizes[fleet[index]])}
        rows.append(_shared(row) | {"value": row["value"]} | own)
    return Findings(rows, len(rows) < len(found), looked_at)


def robust_z(group: Array, values: Array) -> tuple[Array, Array, Array]:
    """Return the score of each value in its group, and the median and the number of values of each group."""
    size = np.bincount(group)
    logs = np.log(values)
    middle = _medians(group, logs, size)
    spread = np.maximum(_medians(group, np.abs(logs - middle[group]), size), LEAST_SPREAD)
    return NORMAL_MAD * (logs - middle[group]) / spread[group], np.exp(middle), size


def regressions(connection: Connection, filters: Filters) -> Findings:
    """Return where a later framework version is slower than the one before it on the same machine doing the same thing.

    Versions follow each other by when they were first measured; each stands for the median of its measurements. Slower means by at
    least ``LEAST_PCT`` percent, and outside the 95 % interval of the newest measurement where it has one. The worst come first.
    """
    frame = load(connection, filters, ["ids", "readings", "whats", "series", "moments"])
    dated = np.flatnonzero(_is_usable(frame, lambda what: what["backend_version"] is not None) & (frame["moments"] != UNKNOWN))
    if not len(dated):
        return Findings([], False, 0)
    _, series = np.unique(frame["series"][dated], return_inverse=True)
    maybe = _differing(series, frame["readings"][dated])
    frame, series = frame.where(dated[maybe]), series[maybe]
    if not len(frame):
        return Findings([], False, len(dated))
    version, versions = frame.table("whats", lambda what: what["backend_version"], frame.whats)
    seconds, of_metric = frame.table("whats", lambda what: what["metric"] == "seconds", frame.whats)
    steps = _steps(frame, series, version, np.array(of_metric)[seconds])
    rows: list[dict[str, Any]] = []
    batch = filters.limit or len(steps.worse)
    for start in range(0, len(steps.worse), max(1, batch)):
        stored = _rows(connection, frame, steps.newest[start : start + batch])
        for place, row in enumerate(stored, start):
            before = float(steps.before[place])
            if row["low"] is not None and row["high"] is not None and row["low"] <= before <= row["high"]:
                continue  # It may be chance.
            own = {"from_version": versions[steps.old[place]], "to_version": versions[steps.new[place]]}
            rows.append(_shared(row) | own | {"before": before, "after": float(steps.after[place]), "worse_pct": float(steps.worse[place])})
        if filters.limit is not None and len(rows) > filters.limit:
            break
    return Findings(rows[: filters.limit], filters.limit is not None and len(rows) > filters.limit, len(dated))


@dataclass(frozen=True, slots=True)
class _Steps:
    """Where one version of a series follows another and is slower, the worst first: arrays of equal length."""

    old: Array
    new: Array
    before: Array
    after: Array
    worse: Array
    newest: Array


def _steps(frame: Frame, series: Array, version: Array, is_time: Array) -> _Steps:
    line = number_of(series, version)
    size = np.bincount(line)
    medians = _medians(line, frame["readings"], size)
    in_time = sorted_within(line, frame["moments"])
    start = np.cumsum(size) - size
    first, last = in_time[start], in_time[start + size - 1]
    # One line a series and version; along each series in the order in which its versions were first measured.
    order = np.lexsort((frame["moments"][first], series[first]))
    old, new = order[:-1], order[1:]
    same = series[first[old]] == series[first[new]]
    old, new = old[same], new[same]
    before, after = medians[old], medians[new]
    worse = 100 * (np.where(is_time[first[new]], after / before, before / after) - 1)
    chosen = np.flatnonzero(worse >= LEAST_PCT)
    chosen = chosen[np.argsort(-worse[chosen], kind="stable")]
    return _Steps(version[first[old]][chosen], version[first[new]][chosen], before[chosen], after[chosen], worse[chosen], last[new][chosen])


def _differing(series: Array, values: Array) -> Array:
    """Return which measurements belong to a series whose values differ by as much as a regression does: the medians cannot otherwise."""
    low, high = np.full(int(series.max()) + 1, np.inf), np.zeros(int(series.max()) + 1)
    np.minimum.at(low, series, values)
    np.maximum.at(high, series, values)
    differing: Array = (high >= low * (1 + LEAST_PCT / 100))[series]
    return differing


def _usable(frame: Frame) -> Frame:
    return frame.where(_is_usable(frame, lambda what: True))


def _is_usable(frame: Frame, also: Callable[[dict[str, Any]], bool]) -> Array:
    """Return which measurements are ok, have a value above zero, and are ``also`` so by their *what*."""
    status, names = frame.table("whats", lambda what: what["status"] == "ok" and also(what), frame.whats)
    usable: Array = np.array([*names, False])[status] & (frame["readings"] > 0)
    return usable


def _medians(group: Array, values: Array, size: Array) -> Array:
    ordered = arranged(group, values, size, middle_of)
    start = np.cumsum(size) - size
    medians: Array = (ordered[start + (size - 1) // 2] + ordered[start + size // 2]) / 2
    return medians


def _rows(connection: Connection, frame: Frame, places: Array) -> list[dict[str, Any]]:
    return queries.by_ids(connection, [frame.id_of(place) for place in places])


def _shared(m: dict[str, Any]) -> dict[str, Any]:
    same = {name: m[name] for name in ("benchmark", "backend", "dtype", "params", "metric", "unit", "machine", "id")}
    return same | {"device": m["device_name"] or m["device"]}


#: What can be asked for, and the columns of its answer.
KINDS: dict[str, tuple[Callable[[Connection, Filters], Findings], tuple[str, ...]]] = {
    "outliers": (outliers, OUTLIER_COLUMNS),
    "regressions": (regressions, REGRESSION_COLUMNS),
}
