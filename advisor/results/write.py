"""Insert rows that are not there yet, fast, on both databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

#: Rows of one statement's execution; bounds the memory of a large import.
BATCH = 2_000


def insert_new(connection: Connection, table: type, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert ``rows`` into the table of a mapped class, passing over those whose key is there; return how many were new.

    Rows may leave out columns that allow null. Safe against another process inserting the same row at the same time.
    """
    if not rows:
        return 0
    columns = list(table.__table__.columns.keys())  # type: ignore[attr-defined]
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    new = 0
    for start in range(0, len(rows), BATCH):
        batch = [{name: row.get(name) for name in columns} for row in rows[start : start + BATCH]]
        new += max(connection.execute(statement, batch).rowcount, 0)
    return new


def existing(connection: Connection, table: type, identifiers: Sequence[str]) -> dict[str, str]:
    """Return the content hash by id of those ``identifiers`` that ``table`` holds."""
    found: dict[str, str] = {}
    columns = table.__table__.columns  # type: ignore[attr-defined]
    for start in range(0, len(identifiers), BATCH):
        part = list(identifiers[start : start + BATCH])
        query = sa.select(columns.id, columns.content_hash).where(columns.id.in_(part))
        found.update({row[0]: row[1] for row in connection.execute(query)})
    return found
