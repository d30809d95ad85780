"""What a client sent, as records that can be stored: within limits, ids that follow from content, no names of hosts.

What a client says is not believed where it can be computed: identifiers of machines, devices and environments follow from their
content, devices from their machine's document, and the origin is ``shared`` whatever is claimed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from advisor.errors import UsageError
from advisor.results.exchange import FORMAT, check_header
from advisor.results.hash import clean, content_hash, derived_id
from advisor.results.importing import BATCH
from advisor.results.machines import device_rows, machine_row
from advisor.results.rows import check_id, iso, now, parse_time
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
#: Characters of a fingerprint, an id of a device and the like.
MAX_NAME = 200
#: A clock may be wrong by so much before a measurement counts as taken in the future.
CLOCK_SLACK = timedelta(days=1)
#: Order in which records are stored: what is referred to comes first.
KINDS = ("machine", "environment", "device", "run", "measurement", "trial")
#: Fields that name a host or a person; left out unless the service was told to keep them.
PRIVATE = frozenset(
    ("hostname", "host_name", "fqdn", "nodename", "node_name", "user", "username", "user_name", "login", "home", "cwd", "email")
)

#: What a device's record says in words.
_DEVICE_TEXTS = ("name", "target", "vendor", "arch", "profile", "state")
#: Nothing that this measures existed before.
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)

Record = dict[str, Any]


def records_of(document: Any) -> list[Record]:
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
    # Clean: what no database holds (NUL characters, lone surrogates) is replaced before anything is compared or hashed.
    return [dict(clean(record)) for record in found]


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


def normalized(records: Sequence[Record], token: Token, *, keep_host_names: bool) -> list[Record]:
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
        known = record if keep_host_names else _without_names(record)
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
        if len(row["fingerprint"]) > MAX_NAME:
            raise UsageError(f"a fingerprint of more than {MAX_NAME} characters", code="TOO-LONG")
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
        if given is not None:
            _check_uuid("an id", given)
        _check_moments(record)
        record.pop("device_id", None)
        done[kind].append(record)


def _devices(machine_id: str, document: Mapping[str, Any]) -> list[Record]:
    devices = document.get("devices") or []
    if not isinstance(devices, list) or not all(isinstance(item, dict) and isinstance(item.get("id"), str) for item in devices):
        raise UsageError("a machine's devices are objects with an id", code="BAD-RECORD")
    if len(devices) > MAX_DEVICES:
        raise UsageError(f"a machine of {len(devices):,} devices; at most {MAX_DEVICES:,}", code="BATCH-SIZE")
    for item in devices:
        wrong = [name for name in _DEVICE_TEXTS if not isinstance(item.get(name), str | None)]
        size = item.get("memory_bytes")
        if wrong or not (size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0)):
            raise UsageError(f"a device's {wrong[0] if wrong else 'memory_bytes'} is of the wrong kind", code="BAD-RECORD")
    return device_rows(machine_id, document)


def _check_moments(record: Record) -> None:
    for name in ("measured_at", "started_at", "finished_at"):
        moment = parse_time(record.get(name))
        if moment is None:
            continue
        if not _EARLIEST <= moment <= now() + CLOCK_SLACK:
            raise UsageError(f"{name} is not a time of the past: {str(record[name])[:40]}", "set that machine's clock", "BAD-TIME")


def _check_uuid(what: str, text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise UsageError(f"{what} is a UUID, not {text!r}", code="BAD-RECORD") from error


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
    derived = _check_uuid("a run's id", identifier).version == 5
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
