"""Measurements by group: how many, the best, the median and the spread, computed by the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from advisor.errors import UnknownName
from advisor.results.queries import Filters, conditions
from advisor.results.schema import Device, Machine, Measurement, Run

#: What can be grouped by, and the column behind it.
KEYS: dict[str, Any] = {
    "benchmark": Measurement.benchmark,
    "backend": Measurement.backend,
    "version": Measurement.backend_version,
    "dtype": Measurement.dtype,
    "model": Measurement.model,
    "origin": Measurement.origin,
    "status": Measurement.status,
    "device": sa.func.coalesce(Device.name, Device.key),
    "class": sa.func.coalesce(Device.hw_class, Device.profile, Device.name),
    "machine": Machine.fingerprint,
    "month": None,
    "day": None,
}
STATISTICS = ("count", "best", "median", "p10", "p90", "min", "max", "mean")


def groups(connection: Connection, filters: Filters, by: Sequence[str]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return (columns, rows): the keys ``by``, metric, unit, ``STATISTICS`` and the id of the best, the best first in each metric.

    Only measurements that are ok and have a value count. Units are never mixed: metric and unit are always part of the group.
    ``best`` is the least for seconds and the greatest for rates; p10 and p90 are nearest ranks.
    """
    keys = [_key(connection, name).label(f"key_{name}") for name in by]
    together = [*keys, Measurement.metric, Measurement.unit]
    value = Measurement.value
    ranked = (
        sa.select(
            *together,
            Measurement.id,
            value,
            sa.func.row_number().over(partition_by=together, order_by=(value, Measurement.id)).label("place"),
            sa.func.count().over(partition_by=together).label("size"),
        )
        .select_from(Measurement)
        .join(Device, Device.id == Measurement.device_id)
        .join(Run, Run.id == Measurement.run_id)
        .outerjoin(Machine, Machine.id == Run.machine_id)
        .where(*conditions(connection, filters), value.is_not(None))
    )
    if filters.status is None:
        ranked = ranked.where(Measurement.status == "ok")
    inner = ranked.subquery()
    names = [inner.c[f"key_{name}"] for name in by]
    lesser = inner.c.metric == "seconds"
    place, size = inner.c.place, inner.c.size

    def at(condition: Any, column: Any = inner.c.value) -> Any:
        return sa.func.max(sa.case((condition, column)))

    def rank(percent: int) -> Any:
        return place == (size * percent + 99) // 100

    best = sa.case((lesser, sa.func.min(inner.c.value)), else_=sa.func.max(inner.c.value)).label("best")
    query = (
        sa.select(
            *names,
            inner.c.metric,
            inner.c.unit,
            sa.func.count().label("count"),
            best,
            sa.func.avg(sa.case((place.in_([(size + 1) // 2, (size + 2) // 2]), inner.c.value))).label("median"),
            at(rank(10)).label("p10"),
            at(rank(90)).label("p90"),
            sa.func.min(inner.c.value).label("min"),
            sa.func.max(inner.c.value).label("max"),
            sa.func.avg(inner.c.value).label("mean"),
            at(place == sa.case((lesser, 1), else_=size), inner.c.id).label("best_id"),
        )
        .group_by(*names, inner.c.metric, inner.c.unit)
        .order_by(inner.c.metric, inner.c.unit, sa.case((lesser, sa.func.min(inner.c.value)), else_=-sa.func.max(inner.c.value)), *names)
    )
    if filters.limit is not None:
        query = query.limit(filters.limit)
    rows = [tuple(row) for row in connection.execute(query)]
    return [*by, "metric", "unit", *STATISTICS, "best_id"], rows


def _key(connection: Connection, name: str) -> Any:
    if name.startswith("params.") and len(name) > len("params."):
        return Measurement.params[name.removeprefix("params.")].as_string()
    if name not in KEYS:
        raise UnknownName("key to group by", name, [*KEYS, "params.NAME"])
    if name in ("month", "day"):
        pattern = {"month": ("%Y-%m", "YYYY-MM"), "day": ("%Y-%m-%d", "YYYY-MM-DD")}[name]
        if connection.dialect.name == "sqlite":
            return sa.func.strftime(pattern[0], Measurement.measured_at)
        return sa.func.to_char(sa.func.timezone("UTC", Measurement.measured_at), pattern[1])
    return KEYS[name]
