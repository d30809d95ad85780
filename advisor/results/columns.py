"""Measurements again, column by column: what statistics over a million of them read instead of a million rows.

A chunk holds some measurements of one benchmark as packed little-endian arrays, one a column:

    ids        16 bytes   the UUID of the measurement (big-endian; the code of an id that is none, behind twelve bytes of ones)
    series      8 bytes   the first 64 bits of ``series`` (big-endian)
    moments     int64     ``measured_at`` in microseconds since 1970, ``UNKNOWN`` where it is not known
    readings    float64   ``value``, NaN where there is none
    devices, runs, whats, cases   uint32   codes of ``column_codes``

A *what* is benchmark, backend, its version, dtype, model, metric, unit, status and origin; a *case* is the parameters.

Chunks are written in the transaction that writes their measurements, and never changed: writers do not wait for each other. Where many
small ones have gathered, one writer puts them together (as a log-structured merge tree does), so that each measurement is moved a few
times at most. Withdrawing leaves chunks alone: who reads them passes over what ``retractions`` names. All of it follows from the
tables ``measurements`` and can be built again from them.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from advisor.results.hash import canonical_json, new_id, text_hash
from advisor.results.schema import PACKED, ColumnChunk, ColumnCode, Measurement

#: What ``moments`` holds for a measurement of unknown date.
UNKNOWN = -(1 << 63)
#: A chunk of level n has about 16 to the power of n measurements; so many of one level become one of the next.
GROWTH = 16
#: Level from which chunks stay as they are: 4,096 measurements and more.
SEALED = 3
#: Bytes before the code of an id that is no UUID. No UUID begins so: its version would be 15.
NO_UUID = b"\xff" * 12
#: Fields that make a *what*.
WHAT = ("benchmark", "backend", "backend_version", "dtype", "model", "metric", "unit", "status", "origin")
#: Key of the PostgreSQL advisory lock of the one who puts chunks together.
MERGE_LOCK = 0x6164_7669_636F_6C
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH = 5_000
#: Names asked for in one statement: SQLite takes 32,766 parameters.
_ASK = 10_000


def is_uuid(identifier: str) -> bool:
    """Tell whether an id stands in the columns as it is, and not as a code."""
    return _UUID.fullmatch(identifier) is not None and not identifier.startswith("ffffffff")


def microseconds(moment: datetime | None) -> int:
    """Return an instant as ``moments`` holds it."""
    if moment is None:
        return UNKNOWN
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def append(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add measurements that this transaction has just inserted to the columns."""
    if not rows:
        return
    whats = [tuple(row[name] for name in WHAT) for row in rows]
    params = [row["canonical_params"] for row in rows]
    what_keys = {what: text_hash(*(f"{value}" if value is not None else "\0" for value in what))[:32] for what in set(whats)}
    case_keys = {text: text_hash(text)[:32] for text in set(params)}
    documents = {("what", key): dict(zip(WHAT, what, strict=True)) for what, key in what_keys.items()}
    documents |= {("case", case_keys[text]): row["params"] for text, row in zip(params, rows, strict=True)}
    wanted: dict[tuple[str, str], Any] = {("device", row["device_id"]): None for row in rows} | {
        ("run", row["run_id"]): None for row in rows
    }
    wanted |= documents | {("id", row["id"]): None for row in rows if not is_uuid(row["id"])}
    codes = assign_codes(connection, wanted)
    by_benchmark: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        by_benchmark.setdefault(row["benchmark"], []).append(index)
    chunks = []
    for benchmark, members in by_benchmark.items():
        mine = [rows[index] for index in members]
        chunks.append(
            {
                "id": new_id(),
                "benchmark": benchmark,
                "level": _level(len(mine)),
                "size": len(mine),
                "ids": b"".join(_packed_id(row["id"], codes) for row in mine),
                "series": bytes.fromhex("".join(row["series"][:16] for row in mine)),
                "moments": _packed("q", [microseconds(row["measured_at"]) for row in mine]),
                "readings": _packed("d", [float("nan") if row["value"] is None else row["value"] for row in mine]),
                "devices": _packed("I", [codes["device", row["device_id"]] for row in mine]),
                "runs": _packed("I", [codes["run", row["run_id"]] for row in mine]),
                "whats": _packed("I", [codes["what", what_keys[whats[index]]] for index in members]),
                "cases": _packed("I", [codes["case", case_keys[params[index]]] for index in members]),
            }
        )
    connection.execute(sa.insert(ColumnChunk), chunks)
    for benchmark in sorted(by_benchmark):
        _put_together(connection, benchmark)


def _packed_id(identifier: str, codes: Mapping[tuple[str, str], int]) -> bytes:
    if is_uuid(identifier):
        return bytes.fromhex(identifier.replace("-", ""))
    return NO_UUID + codes["id", identifier].to_bytes(4, "big")


def _packed(kind: str, values: Sequence[float]) -> bytes:
    made = array(kind, values)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def _level(size: int) -> int:
    level = 0
    while size >= GROWTH and level < SEALED:
        size //= GROWTH
        level += 1
    return level


def assign_codes(connection: Connection, wanted: Mapping[tuple[str, str], Any]) -> dict[tuple[str, str], int]:
    """Return the code of each (kind, key), giving one, and storing the document, to those that have none yet."""
    found = _read_codes(connection, wanted)
    missing = sorted(set(wanted) - set(found))
    if missing:
        make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        # In order, so that two writers who give codes to the same names wait for each other and never both at once.
        rows = [{"kind": kind, "key": key, "document": wanted[kind, key]} for kind, key in missing]
        connection.execute(make(ColumnCode).on_conflict_do_nothing(), rows)
        found |= _read_codes(connection, missing)
    return found


def _read_codes(connection: Connection, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    keys: dict[str, list[str]] = {}
    for kind, key in wanted:
        keys.setdefault(kind, []).append(key)
    found: dict[tuple[str, str], int] = {}
    for kind, names in keys.items():
        for start in range(0, len(names), _ASK):
            query = sa.select(ColumnCode.key, ColumnCode.code).where(
                ColumnCode.kind == kind, ColumnCode.key.in_(names[start : start + _ASK])
            )
            found.update({(kind, key): code for key, code in connection.execute(query)})
    return found


def _put_together(connection: Connection, benchmark: str) -> None:
    """Make one chunk of the many of a level, until no level has many."""
    of_benchmark = ColumnChunk.benchmark == benchmark
    while True:
        many = (
            sa.select(ColumnChunk.level)
            .where(of_benchmark, ColumnChunk.level < SEALED)
            .group_by(ColumnChunk.level)
            .having(sa.func.count() >= GROWTH)
            .limit(1)
        )
        level = connection.execute(many).scalar()
        if level is None:
            return
        if not _may_merge(connection):
            return  # Another writer is at it.
        columns = [getattr(ColumnChunk, name) for name in PACKED]
        query = sa.select(ColumnChunk.id, ColumnChunk.size, *columns).where(of_benchmark, ColumnChunk.level == level)
        rows = connection.execute(query).all()
        if len(rows) < GROWTH:
            return  # Another writer has just done it.
        connection.execute(sa.delete(ColumnChunk).where(ColumnChunk.id.in_([row.id for row in rows])))
        size = sum(row.size for row in rows)
        whole = {name: b"".join(getattr(row, name) for row in rows) for name in PACKED}
        chunk = {"id": new_id(), "benchmark": benchmark, "level": max(level + 1, _level(size)), "size": size}
        connection.execute(sa.insert(ColumnChunk), [chunk | whole])


def _may_merge(connection: Connection) -> bool:
    """Tell whether this transaction is the one that may put chunks together (SQLite has one writer anyway)."""
    if connection.dialect.name != "postgresql":
        return True
    return bool(connection.execute(sa.select(sa.func.pg_try_advisory_xact_lock(MERGE_LOCK))).scalar())


def rebuild(connection: Connection) -> None:
    """Build the columns again from the measurements."""
    connection.execute(sa.delete(ColumnChunk))
    connection.execute(sa.delete(ColumnCode))
    fields = ("id", "run_id", "device_id", "series", "params", "value", "measured_at", *WHAT)
    last = ""
    while True:
        query = (
            sa.select(*(getattr(Measurement, name) for name in fields)).where(Measurement.id > last).order_by(Measurement.id).limit(_BATCH)
        )
        rows = [{**row, "canonical_params": canonical_json(row["params"])} for row in connection.execute(query).mappings()]
        if not rows:
            return
        append(connection, rows)
        last = rows[-1]["id"]


def are_whole(connection: Connection) -> bool:
    """Tell whether the columns hold as many measurements as the table."""
    held = connection.execute(sa.select(sa.func.sum(ColumnChunk.size))).scalar() or 0
    return held == connection.execute(sa.select(sa.func.count()).select_from(Measurement)).scalar()
