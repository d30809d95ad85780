"""Push what was measured here to a shared database or server: what is due, in batches, each noted when it was acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from advisor.errors import AdvisorError, DatabaseError, UsageError
from advisor.results.address import hide_password, parse_url
from advisor.results.deliveries import MEASUREMENT, RETRACTION, TRIAL, Due, delivered, due, in_parts
from advisor.results.exchange import records_of
from advisor.results.importing import Importer, store_rows
from advisor.results.incoming import TABLES
from advisor.results.rows import now
from advisor.results.store import Store

SCHEMA_VERSION = 1
#: Measurements or trials of one batch.
BATCH = 500
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


def push(url: str, target: str, *, token: str | None = None, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Push what is due of the database ``url`` to ``target`` (a database's URL, or http(s) of a server, with a token).

    Returns ``target``, ``sent``, ``new``, ``withdrawn`` (counts), ``refused`` (id and why) and ``left`` (how many are still due).
    Raises the target's AdvisorError, saying how much stays queued, where it cannot be reached: pushing again goes on from there.
    """
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "target": hide_password(target), "sent": 0, "new": 0, "withdrawn": 0}
    refused: dict[str, str] = {}
    with Store.open(url) as store:
        name = _name(target, store)
        with store.reading() as connection:
            todo = due(connection, name)
        if not len(todo):
            return document | {"refused": [], "left": 0}
        opened: Target | None = None
        try:
            opened = open_target(target, token)
            _send(store, name, opened, todo, document, refused, say)
        except AdvisorError as error:
            with store.reading() as connection:
                left = len(due(connection, name))
            error.message += f"; {left:,} record{' stays' if left == 1 else 's stay'} queued here"
            raise
        finally:
            if opened is not None:
                opened.close()
        with store.reading() as connection:
            left = len(due(connection, name))
    return document | {"refused": [{"id": key, "why": why} for key, why in refused.items()], "left": left}


def _name(target: str, store: Store) -> str:
    """Return the name under which deliveries to ``target`` are noted; UsageError where it is this very database."""
    if target.startswith(("http://", "https://")):
        return hide_password(target).rstrip("/")
    address = parse_url(target)
    if address == store.address:
        raise UsageError("a database cannot be pushed to itself", "name the shared one")
    return address.shown


def open_target(target: str, token: str | None) -> Target:
    """Return the target behind a URL."""
    if target.startswith(("http://", "https://")):
        from advisor.usecases.push_server import ServerTarget

        return ServerTarget(target, token)
    try:
        return DatabaseTarget(target)
    except DatabaseError as error:
        error.hint = f"{error.hint}; then push again" if error.hint else "push again later"
        raise


def _send(
    store: Store, name: str, target: Target, todo: Due, document: dict[str, Any], refused: dict[str, str], say: Callable[[str], None]
) -> None:
    batches = [(MEASUREMENT, part) for part in in_parts(todo.measurements, BATCH)]
    batches += [(TRIAL, part) for part in in_parts(todo.trials, BATCH)]
    for number, (kind, part) in enumerate(batches, 1):
        with store.reading() as connection:
            measurements, trials = (part, []) if kind == MEASUREMENT else ([], part)
            records = list(records_of(connection, measurements, trials))
        answer = target.send(records)
        taken = [identifier for identifier in part if identifier not in answer.refused]
        _note(store, name, kind, taken)
        document["sent"] += len(taken)
        document["new"] += answer.new
        refused |= answer.refused
        say(f"batch {number} of {len(batches)}: {len(taken)} acknowledged")
    for identifier, reason in todo.retractions.items():
        why = target.withdraw(identifier, reason)
        if why is None:
            _note(store, name, RETRACTION, [identifier])
            document["withdrawn"] += 1
        else:
            refused[identifier] = why


def _note(store: Store, name: str, kind: str, identifiers: list[str]) -> None:
    store.write(lambda connection: delivered(connection, name, kind, identifiers))
