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

from advisor.errors import AdvisorError, UsageError
from advisor.results.hash import derived_id
from advisor.results.importing import Importer
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
    """
    receipt = derived_id("submission", token.id, key or body_hash)
    before = _receipt(store, receipt)
    if before is not None:
        if before["body_hash"] != body_hash:
            raise RefusedError("KEY-REUSED", f"the idempotency key {key!r} came with another body before", "use a new key for a new batch")
        return {**before["document"], "repeated": True}
    records = normalized(records_of(document), token, keep_host_names=policy.keep_host_names)
    _claim_runs(store, token, [record["id"] for record in records if record["record"] == "run"], records)
    importer = _AllOrNothing(store)
    importer.store_all(records)
    answer = {"schema_version": SCHEMA_VERSION, "submission": receipt, "new": importer.summary.new, "known": importer.summary.known}
    row = {"id": receipt, "token_id": token.id, "body_hash": body_hash, "document": answer, "received_at": now()}
    with store.writing() as connection:
        insert_new(connection, Submission, [row])
    return {**answer, "repeated": False}


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
    query = sa.select(Submission.body_hash, Submission.document).where(Submission.id == identifier)
    with store.reading() as connection:
        row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


# -- storing ---------------------------------------------------------------------------------------------------------------


def _claim_runs(store: Store, token: Token, runs: Sequence[str], records: Sequence[Record]) -> None:
    """Make the runs of a batch the token's own; RefusedError where one belongs to another or was measured by this service's own machine."""
    named = {str(record["run_id"]) for record in records if record["record"] in ("measurement", "trial")} | set(runs)
    if not named:
        return
    with store.writing() as connection:
        query = sa.select(RunOwner.run_id, RunOwner.token_id).where(RunOwner.run_id.in_(named))
        owners = {row.run_id: row.token_id for row in connection.execute(query)}
        free = named - set(owners)
        stored = set(connection.execute(sa.select(Run.id).where(Run.id.in_(free))).scalars()) if free else set()
        foreign = sorted([run for run, owner in owners.items() if owner != token.id] + list(stored))
        if foreign:
            raise RefusedError("NOT-YOURS", f"run {foreign[0]} belongs to another", "submit it with the token it was first submitted with")
        missing = sorted(free - set(runs))
        if missing:
            raise UsageError(f"run {missing[0]} is not in the batch", "send the run's record first, or leave run_id out", "UNKNOWN-RUN")
        wanted = {str(record["machine_id"]) for record in records if record["record"] == "run" and record.get("machine_id")}
        wanted -= {str(record["id"]) for record in records if record["record"] == "machine"}
        known = set(connection.execute(sa.select(Machine.id).where(Machine.id.in_(wanted))).scalars()) if wanted else set()
        if wanted - known:
            raise UsageError(f"machine {min(wanted - known)} is not known here", "send its record with the run", "UNKNOWN-MACHINE")
        insert_new(connection, RunOwner, [{"run_id": run, "token_id": token.id} for run in sorted(free)])


class _AllOrNothing(Importer):
    """An import that stores nothing of a batch in which a record contradicts what is stored."""

    def store_all(self, records: Sequence[Record]) -> None:
        """Store ``records`` in one transaction; UsageError names the first that is wrong."""
        for record in records:
            try:
                self._add(record)
            except (UsageError, OverflowError) as error:
                place = f"{record['record']} {record.get('id') or ''}".strip()
                if isinstance(error, UsageError):
                    raise UsageError(f"{place}: {error.message}", error.hint, error.code) from error
                raise UsageError(f"{place}: a number or date out of range", code="OUT-OF-RANGE") from error
        self._flush()

    def _store(self, connection: sa.Connection, kind: str, table: type) -> None:
        super()._store(connection, kind, table)
        if self.summary.conflicts:
            text = f"{kind} {self.summary.conflicts[0]} is stored with other content"
            raise RefusedError("CONFLICT", text, "a measurement is never edited: send a new id")
