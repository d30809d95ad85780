"""Find one record by its id or the beginning of it."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from advisor.errors import UnknownName, UsageError
from advisor.results.schema import Measurement, PlanTrial, Run
from advisor.results.terms import beginning


def resolve(connection: Connection, identifier: str, tables: Mapping[str, type]) -> tuple[str, str]:
    """Return (kind, id) of the only record whose id is, or begins with, ``identifier``.

    Raises UsageError where several do and UnknownName where none does.
    """
    text = identifier.strip().lower()
    found: list[tuple[str, str]] = []
    for kind, table in tables.items():
        column = table.id  # type: ignore[attr-defined]
        found += (
            [(kind, row) for row in connection.execute(sa.select(column).where(beginning(column, text)).limit(3)).scalars()] if text else []
        )
    exact = [item for item in found if item[1] == text]
    if len(exact or found) > 1:
        raise UsageError(f"several records begin with {identifier!r}", "give more of the id")
    if not found:
        raise UnknownName("record", identifier, (), "advisor results list")
    return (exact or found)[0]


def retraction_targets(connection: Connection, identifier: str) -> list[str]:
    """Return the ids of the measurements and trials that ``identifier`` (a measurement, a trial, a run) stands for."""
    kind, found = resolve(connection, identifier, {"measurement": Measurement, "trial": PlanTrial, "run": Run})
    if kind != "run":
        return [found]
    targets: list[str] = []
    for table in (Measurement, PlanTrial):
        targets += connection.execute(sa.select(table.id).where(table.run_id == found)).scalars()
    return targets
