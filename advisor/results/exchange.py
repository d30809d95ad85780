"""Export, import and merge: records, one a line of JSON, in an order in which each stands after what it refers to.

    {"record": "header", "format": "advisor-results", "version": 1, …}
    {"record": "machine" | "environment" | "device" | "run" | "measurement" | "trial" | "recommendation" | "retraction", …}

Importing is idempotent: what is there by id and content is passed over; the same id with other content is a conflict, which is
reported and never stored. What another database calls ``local`` becomes ``shared`` here.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from advisor.errors import DatabaseError, UsageError
from advisor.resources import open_without_waiting, written_whole
from advisor.results import queries
from advisor.results.answers import recommendation_dict
from advisor.results.filters import Filters
from advisor.results.hash import unpack_samples
from advisor.results.rows import iso, now
from advisor.results.schema import (
    SCHEMA_REVISION,
    Device,
    Machine,
    Measurement,
    PlanTrial,
    Recommendation,
    Retraction,
    Run,
    SoftwareEnvironment,
)

FORMAT = "advisor-results"
VERSION = 1
#: Tables whose rows are exported as they are, in the order of their references.
PLAIN = {"machine": Machine, "environment": SoftwareEnvironment, "device": Device, "run": Run}
_FETCH = 2_000
#: Longest line, or document of many lines, that an import reads: a compressed file of a few bytes can hold any length.
_LONGEST = 64 << 20


def export_records(connection: Connection, filters: Filters) -> Iterator[dict[str, Any]]:
    """Yield the records of the measurements of ``filters`` and all they refer to; without filters also trials and answers."""
    everything = filters == Filters(retracted=True)
    yield {"record": "header", "format": FORMAT, "version": VERSION, "schema_revision": SCHEMA_REVISION, "exported_at": iso(now())}
    chosen = sa.select(Measurement.id, Measurement.run_id, Measurement.device_id).where(*queries.conditions(connection, filters)).subquery()
    runs = sa.select(chosen.c.run_id)
    if everything:
        runs = sa.select(Run.id)
    wanted = {
        "machine": Machine.id.in_(sa.select(Run.machine_id).where(Run.id.in_(runs))) if not everything else sa.true(),
        "environment": SoftwareEnvironment.id.in_(sa.select(Run.environment_id).where(Run.id.in_(runs))),
        "device": Device.id.in_(sa.select(chosen.c.device_id)) if not everything else sa.true(),
        "run": Run.id.in_(runs),
    }
    for record, table in PLAIN.items():
        for row in connection.execute(sa.select(*table.__table__.columns).where(wanted[record])).mappings():
            yield {"record": record, **_plain(row)}
    query = sa.select(*Measurement.__table__.columns, Device.key.label("device")).join(Device, Device.id == Measurement.device_id)
    query = query.where(*queries.conditions(connection, filters)).order_by(Measurement.id)
    if filters.limit is not None:
        query = query.limit(filters.limit)
    for row in connection.execution_options(yield_per=_FETCH).execute(query).mappings():
        yield {"record": "measurement", **_plain(row), "sample_seconds": unpack_samples(row["sample_seconds"])}
    if everything:
        yield from _rest(connection)
    marks = sa.select(*Retraction.__table__.columns)
    if not everything:
        marks = marks.where(Retraction.target_id.in_(sa.select(chosen.c.id)))
    for row in connection.execute(marks).mappings():
        yield {"record": "retraction", **_plain(row)}


def _rest(connection: Connection) -> Iterator[dict[str, Any]]:
    for row in connection.execute(sa.select(*PlanTrial.__table__.columns).order_by(PlanTrial.id)).mappings():
        yield {"record": "trial", **_plain(row)}
    for row in connection.execute(sa.select(*Recommendation.__table__.columns).order_by(Recommendation.id)).mappings().all():
        yield {"record": "recommendation", **_plain(row), "plans": recommendation_dict(connection, row)["plans"]}


def _plain(row: RowMapping) -> dict[str, Any]:
    return {str(name): iso(value) if name.endswith("_at") else value for name, value in row.items() if not isinstance(value, bytes)}


def check_header(record: Mapping[str, Any]) -> None:
    """Raise DatabaseError where an export was written by a newer program, UsageError where it is another kind of file."""
    if record.get("format") != FORMAT:
        raise UsageError(f"not an export of results: format {record.get('format')!r}")
    version = record.get("version")
    if not isinstance(version, int) or version > VERSION:
        message = f"the export has version {version!r}; this advisor reads up to {VERSION}"
        raise DatabaseError("DB-NEWER", message, "run `pip install --upgrade hw-advisor`")


# -- files ---------------------------------------------------------------------------------------------------------------


def write_lines(records: Iterable[Mapping[str, Any]], target: Path | IO[str]) -> dict[str, int]:
    """Write ``records`` as JSON lines to a file (compressed where its name ends in ``.gz``) or stream; return counts by record.

    A file appears under its name only when it is whole.
    """
    counts: dict[str, int] = {}
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
    if not isinstance(target, Path):
        _write(records, target, encode, counts)
        return counts
    try:
        with written_whole(target) as part, part.open("wb") as raw, _text_of(raw, compressed=target.suffix == ".gz") as file:
            _write(records, file, encode, counts)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return counts


def _text_of(raw: BinaryIO, *, compressed: bool) -> IO[str]:
    mode = "rt" if raw.readable() else "wt"
    return cast("IO[str]", gzip.open(raw, mode, encoding="utf-8") if compressed else io.TextIOWrapper(raw, encoding="utf-8"))


def _write(records: Iterable[Mapping[str, Any]], file: IO[str], encode: Any, counts: dict[str, int]) -> None:
    for record in records:
        file.write(encode(record) + "\n")
        counts[record["record"]] = counts.get(record["record"], 0) + 1


def read_lines(source: Path | IO[str], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, record) of JSON lines, or of the document of ``advisor bench --json``; raises UsageError where it is neither."""
    try:
        if isinstance(source, Path):
            with open_without_waiting(source) as raw, _text_of(raw, compressed=source.suffix == ".gz") as file:
                yield from _parse(file, name)
        else:
            yield from _parse(source, name)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read {name}: {reason}") from error


def _parse(file: IO[str], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    first = True
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST + 1), ""), 1):
        if len(line) > _LONGEST:
            raise _too_long(f"{name} line {number}")
        if not line.strip():
            continue
        place = f"{name} line {number}"
        if first:
            first = False
            if not _is_json(line):
                # Not a record a line: the whole may be one document, printed over many lines.
                rest = file.read(_LONGEST + 1)
                if len(rest) > _LONGEST:
                    raise _too_long(name)
                yield from _document(line + rest, name)
                return
        yield from _records(_loads(line, place), place)


def _too_long(place: str) -> UsageError:
    return UsageError(f"{place} is longer than {_LONGEST >> 20} Mi characters", "write one record a line", code="TOO-LARGE")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _document(text: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from _records(_loads(text, name), name)


def _loads(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        detail = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or not a number"
        raise UsageError(
            f"{place}: not JSON ({detail})", "import takes what `advisor results export` or `advisor bench --json` writes"
        ) from error


def _records(value: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of one JSON value: a record itself, or a document with ``measurements``."""
    if not isinstance(value, dict):
        raise UsageError(f"{place}: a record is a JSON object")
    if "record" not in value and isinstance(value.get("measurements"), list):
        for index, item in enumerate(value["measurements"]):
            if not isinstance(item, dict):
                raise UsageError(f"{place}: measurements[{index}] is not an object")
            yield f"{place} measurements[{index}]", {"record": "measurement", **item}
        return
    yield place, {"record": "measurement", **value}
