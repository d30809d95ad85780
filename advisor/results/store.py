"""The results database as the other parts use it: save what was probed, measured, tried and answered, and read it back.

Every method that writes is one transaction and is durable when it returns: a process killed afterwards loses nothing of it.
A Store may be shared between threads. All failures are DatabaseError (or UsageError for input that is wrong).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from advisor.errors import DatabaseError, UnknownName, UsageError
from advisor.results import engine as engines
from advisor.results import queries
from advisor.results.address import Address, parse_url, prepare_file
from advisor.results.hash import clean, content_hash, derived_id, new_id
from advisor.results.machines import device_rows, machine_row
from advisor.results.rows import measurement_row, now, trial_row
from advisor.results.schema import (
    Device,
    Machine,
    Measurement,
    PlanTrial,
    Recommendation,
    RecommendedPlan,
    Retraction,
    Run,
    SoftwareEnvironment,
)
from advisor.results.write import insert_new

#: How often a write is repeated after the server went away in the middle of it; every write is idempotent.
RECONNECTS = 2


class Store:
    """An open results database; use it as a context manager."""

    def __init__(self, address: Address, engine: Engine, *, read_only: bool) -> None:
        self.address = address
        self.engine = engine
        self.read_only = read_only
        self._runs: dict[str, tuple[str | None, str | None, str]] = {}
        self._devices: set[tuple[str, str]] = set()

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Self:
        """Open the database at ``url``, creating it (and its folder) if it is not there and ``create`` says so.

        Cheap when the schema is up to date: one query, no migration code is loaded.
        Raises DatabaseError (exit status 4) with one line: wrong URL, unreachable, not a database, schema too old or too new.
        """
        address = parse_url(url)
        read_only = address.path is not None and not prepare_file(address.path, create=create)
        engine = engines.make_engine(address, read_only=read_only)
        store = cls(address, engine, read_only=read_only)
        try:
            with engines.translated(address):
                with engine.connect() as connection:
                    found = engines.read_revision(connection)
                if found is None and create and not read_only:
                    with store.writing() as connection:
                        engines.create_schema(connection, address)
                else:
                    engines.check_revision(found, address)
        except BaseException:
            engine.dispose()
            raise
        return store

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- connections ---------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a connection in one write transaction: committed at the end, rolled back on any exception."""
        if self.read_only:
            raise DatabaseError("DB-READONLY", f"{self.address.shown} is read-only", "name another with --db sqlite:///FILE")
        with engines.translated(self.address), self.engine.execution_options(writes=True).begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection in a read transaction: one consistent picture."""
        with engines.translated(self.address), self.engine.connect() as connection:
            yield connection

    def _insert(self, *batches: tuple[type, Sequence[Mapping[str, Any]]]) -> int:
        """Insert rows that are not there yet, table by table, in one transaction; return how many of the last table were new."""
        for attempt in range(RECONNECTS + 1):
            try:
                with self.writing() as connection:
                    new = 0
                    for table, rows in batches:
                        new = insert_new(connection, table, rows)
                return new
            except DatabaseError as error:
                cause = error.__cause__
                if attempt == RECONNECTS or not (isinstance(cause, DBAPIError) and cause.connection_invalidated):
                    raise
        raise AssertionError("unreachable")

    # -- machines and runs ---------------------------------------------------------------------------------------------

    def save_machine(self, document: Mapping[str, Any], *, origin: str = "local") -> str:
        """Store a probe's document and return the machine's id; the same machine in the same state is stored once."""
        row = machine_row(document, origin=origin)
        with self.writing() as connection:
            insert_new(connection, Machine, [row])
            insert_new(connection, Device, device_rows(row["id"], document))
            connection.execute(sa.update(Machine).where(Machine.id == row["id"]).values(last_seen_at=row["last_seen_at"]))
        return str(row["id"])

    def latest_machine(self, fingerprint: str | None = None) -> dict[str, Any] | None:
        """Return the document of the machine seen last (of ``fingerprint``, where given), or None."""
        query = sa.select(Machine.document).order_by(Machine.last_seen_at.desc()).limit(1)
        query = query.where(Machine.origin == "local") if fingerprint is None else query.where(Machine.fingerprint == fingerprint)
        with self.reading() as connection:
            return connection.execute(query).scalar()

    def start_run(
        self,
        *,
        kind: str,
        machine_id: str | None = None,
        software: Mapping[str, Any] | None = None,
        command: str | None = None,
        settings: Mapping[str, Any] | None = None,
        origin: str = "local",
        run_id: str | None = None,
    ) -> str:
        """Begin a run of ``kind`` (``bench``, ``trial`` …) and return its id; ``software`` names versions of what it uses."""
        document = clean(software or {})
        digest = content_hash(document)
        environment = {"id": derived_id("environment", digest), "content_hash": digest, "document": document, "created_at": now()}
        run = {
            "id": run_id or new_id(),
            "kind": kind,
            "machine_id": machine_id,
            "environment_id": environment["id"],
            "command": clean(command),
            "settings": clean(settings or {}),
            "tool_version": importlib.metadata.version("hw-advisor"),
            "origin": origin,
            "started_at": now(),
            "finished_at": None,
        }
        self._insert((SoftwareEnvironment, [environment]), (Run, [run]))
        return str(run["id"])

    def finish_run(self, run_id: str) -> None:
        """Mark a run as come to its end."""
        with self.writing() as connection:
            connection.execute(sa.update(Run).where(Run.id == run_id).values(finished_at=now()))

    def _run(self, run_id: str) -> tuple[str | None, str | None, str]:
        """Return machine id, fingerprint and origin of a run."""
        if run_id not in self._runs:
            query = sa.select(Run.machine_id, Machine.fingerprint, Run.origin).outerjoin(Machine, Machine.id == Run.machine_id)
            with self.reading() as connection:
                row = connection.execute(query.where(Run.id == run_id)).one_or_none()
            if row is None:
                raise UnknownName("run", run_id, (), "advisor results list")
            self._runs[run_id] = (row[0], row[1], row[2])
        return self._runs[run_id]

    # -- measurements --------------------------------------------------------------------------------------------------

    def add_measurement(self, run_id: str, m: Mapping[str, Any]) -> str:
        """Store one measurement (``microbench.protocol.Measurement.to_dict()``) and return its id."""
        return self.add_measurements(run_id, [m])[0]

    def add_measurements(self, run_id: str, many: Sequence[Mapping[str, Any]]) -> list[str]:
        """Store several measurements in one transaction: all or none; one that is there already is left as it is."""
        machine_id, fingerprint, origin = self._run(run_id)
        devices: dict[str, dict[str, Any]] = {}
        rows = []
        for m in many:
            key = str(m.get("device") or "")
            device_id = derived_id("device", machine_id or "", key)
            if (machine_id or "", key) not in self._devices:
                devices[key] = {"id": device_id, "machine_id": machine_id, "key": key, "name": m.get("device_name") or key}
            rows.append(measurement_row(m, run_id=run_id, machine=fingerprint, device_id=device_id, origin=origin))
        self._insert((Device, list(devices.values())), (Measurement, rows))
        self._devices.update((machine_id or "", key) for key in devices)
        return [str(row["id"]) for row in rows]

    def measurements(
        self,
        benchmark: str | None = None,
        backend: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
        machine: str | None = None,
        origin: str | None = None,
        since: Any = None,
        status: str | None = None,
        limit: int | None = None,
        **more: Any,
    ) -> list[dict[str, Any]]:
        """Return measurements, newest first, as dictionaries with the fields of ``advisor bench --json`` and their provenance.

        ``device``: a device's id, name or profile, or a part of its name; ``machine``: a fingerprint or machine id, or its beginning.
        More: ``model`` (a part of the name), ``run``, ``metric``, ``latest=True`` (only the newest of each series), ``samples=True``
        (with ``sample_seconds``), ``retracted=True`` (withdrawn ones too). Withdrawn measurements are left out otherwise.
        """
        filters = queries.Filters(
            benchmark=benchmark,
            backend=backend,
            device=device,
            dtype=dtype,
            machine=machine,
            origin=origin,
            since=queries.since(since),
            status=status,
            limit=limit,
            **more,
        )
        with self.reading() as connection:
            return queries.measurements(connection, filters)

    # -- trials --------------------------------------------------------------------------------------------------------

    def add_trial(self, run_id: str, trial: Mapping[str, Any]) -> str:
        """Store a plan really run (a dictionary with ``plan``, and ``plan_id``, ``model``, ``task``, ``status`` …); return its id."""
        return self.add_trials(run_id, [trial])[0]

    def add_trials(self, run_id: str, trials: Iterable[Mapping[str, Any]]) -> list[str]:
        """Store several trials in one transaction."""
        origin = self._run(run_id)[2]
        rows = [trial_row(trial, run_id=run_id, origin=origin) for trial in trials]
        self._insert((PlanTrial, rows))
        return [str(row["id"]) for row in rows]

    def trials(
        self,
        *,
        model: str | None = None,
        task: str | None = None,
        framework: str | None = None,
        plan_id: str | None = None,
        machine: str | None = None,
        origin: str | None = None,
        since: Any = None,
        status: str | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return trials as they were stored, newest first, each with ``id``, ``run_id``, ``machine``, ``origin``, ``measured_at``."""
        equal = {"model": model, "task": task, "framework": framework, "plan_id": plan_id, "origin": origin, "status": status}
        with self.reading() as connection:
            return queries.trials(connection, equal, machine=machine, since=queries.since(since), limit=limit)

    # -- recommendations -----------------------------------------------------------------------------------------------

    def save_recommendation(self, question: Mapping[str, Any], document: Mapping[str, Any], plans: Sequence[Mapping[str, Any]]) -> str:
        """Store an answer whole, with its plans (``{"plan_id", "plan", "estimate", …}``, the recommended one first); return its id."""
        question, document = clean(question), clean(document)
        row = {
            "id": new_id(),
            "question_hash": content_hash(question),
            "content_hash": content_hash([question, document]),
            "question": question,
            "document": document,
            "origin": "local",
            "created_at": now(),
        }
        rows = [
            {"recommendation_id": row["id"], "position": position, "plan_id": str(plan["plan_id"]), "document": clean(plan)}
            for position, plan in enumerate(plans)
        ]
        self._insert((Recommendation, [row]), (RecommendedPlan, rows))
        return str(row["id"])

    def find_plan(self, plan_id: str) -> dict[str, Any] | None:
        """Return the newest plan of that id, or of the only id that begins so, with its ``recommendation``; None where there is none.

        Raises UsageError where several ids begin so.
        """
        with self.reading() as connection:
            return queries.find_plan(connection, plan_id)

    def latest_recommendation(self) -> dict[str, Any] | None:
        """Return the newest answer: ``id``, ``question``, ``document``, ``plans``, ``created_at``; None where there is none."""
        with self.reading() as connection:
            return queries.latest_recommendation(connection)

    # -- withdrawing and reading by hand -------------------------------------------------------------------------------

    def retract(self, identifier: str, reason: str) -> list[str]:
        """Withdraw a measurement, a trial, or all of a run (by id or its unique beginning) from all answers; return what was withdrawn.

        Nothing is deleted: the mark and its reason stay, and merging carries them. Raises UsageError where the reason is empty.
        """
        if not reason.strip():
            raise UsageError("a retraction needs a reason", "--reason 'the fan was broken'")
        with self.reading() as connection:
            targets = queries.retraction_targets(connection, identifier)
        self._insert((Retraction, [{"target_id": target, "reason": clean(reason.strip()), "created_at": now()} for target in targets]))
        return targets

    def query(self, sql: str, *, limit: int = 10_000, timeout_s: float = 10.0) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run one reading SQL statement and return its column names and at most ``limit`` rows.

        The database itself refuses to write and stops after ``timeout_s``; both end as UsageError.
        """
        from advisor.results import sql as reading

        return reading.query(self, sql, limit=limit, timeout_s=timeout_s)
