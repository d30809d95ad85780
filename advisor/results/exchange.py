"""Export, import and merge: records, one a line of JSON, in an order in which each stands after what it refers to.

    {"record": "header", "format": "advisor-results", "version": 1, …}
    {"record": "machine" | "environment" | "device" | "run" | "measurement" | "trial" | "recommendation" | "retraction", …}

Importing is idempotent: what is there by id and content is passed over; the same id with other content is a conflict, which is
reported and never stored. What another database calls ``local`` becomes ``shared`` here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from advisor.errors import DatabaseError, UsageError
from advisor.results.answers import recommendation_dict
from advisor.results.filters import Filters
from advisor.results.hash import unpack_samples
from advisor.results.rows import iso, now
from advisor.results.schema import (
    SCHEMA_REVISION,
    Device,
    Machine,
    Measurement,
    PlanTrial,
    Recommendation,
    Retraction,
    Run,
    SoftwareEnvironment,
)
from advisor.results.terms import conditions

FORMAT = "advisor-results"
VERSION = 1
#: Tables whose rows are exported as they are, in the order of their references.
PLAIN = {"machine": Machine, "environment": SoftwareEnvironment, "device": Device, "run": Run}
_FETCH = 2_000


def export_records(connection: Connection, filters: Filters) -> Iterator[dict[str, Any]]:
    """Yield the records of the measurements of ``filters`` and all they refer to; without filters also trials and answers."""
    everything = filters == Filters(retracted=True)
    yield {"record": "header", "format": FORMAT, "version": VERSION, "schema_revision": SCHEMA_REVISION, "exported_at": iso(now())}
    terms = conditions(connection, filters)
    chosen = sa.select(Measurement.id, Measurement.run_id, Measurement.device_id).where(*terms).subquery()
    if everything:
        yield from _context(connection, sa.select(Run.id), sa.select(Device.id), sa.select(Machine.id))
    else:
        yield from _context(connection, sa.select(chosen.c.run_id), sa.select(chosen.c.device_id))
    yield from _measurements(connection, terms, filters.limit)
    marks = sa.select(*Retraction.__table__.columns)
    if everything:
        yield from _rest(connection)
    else:
        marks = marks.where(Retraction.target_id.in_(sa.select(chosen.c.id)))
    for row in connection.execute(marks).mappings():
        yield {"record": "retraction", **_plain(row)}


def records_of(connection: Connection, measurements: Sequence[str], trials: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the records of these measurements and trials and all they refer to, without what withdrew them."""
    mine = Measurement.id.in_(measurements)
    runs = sa.select(Measurement.run_id).where(mine).union(sa.select(PlanTrial.run_id).where(PlanTrial.id.in_(trials)))
    yield from _context(connection, runs, sa.select(Measurement.device_id).where(mine))
    yield from _measurements(connection, [mine], None)
    yield from _trials(connection, [PlanTrial.id.in_(trials)])


def _context(connection: Connection, runs: Any, devices: Any, machines: Any = None) -> Iterator[dict[str, Any]]:
    """Yield machines (those of the runs, unless they are given), environments, devices and runs."""
    of_runs = sa.select(Run.machine_id).where(Run.id.in_(runs)) if machines is None else machines
    wanted = {
        "machine": Machine.id.in_(of_runs),
        "environment": SoftwareEnvironment.id.in_(sa.select(Run.environment_id).where(Run.id.in_(runs))),
        "device": Device.id.in_(devices),
        "run": Run.id.in_(runs),
    }
    for record, table in PLAIN.items():
        for row in connection.execute(sa.select(*table.__table__.columns).where(wanted[record])).mappings():
            yield {"record": record, **_plain(row)}


def _measurements(connection: Connection, terms: Sequence[Any], limit: int | None) -> Iterator[dict[str, Any]]:
    query = sa.select(*Measurement.__table__.columns, Device.key.label("device")).join(Device, Device.id == Measurement.device_id)
    query = query.where(*terms).order_by(Measurement.id).limit(limit)
    for row in connection.execution_options(yield_per=_FETCH).execute(query).mappings():
        yield {"record": "measurement", **_plain(row), "sample_seconds": unpack_samples(row["sample_seconds"])}


def _trials(connection: Connection, terms: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for row in connection.execute(sa.select(*PlanTrial.__table__.columns).where(*terms).order_by(PlanTrial.id)).mappings():
        yield {"record": "trial", **_plain(row)}


def _rest(connection: Connection) -> Iterator[dict[str, Any]]:
    yield from _trials(connection, [])
    for row in connection.execute(sa.select(*Recommendation.__table__.columns).order_by(Recommendation.id)).mappings().all():
        yield {"record": "recommendation", **_plain(row), "plans": recommendation_dict(connection, row)["plans"]}


def _plain(row: RowMapping) -> dict[str, Any]:
    return {str(name): iso(value) if name.endswith("_at") else value for name, value in row.items() if not isinstance(value, bytes)}


def check_header(record: Mapping[str, Any]) -> None:
    """Raise DatabaseError where an export was written by a newer program, UsageError where it is another kind of file."""
    if record.get("format") != FORMAT:
        raise UsageError(f"not an export of results: format {record.get('format')!r}")
    version = record.get("version")
    if not isinstance(version, int) or version > VERSION:
        message = f"the export has version {version!r}; this advisor reads up to {VERSION}"
        raise DatabaseError("DB-NEWER", message, "run `pip install --upgrade hw-advisor`")
