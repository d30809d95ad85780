"""Measurements by filters, as rows. Every function takes a connection and returns plain data."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql import ColumnElement, Select

from advisor.results.filters import LISTED, Filters, squash
from advisor.results.rows import measurement_dict
from advisor.results.schema import ColumnCode, Device, Machine, Measurement, Retraction, Run

#: Ids asked for in one statement.
_ASK = 5_000


def conditions(connection: Connection, filters: Filters) -> list[ColumnElement[bool]]:
    """Return the WHERE terms of ``filters``; names of devices and machines are looked up first, so that indexes serve the rest."""
    terms: list[ColumnElement[bool]] = []
    for name in LISTED:
        values = filters.listed(name)
        if values is not None:
            terms.append(getattr(Measurement, name).in_(values))
    if filters.device is not None:
        terms.append(Measurement.device_id.in_(device_ids(connection, filters.device)))
    if filters.device_ids is not None:
        terms.append(Measurement.device_id.in_(filters.device_ids))
    if filters.machine is not None:
        runs = sa.select(Run.id).join(Machine, Machine.id == Run.machine_id).where(of_machine(filters.machine))
        terms.append(Measurement.run_id.in_(runs))
    if filters.run is not None:
        terms.append(beginning(Measurement.run_id, filters.run))
    if filters.model is not None:
        terms.append(Measurement.model.in_(models(connection, filters.model)))
    if filters.since is not None:
        terms.append(Measurement.measured_at >= filters.since)
    if not filters.retracted:
        terms.append(Measurement.id.not_in(sa.select(Retraction.target_id)))
    return terms


def models(connection: Connection, text: str) -> list[str]:
    """Return the names of the measured models that ``text`` is a part of."""
    known = {
        document["model"] for document in connection.execute(sa.select(ColumnCode.document).where(ColumnCode.kind == "what")).scalars()
    }
    wanted = squash(text)
    return sorted(model for model in known if model is not None and wanted in squash(model))


def device_ids(connection: Connection, text: str) -> list[str]:
    """Return the ids of the devices that ``text`` means.

    The id of a probed device or a profile's name means exactly that (``cuda:1`` is not ``cuda:10``); anything else is a part of a name.
    """
    rows = connection.execute(sa.select(Device.id, Device.machine_id, Device.key, Device.name, Device.profile, Device.hw_class)).all()
    low = text.lower()
    exact = [row.id for row in rows if low in {row.id, str(row.profile).lower(), row.key.lower() if row.machine_id else ""}]
    if exact:
        return exact
    wanted = squash(text)
    return [row.id for row in rows if any(part and wanted in squash(part) for part in row[2:])]


def beginning(column: Any, text: str) -> ColumnElement[bool]:
    """Return the term "``column`` begins with ``text``", with no character of it special."""
    term: ColumnElement[bool] = column.startswith(text, autoescape=True)
    return term


def of_machine(text: str) -> ColumnElement[bool]:
    """Return the term "the machine's fingerprint or id begins with ``text``"."""
    return beginning(Machine.fingerprint, text) | beginning(Machine.id, text)


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
