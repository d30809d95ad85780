"""Stored answers and the plans in them. Every function takes a connection and returns plain data."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from advisor.errors import UsageError
from advisor.results.rows import iso
from advisor.results.schema import Recommendation, RecommendedPlan
from advisor.results.terms import beginning


def find_plan(connection: Connection, plan_id: str) -> dict[str, Any] | None:
    """Return the newest stored plan whose id is, or alone begins with, ``plan_id``."""
    if not plan_id:
        return None
    known = (
        connection.execute(sa.select(RecommendedPlan.plan_id).where(beginning(RecommendedPlan.plan_id, plan_id)).distinct().limit(6))
        .scalars()
        .all()
    )
    if plan_id not in known and len(known) > 1:
        raise UsageError(f"several plans begin with {plan_id!r}: {', '.join(sorted(known)[:5])}", "give more of the id")
    if not known:
        return None
    query = (
        sa.select(RecommendedPlan.document, Recommendation.id, Recommendation.question, Recommendation.document, Recommendation.created_at)
        .join(Recommendation, Recommendation.id == RecommendedPlan.recommendation_id)
        .where(RecommendedPlan.plan_id == (plan_id if plan_id in known else known[0]))
        .order_by(Recommendation.created_at.desc(), Recommendation.id.desc())
        .limit(1)
    )
    plan, identifier, question, document, created_at = connection.execute(query).one()
    return {**plan, "recommendation": {"id": identifier, "question": question, "document": document, "created_at": iso(created_at)}}


def latest_recommendation(connection: Connection) -> dict[str, Any] | None:
    """Return the newest answer with its plans."""
    query = sa.select(*Recommendation.__table__.columns).order_by(Recommendation.created_at.desc(), Recommendation.id.desc()).limit(1)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else recommendation_dict(connection, row)


def recommendation_dict(connection: Connection, row: RowMapping) -> dict[str, Any]:
    """Return a stored answer as plain data."""
    plans = sa.select(RecommendedPlan.document).where(RecommendedPlan.recommendation_id == row["id"]).order_by(RecommendedPlan.position)
    return {
        "id": row["id"],
        "question": row["question"],
        "document": row["document"],
        "plans": list(connection.execute(plans).scalars()),
        "origin": row["origin"],
        "created_at": iso(row["created_at"]),
    }
