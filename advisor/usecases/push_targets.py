"""Where measurements are pushed to: what every target does, and a shared database as one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from advisor.results.address import hide_password
from advisor.results.deliveries import MEASUREMENT, RETRACTION, TRIAL
from advisor.results.importing import Importer, store_rows
from advisor.results.incoming import TABLES
from advisor.results.rows import now
from advisor.results.store import Store

Record = dict[str, Any]


@dataclass(slots=True)
class Answer:
    """What a target said of a batch: how many records were new there, and why records (by id) were refused."""

    new: int = 0
    refused: dict[str, str] = field(default_factory=dict)


class Target(Protocol):
    """A shared database or server."""

    name: str

    def send(self, records: list[Record]) -> Answer:
        """Store the records; AdvisorError where the target cannot be reached or lets nobody in."""

    def withdraw(self, identifier: str, reason: str) -> str | None:
        """Withdraw a record; return why it was refused, or None."""

    def close(self) -> None:
        """Close what is open."""


class DatabaseTarget:
    """A shared database, by its URL."""

    def __init__(self, url: str) -> None:
        self.name = hide_password(url)
        self.store = Store.open(url)

    def send(self, records: list[Record]) -> Answer:
        """Import the records; what has other content there is refused."""
        importer = Importer(self.store)
        summary = importer.take((f"{item['record']} {item.get('id', '')}", item) for item in records)
        new = sum(summary.new.get(kind, 0) for kind in (MEASUREMENT, TRIAL))
        return Answer(new, dict.fromkeys(summary.conflicts, "it is there with other content"))

    def withdraw(self, identifier: str, reason: str) -> str | None:
        """Mark a record there."""
        mark = {"target_id": identifier, "reason": reason, "created_at": now()}
        rows: dict[str, list[Record]] = {kind: [] for kind in TABLES}
        self.store.write(lambda connection: store_rows(connection, rows | {RETRACTION: [mark]}))
        return None

    def close(self) -> None:
        """Close the database."""
        self.store.close()
