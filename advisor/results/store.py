"""The results database as the other parts use it: save what was probed, measured, tried and answered, and read it back.

Every method that writes is one transaction and is durable when it returns: a process killed afterwards loses nothing of it.
A Store may be shared between threads. All failures are DatabaseError (or UsageError for input that is wrong).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from advisor.errors import UnknownName, UsageError
from advisor.results import answers, lookup, queries
from advisor.results import trials as tried
from advisor.results.address import Address
from advisor.results.database import Database
from advisor.results.filters import Filters, TrialFilters, since
from advisor.results.hash import clean, content_hash, derived_id, new_id
from advisor.results.machines import device_rows, machine_row
from advisor.results.rows import measurement_row, now, trial_row
from advisor.results.schema import Device, Machine, PlanTrial, Recommendation, RecommendedPlan, Retraction, Run, SoftwareEnvironment
from advisor.results.write import insert_measurements, insert_new


class Store(Database):
    """An open results database with its records; use it as a context manager."""

    def __init__(self, address: Address, engine: Engine, *, read_only: bool) -> None:
        super().__init__(address, engine, read_only=read_only)
        self._runs: dict[str, tuple[str | None, str | None, str]] = {}
        self._devices: set[tuple[str, str]] = set()

    def _insert(self, *batches: tuple[type, Sequence[Mapping[str, Any]]]) -> None:
        """Insert rows that are not there yet, table by table, in one transaction."""
        self.write(lambda connection: [insert_new(connection, table, rows) for table, rows in batches])

    # -- machines and runs ---------------------------------------------------------------------------------------------

    def save_machine(self, document: Mapping[str, Any], *, origin: str = "local") -> str:
        """Store a probe's document and return the machine's id; the same machine in the same state is stored once."""
        row = machine_row(document, origin=origin)
        seen = sa.update(Machine).where(Machine.id == row["id"]).values(last_seen_at=row["last_seen_at"])

        def save(connection: Connection) -> None:
            insert_new(connection, Machine, [row])
            insert_new(connection, Device, device_rows(row["id"], document))
            connection.execute(seen)

        self.write(save)
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
        done = sa.update(Run).where(Run.id == run_id).values(finished_at=now())
        self.write(lambda connection: connection.execute(done))

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

        def add(connection: Connection) -> None:
            insert_new(connection, Device, list(devices.values()))
            insert_measurements(connection, rows)

        self.write(add)
        self._devices.update((machine_id or "", key) for key in devices)
        return [str(row["id"]) for row in rows]

    def measurements(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return measurements, newest first, as dictionaries with the fields of ``advisor bench --json`` and their provenance.

        ``wanted`` are the fields of ``Filters``; ``since`` may be a text such as ``7d``.
        """
        filters = Filters(**wanted | {"since": since(wanted.get("since"))})
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

    def trials(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return trials as they were stored, newest first, each with ``id``, ``run_id``, ``machine``, ``origin``, ``measured_at``.

        ``wanted`` are the fields of ``TrialFilters``; ``since`` may be a text such as ``7d``.
        """
        filters = TrialFilters(**wanted | {"since": since(wanted.get("since"))})
        with self.reading() as connection:
            return tried.trials(connection, filters)

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
            return answers.find_plan(connection, plan_id)

    def latest_recommendation(self) -> dict[str, Any] | None:
        """Return the newest answer: ``id``, ``question``, ``document``, ``plans``, ``created_at``; None where there is none."""
        with self.reading() as connection:
            return answers.latest_recommendation(connection)

    # -- withdrawing and reading by hand -------------------------------------------------------------------------------

    def retract(self, identifier: str, reason: str) -> list[str]:
        """Withdraw a measurement, a trial, or all of a run (by id or its unique beginning) from all answers; return what was withdrawn.

        Nothing is deleted: the mark and its reason stay, and merging carries them. Raises UsageError where the reason is empty.
        """
        if not reason.strip():
            raise UsageError("a retraction needs a reason", "--reason 'the fan was broken'")
        with self.reading() as connection:
            targets = lookup.retraction_targets(connection, identifier)
        self._insert((Retraction, [{"target_id": target, "reason": clean(reason.strip()), "created_at": now()} for target in targets]))
        return targets

    def query(self, sql: str, *, limit: int = 10_000, timeout_s: float = 10.0) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run one reading SQL statement and return its column names and at most ``limit`` rows.

        The database itself refuses to write and stops after ``timeout_s``; both end as UsageError.
        """
        from advisor.results import sql as reading

        return reading.query(self.address, self.engine, sql, limit=limit, timeout_s=timeout_s)
