"""What a database holds: counts, the newest runs, one record by its id."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from advisor.results import answers, lookup, queries
from advisor.results.rows import iso
from advisor.results.schema import (
    Base,
    Machine,
    Measurement,
    PlanTrial,
    Recommendation,
    Retraction,
    Run,
    SoftwareEnvironment,
)

RECORDS: dict[str, type] = {
    "measurement": Measurement,
    "trial": PlanTrial,
    "run": Run,
    "machine": Machine,
    "recommendation": Recommendation,
}


def counts(connection: Connection) -> dict[str, int]:
    """Return how many rows each table has."""
    return {
        name: int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() or 0)
        for name, table in sorted(Base.metadata.tables.items())
    }


def columns() -> dict[str, list[str]]:
    """Return the columns of each table, for those who write SQL."""
    return {name: list(table.columns.keys()) for name, table in sorted(Base.metadata.tables.items())}


def by_origin(connection: Connection) -> dict[str, int]:
    """Return how many measurements there are of each origin."""
    query = sa.select(Measurement.origin, sa.func.count()).group_by(Measurement.origin).order_by(Measurement.origin)
    return {origin: int(number) for origin, number in connection.execute(query)}


def recent_runs(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """Return the newest runs with how many measurements and trials each holds."""
    measured = sa.select(sa.func.count()).where(Measurement.run_id == Run.id).correlate(Run).scalar_subquery()
    tried = sa.select(sa.func.count()).where(PlanTrial.run_id == Run.id).correlate(Run).scalar_subquery()
    query = (
        sa.select(
            Run.id,
            Run.kind,
            Run.origin,
            Machine.fingerprint.label("machine"),
            Run.command,
            Run.started_at,
            Run.finished_at,
            measured.label("measurements"),
            tried.label("trials"),
        )
        .outerjoin(Machine, Machine.id == Run.machine_id)
        .order_by(Run.started_at.desc(), Run.id.desc())
        .limit(limit)
    )
    return [_plain(row) for row in connection.execute(query).mappings()]


def record(connection: Connection, identifier: str) -> tuple[str, dict[str, Any]]:
    """Return (kind, record) of the only record whose id begins with ``identifier``; UnknownName or UsageError otherwise."""
    kind, found = lookup.resolve(connection, identifier, RECORDS)
    if kind == "measurement":
        return kind, queries.measurement(connection, found) or {}
    row = connection.execute(sa.select(*RECORDS[kind].__table__.columns).where(RECORDS[kind].id == found)).mappings().one()  # type: ignore[attr-defined]
    if kind == "recommendation":
        return kind, answers.recommendation_dict(connection, row)
    result = _plain(row)
    if kind == "trial":
        reason = connection.execute(sa.select(Retraction.reason).where(Retraction.target_id == found)).scalar()
        result["retracted"] = reason
    if kind == "run":
        software = sa.select(SoftwareEnvironment.document).where(SoftwareEnvironment.id == row["environment_id"])
        result["software"] = connection.execute(software).scalar()
        result["measurements"] = list(connection.execute(sa.select(Measurement.id).where(Measurement.run_id == found)).scalars())
        result["trials"] = list(connection.execute(sa.select(PlanTrial.id).where(PlanTrial.run_id == found)).scalars())
    return kind, result


def _plain(row: RowMapping) -> dict[str, Any]:
    return {str(name): iso(value) if name.endswith("_at") else value for name, value in row.items()}
