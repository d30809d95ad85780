"""Measurements by filters, as rows. Every function takes a connection and returns plain data."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql import Select

from advisor.results.filters import Filters
from advisor.results.rows import measurement_dict
from advisor.results.schema import Device, Machine, Measurement, Retraction, Run
from advisor.results.terms import conditions

#: Ids asked for in one statement.
_ASK = 5_000


def measurement_select(*, samples: bool = False) -> Select[Any]:
    """Return the select that ``rows.measurement_dict`` reads: measurement, device, machine, retraction."""
    table = Measurement.__table__
    columns = [column for column in table.columns if column.name not in ("device_id", "sample_seconds")]
    if samples:
        columns.append(table.columns.sample_seconds)
    return (
        sa.select(
            *columns,
            Device.key.label("device"),
            Device.name.label("device_name"),
            Device.profile.label("device_profile"),
            Device.hw_class,
            Run.machine_id,
            Machine.fingerprint.label("machine"),
            Retraction.reason.label("retracted"),
        )
        .select_from(Measurement)
        .join(Device, Device.id == Measurement.device_id)
        .join(Run, Run.id == Measurement.run_id)
        .outerjoin(Machine, Machine.id == Run.machine_id)
        .outerjoin(Retraction, Retraction.target_id == Measurement.id)
    )


def measurements(connection: Connection, filters: Filters) -> list[dict[str, Any]]:
    """Return the measurements of ``filters``, newest first; those of unknown date (published ones) last."""
    if filters.latest or (filters.limit is not None and filters.narrows()):
        # Which ones is told by the columns, at once and exactly, however few of a million they are.
        from advisor.results.newest import newest_ids

        return by_ids(connection, newest_ids(connection, filters), samples=filters.samples)
    newest_first = (Measurement.measured_at.desc().nulls_last(), Measurement.id.desc())
    query = measurement_select(samples=filters.samples)
    terms = conditions(connection, filters)
    if filters.limit is None:
        query = query.where(*terms)
    else:
        # Chosen before anything is joined, along the index of measured_at: those with a date first, then those without.
        chosen = sa.select(Measurement.id).where(*terms).order_by(*newest_first).limit(filters.limit).subquery()
        query = query.join(chosen, chosen.c.id == Measurement.id)
    rows = connection.execute(query.order_by(*newest_first)).mappings()
    return [measurement_dict(dict(row), samples=filters.samples) for row in rows]


def by_ids(connection: Connection, identifiers: list[str], *, samples: bool = False) -> list[dict[str, Any]]:
    """Return the measurements of these ids in their order; an id that nobody has is passed over."""
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(identifiers), _ASK):
        query = measurement_select(samples=samples).where(Measurement.id.in_(identifiers[start : start + _ASK]))
        found |= {row["id"]: measurement_dict(dict(row), samples=samples) for row in connection.execute(query).mappings()}
    return [found[identifier] for identifier in identifiers if identifier in found]


def measurement(connection: Connection, identifier: str) -> dict[str, Any] | None:
    """Return the measurement of that id with its samples, withdrawn or not, or None."""
    return next(iter(by_ids(connection, [identifier], samples=True)), None)
