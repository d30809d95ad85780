"""Push what was measured here to a shared database or server: what is due, in batches, each noted when it was acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from advisor.errors import AdvisorError, DatabaseError, UsageError
from advisor.results.address import hide_password, parse_url
from advisor.results.deliveries import MEASUREMENT, RETRACTION, TRIAL, Due, delivered, due, in_parts
from advisor.results.exchange import records_of
from advisor.results.store import Store
from advisor.usecases.push_targets import DatabaseTarget, Target

SCHEMA_VERSION = 1
#: Measurements or trials of one batch.
BATCH = 500


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
