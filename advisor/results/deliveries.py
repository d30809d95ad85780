"""What of this database was pushed to a shared one, and what is still due: the queue of ``advisor results push``.

The database is its own queue: due is what was measured here and what no delivery to that target names. So nothing is lost where the
target cannot be reached, and pushing again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from advisor.results.rows import now
from advisor.results.schema import Delivery, Measurement, PlanTrial, Retraction
from advisor.results.write import insert_new

MEASUREMENT, TRIAL, RETRACTION = "measurement", "trial", "retraction"
_TABLES = {MEASUREMENT: Measurement, TRIAL: PlanTrial}


@dataclass(frozen=True, slots=True)
class Due:
    """Ids of what is to be pushed, the oldest run first, and of what was withdrawn since (with the reason)."""

    measurements: list[str]
    trials: list[str]
    retractions: dict[str, str]

    def __len__(self) -> int:
        return len(self.measurements) + len(self.trials) + len(self.retractions)


def due(connection: Connection, target: str) -> Due:
    """Return what was measured here and was not yet delivered to ``target``. What was withdrawn before it was pushed stays here."""
    ids = {}
    for kind, table in _TABLES.items():
        query = sa.select(table.id).where(table.origin == "local", table.id.not_in(_delivered(target, kind)))  # type: ignore[attr-defined]
        query = query.where(table.id.not_in(sa.select(Retraction.target_id))).order_by(table.run_id, table.id)  # type: ignore[attr-defined]
        ids[kind] = list(connection.execute(query).scalars())
    sent = sa.or_(*(Retraction.target_id.in_(_delivered(target, kind)) for kind in _TABLES))
    withdrawn = sa.select(Retraction.target_id, Retraction.reason).where(sent, Retraction.target_id.not_in(_delivered(target, RETRACTION)))
    return Due(ids[MEASUREMENT], ids[TRIAL], {row.target_id: row.reason for row in connection.execute(withdrawn)})


def _delivered(target: str, kind: str) -> sa.Select[tuple[str]]:
    return sa.select(Delivery.record_id).where(Delivery.target == target, Delivery.kind == kind)


def delivered(connection: Connection, target: str, kind: str, identifiers: Iterable[str]) -> None:
    """Note that ``target`` has acknowledged these records."""
    moment = now()
    rows = [{"target": target, "kind": kind, "record_id": name, "delivered_at": moment} for name in identifiers]
    insert_new(connection, Delivery, rows)


def in_parts(identifiers: Sequence[str], size: int) -> list[list[str]]:
    """Return the ids in parts of at most ``size``."""
    return [list(identifiers[start : start + size]) for start in range(0, len(identifiers), size)]
