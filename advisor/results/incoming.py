"""A record that comes from elsewhere, as a row of this database: checked, completed, and with what it refers to known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from advisor.errors import UsageError
from advisor.results import schema
from advisor.results.exchange import PLAIN, check_header
from advisor.results.hash import clean, content_hash, derived_id
from advisor.results.rows import check_id, measurement_row, now, parse_time, trial_row
from advisor.results.store import Store

#: The tables of what can come in, in the order in which they are filled: what is referred to comes first.
TABLES: dict[str, type] = {
    **PLAIN,
    "measurement": schema.Measurement,
    "trial": schema.PlanTrial,
    "recommendation": schema.Recommendation,
    "plan": schema.RecommendedPlan,
    "retraction": schema.Retraction,
}
#: Fields without which a record of a kind cannot stand.
_REQUIRED = {
    "machine": ("id", "fingerprint", "document"),
    "environment": ("id", "document"),
    "device": ("id", "key"),
    "run": ("id", "kind", "environment_id", "started_at"),
    "recommendation": ("id", "question", "document"),
    "retraction": ("target_id", "reason"),
}


class Incoming:
    """Rows of records that are to be stored together; ``origin`` is what local measurements of the other side become here."""

    def __init__(self, store: Store, *, origin: str) -> None:
        self.store = store
        self.origin = origin
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.size = 0
        self._runs: dict[str, tuple[str | None, str | None]] = {}
        self._machines: dict[str, str] = {}
        self._devices: set[str] = set()
        self.clear()

    def clear(self) -> None:
        """Forget the rows, which were stored; what is known of machines, runs and devices stays."""
        self.rows = {kind: [] for kind in TABLES}
        self.size = 0

    def add(self, record: Mapping[str, Any]) -> None:
        """Add the row of ``record``; UsageError where it is wrong."""
        kind = record.get("record")
        if kind == "header":
            check_header(record)
            return
        if not isinstance(kind, str) or kind not in TABLES or kind == "plan":
            raise UsageError(f"unknown kind of record {kind!r}", f"known: {', '.join(name for name in TABLES if name != 'plan')}")
        missing = [name for name in _REQUIRED.get(kind, ()) if record.get(name) is None]
        if missing:
            raise UsageError(f"a {kind} record lacks {', '.join(missing)}")
        self.rows[kind].append(getattr(self, f"_{kind}")(record))
        self.size += 1

    # -- one record ----------------------------------------------------------------------------------------------------

    def _machine(self, record: Mapping[str, Any]) -> dict[str, Any]:
        row = _columns(schema.Machine, record)
        row["first_seen_at"] = row["first_seen_at"] or now()
        row["last_seen_at"] = row["last_seen_at"] or row["first_seen_at"]
        row["content_hash"] = row["content_hash"] or content_hash(row["document"])
        row["origin"] = self._origin(record)
        self._machines[row["id"]] = row["fingerprint"]
        return row

    def _environment(self, record: Mapping[str, Any]) -> dict[str, Any]:
        row = _columns(schema.SoftwareEnvironment, record)
        return row | {"created_at": row["created_at"] or now(), "content_hash": row["content_hash"] or content_hash(row["document"])}

    def _device(self, record: Mapping[str, Any]) -> dict[str, Any]:
        row = _columns(schema.Device, record)
        self._devices.add(row["id"])
        return row

    def _run(self, record: Mapping[str, Any]) -> dict[str, Any]:
        row = _columns(schema.Run, record)
        self._runs[row["id"]] = (row["machine_id"], self._fingerprint(row["machine_id"]))
        return row | {"settings": row["settings"] or {}, "origin": self._origin(record)}

    def _measurement(self, record: Mapping[str, Any]) -> dict[str, Any]:
        run_id = record.get("run_id")
        if run_id is None or self._known_run(str(run_id)) is None:
            run_id = self._import_run(record)
        machine_id, fingerprint = self._runs[str(run_id)]
        device_id = record.get("device_id")
        if device_id is None:
            key = str(record.get("device"))
            device_id = _device_id(machine_id or "", key)
            if device_id not in self._devices:
                self._devices.add(device_id)
                self.rows["device"].append({"id": device_id, "machine_id": machine_id, "key": key, "name": key})
        elif not self._known_device(device_id):
            raise UsageError(f"device {device_id!r} is neither in the file nor in the database")
        machine = "published" if record.get("origin") == "published" else fingerprint
        row = measurement_row(record, run_id=str(run_id), machine=machine, device_id=str(device_id), origin=self._origin(record))
        given = record.get("content_hash")
        if given is not None and given != row["content_hash"]:
            raise UsageError(
                f"measurement {row['id']} does not match its content_hash: it was damaged or edited",
                "take out its id and content_hash to import it as a new measurement",
            )
        if record.get("id") is None:
            row["id"] = derived_id("measurement", row["content_hash"])
        return row

    def _trial(self, record: Mapping[str, Any]) -> dict[str, Any]:
        run_id = record.get("run_id")
        if run_id is None or self._known_run(str(run_id)) is None:
            run_id = self._import_run(record)
        document = record.get("document") if isinstance(record.get("document"), dict) else record
        return trial_row(
            {**document, "id": record.get("id"), "measured_at": record.get("measured_at")},  # type: ignore[dict-item]
            run_id=str(run_id),
            origin=self._origin(record),
        )

    def _recommendation(self, record: Mapping[str, Any]) -> dict[str, Any]:
        row = _columns(schema.Recommendation, record)
        plans = record.get("plans") or []
        if not isinstance(plans, list) or not all(isinstance(plan, dict) and plan.get("plan_id") for plan in plans):
            raise UsageError("a recommendation's plans are objects with plan_id")
        self.rows["plan"] += [
            {"recommendation_id": row["id"], "position": position, "plan_id": str(plan["plan_id"]), "document": clean(plan)}
            for position, plan in enumerate(plans)
        ]
        hashes = {"question_hash": content_hash(row["question"]), "content_hash": content_hash([row["question"], row["document"]])}
        return row | hashes | {"origin": self._origin(record), "created_at": row["created_at"] or now()}

    def _retraction(self, record: Mapping[str, Any]) -> dict[str, Any]:
        row = _columns(schema.Retraction, record)
        return row | {"created_at": row["created_at"] or now()}

    def _origin(self, record: Mapping[str, Any]) -> str:
        origin = record.get("origin") or "local"
        if origin not in schema.ORIGINS:
            raise UsageError(f"unknown origin {origin!r}", f"known: {', '.join(schema.ORIGINS)}")
        return self.origin if origin == "local" else str(origin)

    # -- what a record refers to ---------------------------------------------------------------------------------------

    def _fingerprint(self, machine_id: str | None) -> str | None:
        if machine_id is None or machine_id in self._machines:
            return self._machines.get(machine_id or "")
        with self.store.reading() as connection:
            return connection.execute(sa.select(schema.Machine.fingerprint).where(schema.Machine.id == machine_id)).scalar()

    def _known_run(self, run_id: str) -> tuple[str | None, str | None] | None:
        if run_id not in self._runs:
            with self.store.reading() as connection:
                row = connection.execute(sa.select(schema.Run.machine_id).where(schema.Run.id == run_id)).one_or_none()
            if row is None:
                return None
            self._runs[run_id] = (row[0], self._fingerprint(row[0]))
        return self._runs[run_id]

    def _known_device(self, device_id: Any) -> bool:
        if not isinstance(device_id, str):
            return False
        if device_id not in self._devices:
            with self.store.reading() as connection:
                if connection.execute(sa.select(schema.Device.id).where(schema.Device.id == device_id)).scalar() is None:
                    return False
            self._devices.add(device_id)
        return True

    def _import_run(self, record: Mapping[str, Any]) -> str:
        """Return the run of loose records (without one of their own) of a machine, which is named by fingerprint or not at all."""
        fingerprint = record.get("machine")
        run_id = derived_id("import-run", str(fingerprint or ""))
        if self._known_run(run_id) is None:
            machine_id = None
            if fingerprint is not None:
                with self.store.reading() as connection:
                    machine = schema.Machine
                    query = sa.select(machine.id).where(machine.fingerprint == fingerprint).order_by(machine.last_seen_at.desc())
                    machine_id = connection.execute(query.limit(1)).scalar()
            self.store.start_run(kind="import", machine_id=machine_id, settings={"machine": fingerprint}, origin=self.origin, run_id=run_id)
            self._runs[run_id] = (machine_id, fingerprint if isinstance(fingerprint, str) else None)
        return run_id


@lru_cache(maxsize=65_536)
def _device_id(machine_id: str, key: str) -> str:
    return derived_id("device", machine_id, key)


def _columns(table: type, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of ``table`` that the record has, instants parsed, texts and numbers checked."""
    row: dict[str, Any] = {}
    for column in table.__table__.columns:  # type: ignore[attr-defined]
        value = record.get(column.name)
        if column.name.endswith("_at"):
            row[column.name] = parse_time(value)
            continue
        value = clean(value)
        expected = column.type.python_type if value is not None else object
        if value is not None and not isinstance(value, (int, float) if expected is int else expected):
            raise UsageError(f"field {column.name} is of the wrong kind: {value!r}"[:200])
        row[column.name] = check_id(column.name, value) if column.name.endswith("id") else value
    return row
