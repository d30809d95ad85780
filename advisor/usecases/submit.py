"""Take a batch of measurements from someone else into the database: check all of it, settle ids and ownership, store all or nothing.

What a client says is not believed where it can be computed: identifiers of machines, devices and environments follow from their
content, the origin is ``shared``, and a run belongs to the token that brought it first. The records are those of
``advisor results export``; the document of ``advisor bench --json`` is taken too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from advisor.errors import AdvisorError, UsageError
from advisor.results.hash import derived_id
from advisor.results.importing import store_rows
from advisor.results.incoming import Incoming
from advisor.results.rows import now
from advisor.results.schema import Machine, Run, RunOwner, Submission
from advisor.results.store import Store
from advisor.results.write import insert_new
from advisor.usecases.submission_records import Record, normalized, records_of
from advisor.usecases.tokens import Token

SCHEMA_VERSION = 1


class RefusedError(AdvisorError):
    """A batch that is well-formed and yet not accepted: it touches what belongs to another, or contradicts what is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How submissions are treated."""

    keep_host_names: bool = False


def submit(store: Store, token: Token, document: Any, *, key: str | None, body_hash: str, policy: Policy) -> dict[str, Any]:
    """Store a batch and return what was new and what was known; the same ``key`` with the same body returns the first answer.

    Raises UsageError for a batch that is wrong, and RefusedError for one that is not the token's to store; then nothing of it is stored.
    Ownership, records and receipt are one transaction.
    """
    receipt = derived_id("submission", token.id, key or body_hash)
    before = _receipt(store, receipt)
    if before is not None:
        if before["body_hash"] != body_hash:
            raise RefusedError("KEY-REUSED", f"the idempotency key {key!r} came with another body before", "use a new key for a new batch")
        return {**before["document"], "repeated": True}
    records = normalized(records_of(document), token, keep_host_names=policy.keep_host_names)
    with store.reading() as connection:
        _unclaimed_runs(connection, token, records)
    batch = _rows(store, records)

    def take(connection: Connection) -> dict[str, Any]:
        _claim_runs(connection, token, records)
        done = store_rows(connection, batch.rows)
        if done.conflicts:
            text = f"measurement or trial {done.conflicts[0]} is stored with other content"
            raise RefusedError("CONFLICT", text, "a measurement is never edited: send a new id")
        answer = {"schema_version": SCHEMA_VERSION, "submission": receipt, "new": done.new, "known": done.known}
        row = {"id": receipt, "token_id": token.id, "body_hash": body_hash, "document": answer, "received_at": now()}
        insert_new(connection, Submission, [row])
        return answer

    return {**store.write(take), "repeated": False}


def _rows(store: Store, records: Sequence[Record]) -> Incoming:
    """Return the rows of ``records``; UsageError names the first that is wrong."""
    batch = Incoming(store, origin="shared")
    for record in records:
        try:
            batch.add(record)
        except (UsageError, OverflowError) as error:
            place = f"{record['record']} {record.get('id') or ''}".strip()
            if isinstance(error, UsageError):
                raise UsageError(f"{place}: {error.message}", error.hint, error.code) from error
            raise UsageError(f"{place}: a number or date out of range", code="OUT-OF-RANGE") from error
    return batch


def retract(store: Store, token: Token, identifier: str, reason: str) -> dict[str, Any]:
    """Withdraw a measurement, a trial or a run that was submitted with this token."""
    from advisor.results.overview import record

    with store.reading() as connection:
        kind, found = record(connection, identifier)
        run_id = found["id"] if kind == "run" else found.get("run_id")
        owner = connection.execute(sa.select(RunOwner.token_id).where(RunOwner.run_id == run_id)).scalar()
    if run_id is None or owner != token.id:
        raise RefusedError("NOT-YOURS", f"{kind} {found['id']} was not submitted with this token", "ask whoever runs the service")
    return {"schema_version": SCHEMA_VERSION, "retracted": store.retract(found["id"], reason), "reason": reason.strip()}


def _receipt(store: Store, identifier: str) -> dict[str, Any] | None:
    with store.reading() as connection:
        row = connection.execute(sa.select(Submission.body_hash, Submission.document).where(Submission.id == identifier)).one_or_none()
    return None if row is None else {"body_hash": row.body_hash, "document": row.document}


def _unclaimed_runs(connection: Connection, token: Token, records: Sequence[Record]) -> set[str]:
    """Return the runs of a batch that nobody has yet.

    RefusedError where one is another's or was measured by this service's own machine, UsageError where a record refers to what is
    neither in the batch nor known.
    """
    runs = {str(record["id"]) for record in records if record["record"] == "run"}
    named = {str(record["run_id"]) for record in records if record["record"] in ("measurement", "trial")} | runs
    query = sa.select(RunOwner.run_id, RunOwner.token_id).where(RunOwner.run_id.in_(named))
    owners = {row.run_id: row.token_id for row in connection.execute(query)}
    free = named - set(owners)
    stored = set(connection.execute(sa.select(Run.id).where(Run.id.in_(free))).scalars()) if free else set()
    foreign = sorted([run for run, owner in owners.items() if owner != token.id] + list(stored))
    if foreign:
        raise RefusedError("NOT-YOURS", f"run {foreign[0]} belongs to another", "submit it with the token it was first submitted with")
    missing = sorted(free - runs)
    if missing:
        raise UsageError(f"run {missing[0]} is not in the batch", "send the run's record first, or leave run_id out", "UNKNOWN-RUN")
    wanted = {str(record["machine_id"]) for record in records if record["record"] == "run" and record.get("machine_id")}
    wanted -= {str(record["id"]) for record in records if record["record"] == "machine"}
    known = set(connection.execute(sa.select(Machine.id).where(Machine.id.in_(wanted))).scalars()) if wanted else set()
    if wanted - known:
        raise UsageError(f"machine {min(wanted - known)} is not known here", "send its record with the run", "UNKNOWN-MACHINE")
    return free


def _claim_runs(connection: Connection, token: Token, records: Sequence[Record]) -> None:
    """Make the runs of a batch the token's own."""
    free = _unclaimed_runs(connection, token, records)
    new = insert_new(connection, RunOwner, [{"run_id": run, "token_id": token.id} for run in sorted(free)])
    if new < len(free):
        # Another batch was quicker: of the same token, or of one whose runs these are now.
        owners = connection.execute(sa.select(RunOwner.token_id).where(RunOwner.run_id.in_(free))).scalars()
        if set(owners) != {token.id}:
            raise RefusedError("NOT-YOURS", "a run of the batch belongs to another", "submit it with the token it was first submitted with")
