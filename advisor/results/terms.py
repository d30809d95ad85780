"""Filters as terms of SQL: names of devices, machines and models are looked up, so that indexes serve the rest."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql import ColumnElement

from advisor.results.filters import LISTED, Filters, squash
from advisor.results.schema import ColumnCode, Device, Machine, Measurement, Retraction, Run


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
