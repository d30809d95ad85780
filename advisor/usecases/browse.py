"""What the pages show of the database, one function a page. Each takes an open Store and returns the page's JSON document."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sa

from advisor.errors import UnknownName
from advisor.results import overview
from advisor.results.filters import Filters
from advisor.results.frame import Frame, load
from advisor.results.groups import compact, groups_of, needed_columns
from advisor.results.rows import iso
from advisor.results.schema import Device, Machine, Recommendation, Run
from advisor.results.store import Store
from advisor.usecases.results import table
from advisor.usecases.roofline import ROOFLINE_COLUMNS, device_ids, roofline

SCHEMA_VERSION = 1
#: Groups that a device's page shows.
MOST_GROUPS = 200


def home(store: Store) -> dict[str, Any]:
    """Return what the database holds, the newest runs, and which benchmarks there are."""
    with store.reading() as connection:
        frame = load(connection, Filters(), ["whats", "devices"])
        held = _tally(frame)
        machines = connection.execute(sa.select(sa.func.count(sa.distinct(Machine.fingerprint)))).scalar() or 0
        answers = connection.execute(sa.select(sa.func.count()).select_from(Recommendation)).scalar() or 0
        runs = overview.recent_runs(connection, 10)
    origins: dict[str, int] = {}
    for (_, origin), (count, _) in sorted(held.items()):
        origins[origin] = origins.get(origin, 0) + count
    kinds = {}
    for (benchmark, _), (count, devices) in held.items():
        before = kinds.get(benchmark, (0, set()))
        kinds[benchmark] = (before[0] + count, before[1] | devices)
    listed = sorted(kinds.items(), key=lambda item: (-item[1][0], item[0]))
    return {
        "schema_version": SCHEMA_VERSION,
        "measurements": sum(origins.values()),
        "by_origin": origins,
        "machines": machines,
        "recommendations": answers,
        "benchmarks": [{"benchmark": name, "measurements": count, "devices": len(devices)} for name, (count, devices) in listed],
        "runs": [{key: value for key, value in run.items() if key != "command"} for run in runs],
    }


def _tally(frame: Frame) -> dict[tuple[str, str], tuple[int, set[int]]]:
    """Return how many measurements there are, and on which devices, by benchmark and origin."""
    kinds, labels = frame.table("whats", lambda what: (what["benchmark"], what["origin"]), frame.whats)
    _, devices = compact(frame["devices"].astype(np.int64), int(frame["devices"].max(initial=0)) + 1)
    width = int(devices.max(initial=0)) + 1
    counts = np.bincount(kinds * width + devices, minlength=len(labels) * width).reshape(-1, width)
    return {label: (int(row.sum()), set(np.flatnonzero(row).tolist())) for label, row in zip(labels, counts, strict=True) if row.any()}


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
        by = ("benchmark", "backend", "dtype")
        frame = load(connection, Filters(machine=row.fingerprint), [*needed_columns(by), *ROOFLINE_COLUMNS])
        rooflines = {}
        for key in dict.fromkeys(device.key for device in devices):
            own = [device for device in devices if device.key == key]
            drawn = roofline(frame, [device.id for device in own], _sheet(own[-1].profile))
            if drawn["points"] or drawn["bandwidths"]:
                rooflines[key] = drawn
        columns, rows = groups_of(frame, by, limit=60)
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
        by, over_time = ("benchmark", "backend", "dtype"), ("benchmark", "dtype", "backend", "version", "month")
        frame = load(connection, Filters(device_ids=tuple(ids)), [*needed_columns((*by, *over_time)), *ROOFLINE_COLUMNS])
        drawn = roofline(frame, ids, _sheet(profile))
        best = table(*groups_of(frame, by, limit=MOST_GROUPS))["rows"]
        history = table(*groups_of(frame, over_time, limit=MOST_GROUPS))["rows"]
    return document | {"roofline": drawn, "best": best, "history": history, "devices": len(ids)}
