"""What the pages show of the database, one function a page. Each takes an open Store and returns the page's JSON document."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql import ColumnElement

from advisor.errors import UnknownName, UsageError
from advisor.results import overview, queries
from advisor.results.groups import groups
from advisor.results.queries import Filters
from advisor.results.rows import iso, measurement_dict, parse_time
from advisor.results.schema import Device, Machine, Measurement, Recommendation, Run
from advisor.results.store import Store
from advisor.usecases.results import table
from advisor.usecases.roofline import device_ids, roofline

SCHEMA_VERSION = 1
PAGE_MOST = 500
#: What measurements can be compared by on a page.
COMPARE_BY = ("class", "device", "backend", "version", "dtype", "machine", "model", "origin")


def home(store: Store) -> dict[str, Any]:
    """Return what the database holds, the newest runs, and which benchmarks there are."""
    with store.reading() as connection:
        kinds = connection.execute(
            sa.select(Measurement.benchmark, sa.func.count(), sa.func.count(sa.distinct(Measurement.device_id)))
            .group_by(Measurement.benchmark)
            .order_by(sa.func.count().desc())
        ).all()
        origins = overview.by_origin(connection)
        machines = connection.execute(sa.select(sa.func.count(sa.distinct(Machine.fingerprint)))).scalar() or 0
        answers = connection.execute(sa.select(sa.func.count()).select_from(Recommendation)).scalar() or 0
        runs = overview.recent_runs(connection, 10)
    return {
        "schema_version": SCHEMA_VERSION,
        "measurements": sum(origins.values()),
        "by_origin": origins,
        "machines": machines,
        "recommendations": answers,
        "benchmarks": [{"benchmark": name, "measurements": count, "devices": devices} for name, count, devices in kinds],
        "runs": [{key: value for key, value in run.items() if key != "command"} for run in runs],
    }


def machines(store: Store, *, limit: int, offset: int) -> dict[str, Any]:
    """Return machines by fingerprint, the newest document of each, the one seen last first."""
    newest = sa.func.row_number().over(partition_by=Machine.fingerprint, order_by=(Machine.last_seen_at.desc(), Machine.id))
    ranked = sa.select(Machine.id, newest.label("age")).subquery()
    query = (
        sa.select(Machine.id, Machine.fingerprint, Machine.document, Machine.origin, Machine.first_seen_at, Machine.last_seen_at)
        .join(ranked, ranked.c.id == Machine.id)
        .where(ranked.c.age == 1)
        .order_by(Machine.last_seen_at.desc(), Machine.id)
        .limit(limit + 1)
        .offset(offset)
    )
    with store.reading() as connection:
        rows = connection.execute(query).all()
    found = [
        {
            "id": row.id,
            "fingerprint": row.fingerprint,
            "origin": row.origin,
            "first_seen_at": iso(row.first_seen_at),
            "last_seen_at": iso(row.last_seen_at),
            **_machine_summary(row.document),
        }
        for row in rows[:limit]
    ]
    more = offset + limit if len(rows) > limit else None
    return {"schema_version": SCHEMA_VERSION, "machines": found, "limit": limit, "offset": offset, "next_offset": more}


def _machine_summary(document: Any) -> dict[str, Any]:
    """Return what a list shows of a probe's document; parts that a document lacks are None."""
    document = _object(document)
    host = _object(document.get("host"))
    cpu, memory = _object(host.get("cpu")), _object(host.get("memory"))
    devices = [item for item in document.get("devices") or [] if isinstance(item, dict)]
    return {
        "cpu": cpu.get("model") or cpu.get("vendor"),
        "usable_cpus": cpu.get("usable_cpus"),
        "memory_bytes": memory.get("usable_bytes") or memory.get("total_bytes"),
        "devices": [{name: item.get(name) for name in ("id", "name", "target", "state", "profile", "memory_bytes")} for item in devices],
    }


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def machine(store: Store, identifier: str) -> dict[str, Any]:
    """Return one machine by its fingerprint or id: its document, the roofline of each of its devices, and its runs."""
    with store.reading() as connection:
        row = connection.execute(
            sa.select(*Machine.__table__.columns)
            .where((Machine.fingerprint == identifier) | (Machine.id == identifier))
            .order_by(Machine.last_seen_at.desc())
            .limit(1)
        ).one_or_none()
        if row is None:
            raise UnknownName("machine", identifier[:60], (), "/machines")
        same = sa.select(Machine.id).where(Machine.fingerprint == row.fingerprint)
        devices = connection.execute(sa.select(Device.id, Device.key, Device.profile).where(Device.machine_id.in_(same))).all()
        keys = list(dict.fromkeys(device.key for device in devices))
        rooflines = {}
        for key in keys:
            own = [device for device in devices if device.key == key]
            drawn = roofline(connection, [device.id for device in own], _sheet(own[-1].profile))
            if drawn["points"] or drawn["bandwidths"]:
                rooflines[key] = drawn
        columns, rows = groups(connection, Filters(machine=row.fingerprint, limit=60), ("benchmark", "backend", "dtype"))
        runs = connection.execute(
            sa.select(Run.id, Run.kind, Run.origin, Run.started_at, Run.finished_at)
            .where(Run.machine_id.in_(same))
            .order_by(Run.started_at.desc())
            .limit(20)
        ).all()
    return {
        "schema_version": SCHEMA_VERSION,
        "id": row.id,
        "fingerprint": row.fingerprint,
        "origin": row.origin,
        "first_seen_at": iso(row.first_seen_at),
        "last_seen_at": iso(row.last_seen_at),
        "summary": _machine_summary(row.document),
        "document": row.document,
        "rooflines": rooflines,
        "best": table(columns, rows)["rows"],
        "runs": [
            {"id": r.id, "kind": r.kind, "origin": r.origin, "started_at": iso(r.started_at), "finished_at": iso(r.finished_at)}
            for r in runs
        ],
    }


def _sheet(name: str | None) -> Any:
    from advisor.hardware.load import find_profile

    return None if name is None else find_profile(name)


def device(store: Store, name: str) -> dict[str, Any]:
    """Return a device's sheet, its roofline, what was measured best by benchmark and framework, and how that changed by month."""
    from advisor.usecases.hardware import show_hardware

    document = show_hardware(name)
    if document["kind"] == "system":
        return document | {"roofline": None, "best": [], "history": [], "devices": 0}
    profile = document["sheet"]["id"]
    with store.reading() as connection:
        ids = device_ids(connection, profile)
        drawn = roofline(connection, ids, _sheet(profile))
        best = _best(connection, ids, ("benchmark", "backend", "dtype")) if ids else []
        history = _best(connection, ids, ("benchmark", "dtype", "backend", "version", "month")) if ids else []
    return document | {"roofline": drawn, "best": best, "history": history, "devices": len(ids)}


def _best(connection: Connection, ids: Sequence[str], by: tuple[str, ...]) -> list[dict[str, Any]]:
    columns, rows = groups(connection, Filters(limit=200, device_ids=tuple(ids)), by)
    found: list[dict[str, Any]] = table(columns, rows)["rows"]
    return found


# -- measurements, page by page ------------------------------------------------------------------------------------------


def measurements(store: Store, filters: Filters, *, limit: int, cursor: str | None) -> dict[str, Any]:
    """Return one page of measurements, newest first, and the ``next_cursor``; the time of a page does not grow with its number."""
    limit = max(1, min(limit, PAGE_MOST))
    after = None if cursor is None else _read_cursor(cursor)
    with store.reading() as connection:
        terms = queries.conditions(connection, replace(filters, limit=None))
        ids = _page_ids(connection, terms, limit + 1, after)
        query = queries.measurement_select().where(Measurement.id.in_(ids[:limit]))
        rows = {row["id"]: measurement_dict(dict(row), samples=False) for row in connection.execute(query).mappings()}
    found = [rows[identifier] for identifier in ids[:limit] if identifier in rows]
    following = _cursor(found[-1]) if len(ids) > limit and found else None
    return {"schema_version": SCHEMA_VERSION, "measurements": found, "limit": limit, "next_cursor": following}


def _page_ids(connection: Connection, terms: list[ColumnElement[bool]], limit: int, after: tuple[datetime | None, str] | None) -> list[str]:
    """Return ids in order: those with a date along its index first, then those without."""
    found: list[str] = []
    when, last = after or (None, None)
    if after is None or when is not None:
        dated = sa.select(Measurement.id).where(*terms, Measurement.measured_at.is_not(None))
        if when is not None:
            dated = dated.where((Measurement.measured_at <= when) & ((Measurement.measured_at < when) | (Measurement.id < last)))
        order = (Measurement.measured_at.desc(), Measurement.id.desc())
        found += connection.execute(dated.order_by(*order).limit(limit)).scalars()
        last = None
    if len(found) < limit:
        undated = sa.select(Measurement.id).where(*terms, Measurement.measured_at.is_(None))
        if last is not None:
            undated = undated.where(Measurement.id < last)
        found += connection.execute(undated.order_by(Measurement.id.desc()).limit(limit - len(found))).scalars()
    return found


def _cursor(row: dict[str, Any]) -> str:
    text = json.dumps([row["measured_at"], row["id"]])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[datetime | None, str]:
    try:
        when, identifier = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(identifier, str) or not isinstance(when, str | None):
            raise ValueError
        return parse_time(when), identifier
    except (ValueError, TypeError, binascii.Error, RecursionError, UsageError) as error:
        raise UsageError("the cursor is not one of this service", "leave it out to begin at the first page", "BAD-CURSOR") from error


def measurement(store: Store, identifier: str) -> dict[str, Any]:
    """Return one measurement whole, by its id."""
    with store.reading() as connection:
        found = queries.measurement(connection, identifier)
    if found is None:
        raise UnknownName("measurement", identifier[:60], (), "/measurements")
    return {"schema_version": SCHEMA_VERSION, "measurement": found}


# -- comparing -----------------------------------------------------------------------------------------------------------


def compare(store: Store, filters: Filters, by: str) -> dict[str, Any]:
    """Return best, median and spread of one benchmark by device, framework, version …, and which benchmarks and dtypes there are."""
    if by not in COMPARE_BY:
        raise UnknownName("key to compare by", by[:60], COMPARE_BY)
    with store.reading() as connection:
        known = connection.execute(sa.select(Measurement.benchmark, Measurement.dtype).distinct()).all()
        benchmark = filters.benchmark or ("gemm" if any(b == "gemm" for b, _ in known) else min((b for b, _ in known), default=None))
        rows: list[dict[str, Any]] = []
        if benchmark is not None:
            columns, cells = groups(connection, replace(filters, benchmark=benchmark), (by,))
            rows = table(columns, cells)["rows"]
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmark": benchmark,
        "dtype": filters.dtype,
        "device": filters.device,
        "backend": filters.backend,
        "by": by,
        "rows": rows,
        "benchmarks": sorted({name for name, _ in known}),
        "dtypes": sorted({dtype for name, dtype in known if name == benchmark}),
    }
