"""Insert rows that are not there yet, fast, on both databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from advisor.results import columns
from advisor.results.hash import to_json
from advisor.results.schema import Measurement

#: Rows of one statement's execution; bounds the memory of a large import.
BATCH = 2_000


def insert_new(connection: Connection, table: type, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert ``rows`` into the table of a mapped class, passing over those whose key is there; return how many were new.

    Rows may leave out columns that allow null. Safe against another process inserting the same row at the same time.
    Measurements are inserted by ``insert_measurements``.
    """
    if not rows:
        return 0
    names = list(table.__table__.columns.keys())  # type: ignore[attr-defined]
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    new = 0
    for start in range(0, len(rows), BATCH):
        batch = [{name: row.get(name) for name in names} for row in rows[start : start + BATCH]]
        new += max(connection.execute(statement, batch).rowcount, 0)
    return new


def insert_measurements(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert measurements, passing over those whose id is there, and add the new ones to the columns; return how many were new.

    On PostgreSQL another writer who stores one of them at the same time makes this end with a unique violation: ``Database.write``
    begins again, and then it is there.
    """
    stored = existing(connection, Measurement, [row["id"] for row in rows])
    fresh = {row["id"]: row for row in rows if row["id"] not in stored}
    new = list(fresh.values())
    if not new:
        return 0
    names = list(Measurement.__table__.columns.keys())
    if connection.dialect.name == "postgresql":
        _copy(connection, names, _cells(new, names))
    else:
        marks = ", ".join("?" * len(names))
        statement = f"INSERT INTO measurements ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - names of our own columns
        connection.exec_driver_sql(statement, list(_cells(new, names, times_as_text=True)))
    columns.append(connection, new)
    return len(new)


def _cells(rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, times_as_text: bool = False) -> Iterator[tuple[Any, ...]]:
    """Yield the cells of measurements as the driver takes them: documents as JSON, instants as text where it has none."""
    others = [name for name in names if name not in ("params", "conditions", "measured_at")]
    place = {name: index for index, name in enumerate([*others, "params", "conditions", "measured_at"])}
    in_order, take = itemgetter(*(place[name] for name in names)), itemgetter(*others)
    for row in rows:
        moment = row["measured_at"]
        if times_as_text and moment is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
        yield in_order((*take(row), to_json(row["params"]), to_json(row["conditions"]), moment))


def _copy(connection: Connection, names: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert measurements by PostgreSQL's COPY, several times as fast as INSERT."""
    raw: Any = connection.connection.driver_connection
    statement = f"COPY measurements ({', '.join(names)}) FROM STDIN"
    try:
        with raw.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except raw.Error as error:
        dialect = connection.dialect
        raise sa.exc.DBAPIError.instance(statement, None, error, dialect.loaded_dbapi.Error, dialect=dialect) from error


def existing(connection: Connection, table: type, identifiers: Sequence[str]) -> dict[str, str]:
    """Return the content hash by id of those ``identifiers`` that ``table`` holds."""
    found: dict[str, str] = {}
    held = table.__table__.columns  # type: ignore[attr-defined]
    for start in range(0, len(identifiers), BATCH):
        part = list(identifiers[start : start + BATCH])
        query = sa.select(held.id, held.content_hash).where(held.id.in_(part))
        found.update({row[0]: row[1] for row in connection.execute(query)})
    return found
