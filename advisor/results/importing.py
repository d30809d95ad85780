"""Take records into a database: check each, pass over what is there, report conflicts, store the rest in batches.

A batch is one transaction. An import that stops in the middle has stored whole batches; repeating it stores the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from advisor.errors import UsageError
from advisor.results.incoming import TABLES, Incoming
from advisor.results.schema import Measurement
from advisor.results.store import Store
from advisor.results.write import existing, insert_measurements, insert_new

BATCH = 5_000


@dataclass(slots=True)
class Summary:
    """What an import did: counts by kind of record, and the ids of what was refused for having other content under a known id."""

    new: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON holds it."""
        return {"new": self.new, "known": self.known, "conflicts": self.conflicts}

    def add(self, other: Summary) -> None:
        """Add what another batch did."""
        for mine, theirs in ((self.new, other.new), (self.known, other.known)):
            for kind, number in theirs.items():
                mine[kind] = mine.get(kind, 0) + number
        self.conflicts += other.conflicts


class Importer:
    """One import into ``store``; ``origin`` is what local measurements of the other side become here."""

    def __init__(self, store: Store, *, origin: str = "shared") -> None:
        self.store = store
        self.summary = Summary()
        self._batch = Incoming(store, origin=origin)

    def take(self, records: Iterable[tuple[str, Mapping[str, Any]]]) -> Summary:
        """Store ``records`` (place, record); raises UsageError naming the place of the first that is wrong."""
        for place, record in records:
            try:
                self._batch.add(record)
            except (UsageError, RecursionError, OverflowError) as error:
                self._flush()
                if isinstance(error, UsageError):
                    raise UsageError(f"{place}: {error.message}", error.hint, error.code) from error
                raise UsageError(f"{place}: nested too deeply, or a number out of range") from error
            if self._batch.size >= BATCH:
                self._flush()
        self._flush()
        return self.summary

    def _flush(self) -> None:
        if self._batch.size:
            self.summary.add(self.store.write(lambda connection: store_rows(connection, self._batch.rows)))
            self._batch.clear()


def store_rows(connection: Connection, rows: Mapping[str, list[dict[str, Any]]]) -> Summary:
    """Store rows by kind (see ``incoming.TABLES``) in the caller's transaction; what is there by id is passed over."""
    done = Summary()
    for kind, table in TABLES.items():
        wanted = given = rows[kind]
        if not given:
            continue
        if kind in ("measurement", "trial"):
            stored = existing(connection, table, [row["id"] for row in given])
            done.conflicts += [row["id"] for row in given if stored.get(row["id"], row["content_hash"]) != row["content_hash"]]
            wanted = [row for row in given if row["id"] not in stored]
        try:
            new = insert_measurements(connection, wanted) if table is Measurement else insert_new(connection, table, wanted)
        except sa.exc.IntegrityError as error:
            if getattr(error.orig, "sqlstate", None) == "23505":
                raise
            raise UsageError(f"a {kind} refers to something that is neither in the file nor in the database") from error
        if kind != "plan":
            done.new[kind] = new
            done.known[kind] = len(given) - new
    return done
