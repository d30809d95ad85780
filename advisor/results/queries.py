"""Questions to the database: filtered measurements, trials, answers. Every function takes a connection and returns plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping
from sqlalchemy.sql import ColumnElement, Select

from advisor.errors import UnknownName, UsageError
from advisor.results.rows import iso, measurement_dict, now, parse_time
from advisor.results.schema import Device, Machine, Measurement, PlanTrial, Recommendation, RecommendedPlan, Retraction, Run

_AGO = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which measurements are asked for; None asks for all. See ``Store.measurements``."""

    benchmark: str | None = None
    backend: str | None = None
    device: str | None = None
    device_ids: tuple[str, ...] | None = None
    """Ids of devices, where ``device`` is no way to name them."""
    dtype: str | None = None
    machine: str | None = None
    origin: str | None = None
    since: datetime | None = None
    status: str | None = None
    model: str | None = None
    metric: str | None = None
    run: str | None = None
    latest: bool = False
    samples: bool = False
    retracted: bool = False
    limit: int | None = None


def since(text: Any) -> datetime | None:
    """Return the instant of an ISO date, or of a span before now such as ``90m``, ``12h``, ``7d``, ``4w``."""
    if isinstance(text, str) and (match := re.fullmatch(r"(\d+)\s*([mhdw])", text.strip())):
        try:
            return now() - timedelta(**{_AGO[match[2]]: int(match[1])})
        except (OverflowError, ValueError) as error:
            raise UsageError(f"{text.strip()!r} before now is before all calendars", "a span such as 12h, 7d or 4w") from error
    return parse_time(text)


def conditions(connection: Connection, filters: Filters) -> list[ColumnElement[bool]]:
    """Return the WHERE terms of ``filters``; names of devices and machines are looked up first, so that indexes serve the rest."""
    terms: list[ColumnElement[bool]] = []
    for name in ("benchmark", "backend", "dtype", "origin", "status", "metric"):
        value = getattr(filters, name)
        if value is not None:
            terms.append(getattr(Measurement, name).in_([part for part in value.split(",") if part]))
    if filters.device is not None:
        terms.append(Measurement.device_id.in_(device_ids(connection, filters.device)))
    if filters.device_ids is not None:
        terms.append(Measurement.device_id.in_(filters.device_ids))
    if filters.machine is not None:
        machines = sa.select(Machine.id).where(beginning(Machine.fingerprint, filters.machine) | beginning(Machine.id, filters.machine))
        terms.append(Measurement.run_id.in_(sa.select(Run.id).where(Run.machine_id.in_(machines))))
    if filters.run is not None:
        terms.append(beginning(Measurement.run_id, filters.run))
    if filters.model is not None:
        models = connection.execute(sa.select(Measurement.model).where(Measurement.model.is_not(None)).distinct()).scalars()
        wanted = _squash(filters.model)
        terms.append(Measurement.model.in_([model for model in models if model is not None and wanted in _squash(model)]))
    if filters.since is not None:
        terms.append(Measurement.measured_at >= filters.since)
    if not filters.retracted:
        terms.append(Measurement.id.not_in(sa.select(Retraction.target_id)))
    return terms


def device_ids(connection: Connection, text: str) -> list[str]:
    """Return the ids of the devices that ``text`` means.

    The id of a probed device or a profile's name means exactly that (``cuda:1`` is not ``cuda:10``); anything else is a part of a name.
    """
    rows = connection.execute(sa.select(Device.id, Device.machine_id, Device.key, Device.name, Device.profile, Device.hw_class)).all()
    low = text.lower()
    exact = [row.id for row in rows if low in {row.id, str(row.profile).lower(), row.key.lower() if row.machine_id else ""}]
    if exact:
        return exact
    wanted = _squash(text)
    return [row.id for row in rows if any(part and wanted in _squash(part) for part in row[2:])]


def _squash(text: str) -> str:
    """Return ``text`` in lower case without separators: people write ``resnet-50`` and ``resnet50``, ``A100-80`` and ``A100 80``."""
    return re.sub(r"[\s_\-]+", "", text.lower())


def beginning(column: Any, text: str) -> ColumnElement[bool]:
    """Return the term "``column`` begins with ``text``", with no character of it special."""
    term: ColumnElement[bool] = column.startswith(text, autoescape=True)
    return term


def measurement_select(*, samples: bool = False) -> Select[Any]:
    """Return the select that ``rows.measurement_dict`` reads: measurement, device, machine, retraction."""
    table = Measurement.__table__
    columns = [column for column in table.columns if column.name not in ("device_id", "sample_seconds")]
    if samples:
        columns.append(table.columns.sample_seconds)
    return (
        sa.select(
            *columns,
            Device.key.label("device"),
            Device.name.label("device_name"),
            Device.profile.label("device_profile"),
            Device.hw_class,
            Run.machine_id,
            Machine.fingerprint.label("machine"),
            Retraction.reason.label("retracted"),
        )
        .select_from(Measurement)
        .join(Device, Device.id == Measurement.device_id)
        .join(Run, Run.id == Measurement.run_id)
        .outerjoin(Machine, Machine.id == Run.machine_id)
        .outerjoin(Retraction, Retraction.target_id == Measurement.id)
    )


def measurements(connection: Connection, filters: Filters) -> list[dict[str, Any]]:
    """Return the measurements of ``filters``, newest first; those of unknown date (published ones) last."""
    terms = conditions(connection, filters)
    query = measurement_select(samples=filters.samples).where(*terms)
    if filters.latest:
        order = sa.func.row_number().over(partition_by=Measurement.series, order_by=(Measurement.measured_at.desc(), Measurement.id.desc()))
        ranked = sa.select(Measurement.id, order.label("age")).where(*terms).subquery()
        query = query.join(ranked, ranked.c.id == Measurement.id).where(ranked.c.age == 1)
    newest_first = (Measurement.measured_at.desc().nulls_last(), Measurement.id.desc())
    if filters.limit is not None and not filters.latest:
        # Chosen before anything is joined, along the index of measured_at: a page of a million takes no longer than one of a thousand.
        chosen = sa.select(Measurement.id).where(*terms).order_by(*newest_first).limit(filters.limit).subquery()
        query = measurement_select(samples=filters.samples).join(chosen, chosen.c.id == Measurement.id)
    query = query.order_by(*newest_first).limit(filters.limit)
    return [measurement_dict(dict(row), samples=filters.samples) for row in connection.execute(query).mappings()]


def measurement(connection: Connection, identifier: str) -> dict[str, Any] | None:
    """Return the measurement of that id with its samples, withdrawn or not, or None."""
    row = connection.execute(measurement_select(samples=True).where(Measurement.id == identifier)).mappings().one_or_none()
    return None if row is None else measurement_dict(dict(row), samples=True)


def trials(
    connection: Connection, equal: Mapping[str, str | None], *, machine: str | None, since: datetime | None, limit: int | None
) -> list[dict[str, Any]]:
    """Return trials that are not withdrawn, newest first; ``equal`` names columns and the values they must have."""
    query = (
        sa.select(*PlanTrial.__table__.columns, Machine.fingerprint.label("machine"))
        .select_from(PlanTrial)
        .join(Run, Run.id == PlanTrial.run_id)
        .outerjoin(Machine, Machine.id == Run.machine_id)
        .where(PlanTrial.id.not_in(sa.select(Retraction.target_id)))
        .where(*(getattr(PlanTrial, name) == value for name, value in equal.items() if value is not None))
        .order_by(PlanTrial.measured_at.desc(), PlanTrial.id.desc())
        .limit(limit)
    )
    if machine is not None:
        query = query.where(beginning(Machine.fingerprint, machine) | beginning(Machine.id, machine))
    if since is not None:
        query = query.where(PlanTrial.measured_at >= since)
    return [trial_dict(row) for row in connection.execute(query).mappings()]


def trial_dict(row: RowMapping) -> dict[str, Any]:
    """Return a trial as it was stored, with its provenance."""
    own = {name: row[name] for name in ("id", "run_id", "machine", "origin", "content_hash", "status")}
    return {**row["document"], **own, "measured_at": iso(row["measured_at"])}


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
