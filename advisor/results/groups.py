"""Measurements by group: how many, the best, the median and the spread. Needs numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from advisor.errors import UnknownName
from advisor.results.filters import Filters
from advisor.results.frame import Array, Frame, load

#: Keys that the *what* of a measurement holds, and the field behind each.
_OF_WHAT = {
    "benchmark": "benchmark",
    "backend": "backend",
    "version": "backend_version",
    "dtype": "dtype",
    "model": "model",
    "origin": "origin",
    "status": "status",
}
#: Keys that a device has.
_OF_DEVICE: dict[str, Callable[[Any], Any]] = {
    "device": lambda device: device.name if device.name is not None else device.key,
    "class": lambda device: next((value for value in (device.hw_class, device.profile, device.name) if value is not None), None),
}
#: Keys that are stretches of time: numpy's unit.
_OF_TIME = {"month": "M", "day": "D"}
#: What can be grouped by, besides ``params.NAME``.
KEYS = (*_OF_WHAT, *_OF_DEVICE, "machine", *_OF_TIME)
#: Up to so many groups are looked at one by one.
FEW_GROUPS = 2_000
STATISTICS = ("count", "best", "median", "p10", "p90", "min", "max", "mean")


def groups(
    connection: Connection, filters: Filters, by: Sequence[str], product: Callable[[Any], str | None] | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return (columns, rows): the keys ``by``, metric, unit, ``STATISTICS`` and the id of the best, the best first in each metric.

    Only measurements that are ok and have a value count. Units are never mixed: metric and unit are always part of the group.
    ``best`` is the least for seconds and the greatest for rates; p10 and p90 are nearest ranks. ``product`` names the class of a device's
    row where it knows better than the row itself.
    """
    check_keys(by)
    frame = load(connection, filters, needed_columns(by))
    return groups_of(frame, by, any_status=filters.status is not None, limit=filters.limit, product=product)


def check_keys(by: Sequence[str]) -> None:
    """Raise UnknownName for what cannot be grouped by."""
    for name in by:
        if name not in KEYS and not (name.startswith("params.") and len(name) > len("params.")):
            raise UnknownName("key to group by", name, [*KEYS, "params.NAME"])


def needed_columns(by: Sequence[str]) -> list[str]:
    """Return the columns that ``groups_of`` needs for these keys."""
    found = ["ids", "readings", "whats"]
    for name in by:
        if name in _OF_DEVICE:
            found.append("devices")
        elif name in _OF_TIME:
            found.append("moments")
        elif name == "machine":
            found.append("runs")
        elif name not in _OF_WHAT:
            found.append("cases")
    return list(dict.fromkeys(found))


def groups_of(
    frame: Frame,
    by: Sequence[str],
    *,
    any_status: bool = False,
    limit: int | None = None,
    product: Callable[[Any], str | None] | None = None,
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return what ``groups`` returns, of the measurements of ``frame``."""
    counted = ~np.isnan(frame["readings"])
    if not any_status:
        status, names = frame.table("whats", lambda what: what["status"] == "ok", frame.whats)
        counted &= np.array([*names, False])[status]
    frame = frame.where(counted)
    number, labels = _numbered(frame, by, product)
    rows = _statistics(frame, number, labels)
    rows.sort(key=lambda row: (row[len(by)], row[len(by) + 1], row[-1], [(key is not None, str(key)) for key in row[: len(by)]]))
    found = [(*row[:-2], frame.id_of(row[-2])) for row in rows[:limit]]
    return [*by, "metric", "unit", *STATISTICS, "best_id"], found


def _numbered(frame: Frame, by: Sequence[str], product: Callable[[Any], str | None] | None) -> tuple[Array, list[tuple[Any, ...]]]:
    """Return the number of each measurement's group, and each group's keys, metric and unit."""
    parts = [_part(frame, name, product) for name in by]
    parts.append(frame.table("whats", lambda what: (what["metric"], what["unit"]), frame.whats))
    number, span = np.zeros(len(frame), dtype=np.int64), 1
    for codes, labels in parts:
        if span * len(labels) >= 1 << 62:
            first, number = compact(number, span)
            span = len(first)
        number, span = number * len(labels) + codes, span * max(1, len(labels))
    first, number = compact(number, span)
    keys = [[labels[code] for code in codes[first].tolist()] for codes, labels in parts]
    return number, [(*(part[group] for part in keys[:-1]), *keys[-1][group]) for group in range(len(first))]


def compact(number: Array, span: int) -> tuple[Array, Array]:
    """Return where each of the numbers below ``span`` that occur stands first, and the numbers renumbered without gaps."""
    if span > 1 << 22:
        _, first, dense = np.unique(number, return_index=True, return_inverse=True)
        return first, dense
    place = np.full(span, -1, dtype=np.int64)
    place[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    used = place >= 0
    return place[used], (np.cumsum(used) - 1)[number]


def number_of(*columns: Array) -> Array:
    """Return the number of each row's combination of codes, without gaps."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        _, codes = compact(column.astype(np.int64), int(column.max(initial=0)) + 1)
        width = int(codes.max(initial=0)) + 1
        _, number = compact(number * width + codes, (int(number.max(initial=0)) + 1) * width)
    return number


def _part(frame: Frame, name: str, product: Callable[[Any], str | None] | None) -> tuple[Array, list[Any]]:
    if name in _OF_WHAT:
        field = _OF_WHAT[name]
        return frame.table("whats", lambda what: what[field], frame.whats)
    if name in _OF_DEVICE:
        own = _OF_DEVICE[name]
        named = (lambda device: product(device) or own(device)) if product is not None and name == "class" else own
        return frame.table("devices", named, frame.devices())
    if name == "machine":
        return frame.table("runs", lambda fingerprint: fingerprint, frame.machines())
    if name in _OF_TIME:
        periods, codes = np.unique(frame["moments"].astype("datetime64[us]").astype(f"datetime64[{_OF_TIME[name]}]"), return_inverse=True)
        return codes, [None if np.isnat(period) else str(period) for period in periods]
    key = name.removeprefix("params.")
    return frame.table("cases", lambda case: _text(case.get(key)), frame.cases())


def _text(value: Any) -> str | None:
    """Return a parameter as a key: JSON's words for truth, whole numbers without a point."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _statistics(frame: Frame, number: Array, labels: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return, for each group, its keys, ``STATISTICS``, the index of the best, and what to sort by."""
    if not labels:
        return []
    readings = frame["readings"]
    size = np.bincount(number, minlength=len(labels))
    values = arranged(number, readings, size, lambda count: [0, *middle_of(count), nearest(count, 10), nearest(count, 90), count - 1])
    start = np.cumsum(size) - size
    middle = (values[start + (size - 1) // 2] + values[start + size // 2]) / 2
    p10, p90 = (values[start + nearest(size, percent)].tolist() for percent in (10, 90))
    mean = (np.add.reduceat(values, start) / size).tolist()
    low, high = values[start].tolist(), values[start + size - 1].tolist()
    is_time = np.array([keys[-2] == "seconds" for keys in labels])
    best_of = np.where(is_time, low, high)
    found = np.flatnonzero(readings == best_of[number])[::-1]
    place = np.zeros(len(labels), dtype=np.int64)
    place[number[found]] = found
    rows = []
    for group, keys in enumerate(labels):
        best = float(best_of[group])
        spread = (p10[group], p90[group], low[group], high[group], mean[group])
        rows.append((*keys, int(size[group]), best, float(middle[group]), *spread, int(place[group]), best if is_time[group] else -best))
    return rows


def middle_of(count: int) -> list[int]:
    """Return the places of the one or two in the middle."""
    return [(count - 1) // 2, count // 2]


def nearest(count: Any, percent: int) -> Any:
    """Return the place of the nearest rank of a percentile."""
    return (count * percent + 99) // 100 - 1


def arranged(number: Array, values: Array, size: Array, places: Callable[[int], list[int]]) -> Array:
    """Return the values by group, with those at ``places(count)`` of each group where sorting would put them."""
    if len(size) > FEW_GROUPS:
        return values[sorted_within(number, values)]
    # Numpy sorts small integers by their digits, in linear time; and few places of a group are found without sorting all of it.
    within: Array = values[np.argsort(number.astype(np.uint16), kind="stable")]
    start = 0
    for count in size.tolist():
        within[start : start + count].partition(sorted(set(places(count))))
        start += count
    return within


def sorted_within(number: Array, values: Array) -> Array:
    """Return the order by group and then by value."""
    order = np.argsort(values)
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    keys = np.sort(number.astype(np.int64) * len(values) + rank)
    return order[keys % max(1, len(values))]
