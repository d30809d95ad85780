"""Load the published rows into a database as measurements of origin ``published``, once per edition of the tables.

A row keeps all its facts in ``params``; the columns of a measurement hold what can be compared. Where a source names no framework,
``backend`` is the name of its group. ``measured_at`` is unknown: sources date their pages, not their measurements.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from advisor.results.database import Database
from advisor.results.hash import content_hash, derived_id
from advisor.results.published import KINDS, published_path, read_hardware_specs, read_published
from advisor.results.rows import measurement_row, now
from advisor.results.schema import Device, DeviceSheet, Measurement, Retraction, Run, SoftwareEnvironment
from advisor.results.write import insert_measurements, insert_new

_DTYPE = re.compile(r"bfloat16|float16|float32|half|fp64|fp32|tf32|bf16|fp16|fp8|fp4|nvfp4|int8")
_SYNONYMS = {"bfloat16": "bf16", "half": "fp16", "float16": "fp16", "float32": "fp32", "nvfp4": "fp4"}
#: Short names of models that people look for by the long one.
_MODEL_NAMES = {"RN50": "ResNet50"}
#: Rows whose decimal point is missing in the table (1.61 TB/s of an A100 stands as 161 GB/s): kept as they are, never counted as ok.
_DAMAGED = {"HBM GB/s (printed TB/s)": "the table lost the decimal point of this number"}
_UNITS_OF_SAMPLES = ("img/s", "images/s", "sent/sec", "sequences/s", "samples/s")


def number(text: str) -> float | None:
    """Return the number that the whole of ``text`` is, or None (``79872 , 90112`` is none)."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def dtype(text: str) -> str:
    """Return the contract's name of a precision as printed, or ``unstated`` where it names none or several."""
    names = {_SYNONYMS.get(name, name) for name in _DTYPE.findall(text.lower())}
    return names.pop() if len(names) == 1 else "unstated"


def _params(row: Mapping[str, str], left_out: tuple[str, ...] = ("id", "source")) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for name, text in row.items():
        if text and name not in left_out:
            value = number(text)
            params[name] = text if value is None else int(value) if value.is_integer() else value
    return params


def _value(row: Mapping[str, str], *candidates: tuple[str, float, str, str]) -> tuple[str, str, float | None]:
    """Return (metric, unit, value) of the first column of ``candidates`` (column, factor, metric, unit) that holds a number."""
    for column, factor, metric, unit in candidates:
        value = number(row[column])
        if value is not None:
            return metric, unit, value * factor
    return candidates[0][2], candidates[0][3], None


def _microbench(row: Mapping[str, str]) -> dict[str, Any]:
    metric = _value(
        row,
        ("tflops", 1e12, "flops_per_s", "FLOP/s"),
        ("gb_per_s", 1e9, "bytes_per_s", "B/s"),
        ("time_ms", 1e-3, "seconds", "s"),
    )
    return {"benchmark": row["kind"], "backend": row["group"], "dtype": dtype(row["dtype"]), "metric": metric}


def _training(row: Mapping[str, str]) -> dict[str, Any]:
    metric = _value(
        row,
        ("step_time_s", 1.0, "seconds", "s"),
        ("tokens_per_s_per_device", 1.0, "tokens_per_s_per_device", "tokens/s"),
        ("samples_per_s", 1.0, "samples_per_s", "samples/s"),
        ("tflops_per_device", 1e12, "flops_per_s", "FLOP/s"),
    )
    return {"benchmark": "training", "backend": row["framework"] or row["group"], "dtype": dtype(row["precision"]), "metric": metric}


def _inference(row: Mapping[str, str]) -> dict[str, Any]:
    metric = _value(row, ("latency_ms", 1e-3, "seconds", "s"), ("tokens_per_s", 1.0, "tokens_per_s", "tokens/s"))
    return {"benchmark": "inference", "backend": row["framework"] or row["group"], "dtype": dtype(row["precision"]), "metric": metric}


def _classic(row: Mapping[str, str]) -> dict[str, Any]:
    unit = row["throughput_unit"]
    name = "samples_per_s" if unit.startswith(_UNITS_OF_SAMPLES) else "tokens_per_s" if unit.startswith("tokens/s") else "throughput"
    metric = _value(row, ("throughput", 1.0, name, unit), ("latency_ms", 1e-3, "seconds", "s"))
    return {"benchmark": row["mode"], "backend": row["framework"] or row["group"], "dtype": dtype(row["precision"]), "metric": metric}


_READERS = {"training": _training, "inference": _inference, "classic": _classic, "microbench": _microbench}


def measurements(kind: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each published row of ``kind`` as a measurement dictionary, with its hardware class."""
    for row in read_published(kind):
        facts = _READERS[kind](row)
        metric, unit, value = facts.pop("metric")
        damage = _DAMAGED.get(row.get("bandwidth_kind", ""))
        status = "suspect" if damage else row.get("status", "ok")
        params = _params(row)
        model = row.get("model") or row.get("model_name")
        if model:
            for short, long in _MODEL_NAMES.items():
                model = model.replace(short, long)
            params["model"] = model
        yield (
            {
                **facts,
                "id": derived_id("published", kind, *row.values()),
                "device": row["hardware"] or "unstated",
                "params": params,
                "metric": metric,
                "unit": unit,
                "value": value,
                "status": "failed" if status == "oom" else status,
                "reason": damage or {"oom": "out of memory", "suspect": "the source contradicts itself or was disturbed"}.get(status),
                "source": row["source"],
                "measured_at": None,
            },
            row["hw_class"],
        )


def seed(store: Database) -> dict[str, Any]:
    """Load what is new of the published tables; return, per kind, how many rows are in the table and how many were added.

    Idempotent: an edition that was loaded is passed over. A row that a newer edition no longer has is marked as withdrawn.
    """
    counts = {}
    for kind in KINDS:
        digest = hashlib.sha256(published_path(kind).read_bytes()).hexdigest()
        run_id = derived_id("published-run", kind, digest)
        with store.reading() as connection:
            settings = connection.execute(sa.select(Run.settings).where(Run.id == run_id)).scalar()
        if settings is not None:
            counts[kind] = {"rows": settings["rows"], "added": 0}
            continue
        counts[kind] = store.write(partial(_load, kind=kind, run_id=run_id, digest=digest))
    counts["hardware_specs"] = store.write(_load_sheets)
    return counts


def _load(connection: Connection, kind: str, run_id: str, digest: str) -> dict[str, int]:
    devices: dict[str, dict[str, Any]] = {}
    rows = []
    for m, hw_class in measurements(kind):
        device_id = derived_id("device", "published", m["device"], hw_class)
        devices[device_id] = {"id": device_id, "key": m["device"], "name": m["device"], "hw_class": hw_class or None}
        rows.append(measurement_row(m, run_id=run_id, machine="published", device_id=device_id, origin="published"))
    moment = now()
    environment = {
        "id": derived_id("environment", content_hash({})),
        "content_hash": content_hash({}),
        "document": {},
        "created_at": moment,
    }
    settings = {"kind": kind, "file_sha256": digest, "rows": len(rows)}
    run = {"id": run_id, "kind": "published", "environment_id": environment["id"], "settings": settings, "origin": "published"}
    insert_new(connection, SoftwareEnvironment, [environment])
    insert_new(connection, Run, [run | {"started_at": moment, "finished_at": moment}])
    insert_new(connection, Device, list(devices.values()))
    added = insert_measurements(connection, rows)
    _withdraw_dropped(connection, kind, {row["id"] for row in rows})
    return {"rows": len(rows), "added": added}


def _withdraw_dropped(connection: Connection, kind: str, current: set[str]) -> None:
    """Mark the rows of earlier editions of ``kind`` that are not in the ``current`` one."""
    editions = connection.execute(sa.select(Run.id, Run.settings).where(Run.kind == "published")).all()
    runs = [run.id for run in editions if run.settings["kind"] == kind]
    stored = connection.execute(sa.select(Measurement.id).where(Measurement.run_id.in_(runs))).scalars()
    reason = "not in a later edition of the published tables"
    insert_new(
        connection, Retraction, [{"target_id": name, "reason": reason, "created_at": now()} for name in stored if name not in current]
    )


def _load_sheets(connection: Connection) -> dict[str, int]:
    rows = []
    for row in read_hardware_specs():
        facts = _params(row, left_out=("device", "vendor", "sources"))
        rows.append(
            {
                "device": row["device"],
                "vendor": row["vendor"],
                "document": facts,
                "sources": row["sources"],
                "content_hash": content_hash(row),
            }
        )
    stored = set(connection.execute(sa.select(DeviceSheet.content_hash)).scalars())
    if stored == {row["content_hash"] for row in rows}:
        return {"rows": len(rows), "added": 0}
    connection.execute(sa.delete(DeviceSheet))
    return {"rows": len(rows), "added": insert_new(connection, DeviceSheet, rows)}
