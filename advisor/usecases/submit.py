"""Take a batch of measurements from someone else into the database: check all of it, settle ids and ownership, store all or nothing.

What a client says is not believed where it can be computed: identifiers of machines, devices and environments follow from their
content, the origin is ``shared``, and a run belongs to the token that brought it first. The records are those of
``advisor results export``; the document of ``advisor bench --json`` is taken too.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from advisor.errors import AdvisorError, UsageError
from advisor.results.exchange import FORMAT
from advisor.results.hash import clean, content_hash, derived_id
from advisor.results.importing import BATCH, Importer, check_header
from advisor.results.machines import device_rows, machine_row
from advisor.results.rows import check_id, iso, now, parse_time
from advisor.results.schema import Machine, Run, RunOwner, Submission
from advisor.results.store import Store
from advisor.results.write import insert_new
from advisor.usecases.tokens import Token

SCHEMA_VERSION = 1
#: Records of one batch: one transaction, well under a second.
MAX_RECORDS = 2_000
#: Devices of one machine: a node has tens.
MAX_DEVICES = 1_024
#: Characters of one text, items of one list or object, and depth of nesting of a record.
MAX_TEXT = 20_000
MAX_ITEMS = 20_000
MAX_DEPTH = 20
#: A clock may be wrong by so much before a measurement counts as taken in the future.
CLOCK_SLACK = timedelta(days=1)
#: Order in which records are stored: what is referred to comes first.
KINDS = ("machine", "environment", "device", "run", "measurement", "trial")
#: Fields that name a host or a person; left out unless the service was told to keep them.
PRIVATE = frozenset(
    ("hostname", "host_name", "fqdn", "nodename", "node_name", "user", "username", "user_name", "login", "home", "cwd", "email")
)

Record = dict[str, Any]


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
    records = _normalized(_records(document), token, policy)
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


# -- from what came in to records ------------------------------------------------------------------------------------------


def _records(document: Any) -> list[Record]:
    """Return the records of a body: a list of them, an object with ``records``, or the document of ``advisor bench --json``."""
    found: Any = document
    if isinstance(document, dict):
        version = document.get("schema_version", 1)
        if version != SCHEMA_VERSION:
            raise UsageError(f"schema_version {version!r} is not known here; this service reads {SCHEMA_VERSION}", code="SCHEMA-VERSION")
        found = document.get("records")
        if found is None and isinstance(document.get("measurements"), list):
            found = [{**item, "record": "measurement"} if isinstance(item, dict) else item for item in document["measurements"]]
    if not isinstance(found, list):
        raise UsageError("a batch is a list of records, or an object with `records` or `measurements`", code="BAD-BATCH")
    if not 0 < len(found) <= MAX_RECORDS:
        raise UsageError(f"a batch holds 1 to {MAX_RECORDS:,} records, not {len(found):,}", code="BATCH-SIZE")
    for index, record in enumerate(found):
        if not isinstance(record, dict):
            raise UsageError(f"record {index}: not an object", code="BAD-RECORD")
        _check_size(record, f"record {index}", 0)
    return [dict(record) for record in found]


def _check_size(value: Any, place: str, depth: int) -> None:
    """Refuse texts, lists and nesting beyond what any honest record holds, and numbers that no column holds."""
    if depth > MAX_DEPTH:
        raise UsageError(f"{place}: nested more than {MAX_DEPTH} deep", code="TOO-DEEP")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise UsageError(f"{place}: a text of {len(value):,} characters; at most {MAX_TEXT:,}", code="TOO-LONG")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise UsageError(f"{place}: a number out of range", code="OUT-OF-RANGE")
    if isinstance(value, dict | list):
        if len(value) > MAX_ITEMS:
            raise UsageError(f"{place}: {len(value):,} items; at most {MAX_ITEMS:,}", code="TOO-LONG")
        for item in value.values() if isinstance(value, dict) else value:
            _check_size(item, place, depth + 1)
        if isinstance(value, dict):
            for name in value:
                _check_size(name, place, depth)


def _normalized(records: Sequence[Record], token: Token, policy: Policy) -> list[Record]:
    """Return the records with identifiers that follow from their content, in the order in which they are stored."""
    done: dict[str, list[Record]] = {kind: [] for kind in KINDS}
    machines: dict[str, str] = {}
    environments: dict[str, str] = {}
    for index, record in enumerate(records):
        kind = record.get("record", "measurement")
        if kind == "header" or record.get("format") == FORMAT:
            check_header(record)
            continue
        if kind not in KINDS:
            raise UsageError(
                f"record {index}: records of kind {str(kind)[:40]!r} are not taken", f"known: {', '.join(KINDS)}", code="BAD-RECORD"
            )
        known = record if policy.keep_host_names else _without_names(record)
        if known != record:
            known.pop("content_hash", None)  # It covered what was taken out.
        record = known | {"record": kind, "origin": "local"}
        try:
            _one(kind, record, done, machines, environments)
        except UsageError as error:
            raise UsageError(f"record {index}: {error.message}", error.hint, error.code) from error
    _refer(done, machines, environments, token)
    found = [record for kind in KINDS for record in done[kind]]
    if len(found) >= BATCH:
        raise UsageError(f"a batch comes to {len(found):,} rows; at most {BATCH - 1:,}", "send fewer at a time", "BATCH-SIZE")
    return found


def _one(kind: str, record: Record, done: dict[str, list[Record]], machines: dict[str, str], environments: dict[str, str]) -> None:
    given = check_id("id", record.get("id"))
    if kind == "machine":
        document = record.get("document")
        if not isinstance(document, dict):
            raise UsageError("a machine's document is missing", code="BAD-RECORD")
        row = machine_row(document, origin="local")
        machines[str(given or row["id"])] = row["id"]
        done[kind].append({"record": kind, **{name: row[name] for name in ("id", "fingerprint", "content_hash", "document", "origin")}})
        done["device"] += [{"record": "device", **item} for item in _devices(row["id"], row["document"])]
    elif kind == "environment":
        document = clean(record.get("document"))
        if not isinstance(document, dict):
            raise UsageError("an environment's document is missing", code="BAD-RECORD")
        digest = content_hash(document)
        own = derived_id("environment", digest)
        environments[str(given or own)] = own
        done[kind].append({"record": kind, "id": own, "document": document, "content_hash": digest})
    elif kind == "device":
        return  # What a device is follows from its machine's document, and from nothing else.
    else:
        moment = parse_time(record.get("measured_at") or record.get("started_at"))
        if moment is not None and moment > now() + CLOCK_SLACK:
            raise UsageError(f"taken in the future: {iso(moment)}", "set that machine's clock", code="IN-THE-FUTURE")
        record.pop("device_id", None)
        done[kind].append(record)


def _devices(machine_id: str, document: Mapping[str, Any]) -> list[Record]:
    devices = document.get("devices") or []
    if not isinstance(devices, list) or not all(isinstance(item, dict) and isinstance(item.get("id"), str) for item in devices):
        raise UsageError("a machine's devices are objects with an id", code="BAD-RECORD")
    if len(devices) > MAX_DEVICES:
        raise UsageError(f"a machine of {len(devices):,} devices; at most {MAX_DEVICES:,}", code="BATCH-SIZE")
    return device_rows(machine_id, document)


def _refer(done: dict[str, list[Record]], machines: dict[str, str], environments: dict[str, str], token: Token) -> None:
    """Point runs at their machines and environments, and give loose measurements a run of this token's own."""
    for run in done["run"]:
        if run.get("id") is None:
            raise UsageError("a run lacks an id", code="BAD-RECORD")
        for name, known in (("machine_id", machines), ("environment_id", environments)):
            if run.get(name) is not None:
                run[name] = known.get(str(run[name]), run[name])
        run["id"] = _own_run(run["id"], token)
        run["command"] = None  # Paths and names of its author stand in it, and no answer needs it.
    loose: dict[str, Record] = {}
    for record in (*done["measurement"], *done["trial"]):
        given = check_id("run_id", record.get("run_id"))
        if given is not None:
            record["run_id"] = _own_run(given, token)
            if record["run_id"] != given:
                record.pop("content_hash", None)
        else:
            run = loose.setdefault(str(record.get("machine") or ""), _loose_run(record, machines, done, token))
            record["run_id"] = run["id"]
            record.pop("content_hash", None)
    done["run"] += loose.values()


def _own_run(identifier: str, token: Token) -> str:
    """Return the id under which a run is stored: one that follows from content could be another's too, and gets the token's part."""
    try:
        derived = uuid.UUID(identifier).version == 5
    except ValueError as error:
        raise UsageError(f"a run's id is a UUID, not {identifier!r}", code="BAD-RECORD") from error
    return derived_id("submitted-run", token.id, identifier) if derived else identifier


def _loose_run(record: Record, machines: dict[str, str], done: dict[str, list[Record]], token: Token) -> Record:
    """Return the run that a token's measurements without one belong to, by machine (the only one of the batch, where none is named)."""
    fingerprint = record.get("machine")
    known = {item["fingerprint"]: item["id"] for item in done["machine"]}
    machine_id = known.get(str(fingerprint)) if fingerprint is not None else (next(iter(known.values())) if len(known) == 1 else None)
    digest = content_hash({})
    environment = {"record": "environment", "id": derived_id("environment", digest), "document": {}, "content_hash": digest}
    if environment["id"] not in {item["id"] for item in done["environment"]}:
        done["environment"].append(environment)
    return {
        "record": "run",
        "id": derived_id("submitted-run", token.id, machine_id or str(fingerprint or "")),
        "kind": "submitted",
        "machine_id": machine_id,
        "environment_id": environment["id"],
        "settings": {"machine": fingerprint if isinstance(fingerprint, str) else None},
        "started_at": iso(now()),
        "origin": "local",
    }


def _without_names(value: Any) -> Any:
    """Return ``value`` without fields that name a host or a person."""
    if isinstance(value, dict):
        return {key: _without_names(item) for key, item in value.items() if key.lower() not in PRIVATE}
    return [_without_names(item) for item in value] if isinstance(value, list) else value


# -- storing ---------------------------------------------------------------------------------------------------------------


def _claim_runs(store: Store, token: Token, runs: Sequence[str], records: Sequence[Record]) -> None:
    """Make the runs of a batch the token's own; RefusedError where one belongs to another or was measured by this service's own machine."""
    named = {str(record["run_id"]) for record in records if record["record"] in ("measurement", "trial")} | set(runs)
    if not named:
        return
    with store.writing() as connection:
        owners = dict(connection.execute(sa.select(RunOwner.run_id, RunOwner.token_id).where(RunOwner.run_id.in_(named))).tuples().all())
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
