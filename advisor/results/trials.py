"""Stored trials: plans that were really run. Every function takes a connection and returns plain data."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from advisor.results.filters import TrialFilters
from advisor.results.rows import iso
from advisor.results.schema import Machine, PlanTrial, Retraction, Run
from advisor.results.terms import of_machine

#: Filters that a trial's column of the same name must equal.
_EQUAL = ("model", "task", "framework", "plan_id", "origin", "status")


def trials(connection: Connection, filters: TrialFilters) -> list[dict[str, Any]]:
    """Return trials that are not withdrawn, newest first."""
    equal = {name: getattr(filters, name) for name in _EQUAL}
    query = (
        sa.select(*PlanTrial.__table__.columns, Machine.fingerprint.label("machine"))
        .select_from(PlanTrial)
        .join(Run, Run.id == PlanTrial.run_id)
        .outerjoin(Machine, Machine.id == Run.machine_id)
        .where(PlanTrial.id.not_in(sa.select(Retraction.target_id)))
        .where(*(getattr(PlanTrial, name) == value for name, value in equal.items() if value is not None))
        .order_by(PlanTrial.measured_at.desc(), PlanTrial.id.desc())
        .limit(filters.limit)
    )
    if filters.machine is not None:
        query = query.where(of_machine(filters.machine))
    if filters.since is not None:
        query = query.where(PlanTrial.measured_at >= filters.since)
    return [trial_dict(row) for row in connection.execute(query).mappings()]


def trial_dict(row: RowMapping) -> dict[str, Any]:
    """Return a trial as it was stored, with its provenance."""
    own = {name: row[name] for name in ("id", "run_id", "machine", "origin", "content_hash", "status")}
    return {**row["document"], **own, "measured_at": iso(row["measured_at"])}
