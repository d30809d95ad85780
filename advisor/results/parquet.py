"""Parquet: measurements with their provenance in flat columns (what is nested stands as JSON text). Needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from advisor.errors import DatabaseError, EnvironmentLacks, UsageError
from advisor.resources import written_whole
from advisor.results.exchange import FORMAT, PLAIN, VERSION, check_header, export_records
from advisor.results.filters import Filters

#: Columns that hold whole records of what a measurement refers to, so that one file stands alone.
_CONTEXT = tuple(PLAIN)
_NESTED = ("params", "conditions")
_METADATA = b"advisor"
_BATCH = 10_000


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise EnvironmentLacks("NO-PYARROW", "Parquet needs the package pyarrow", "pip install 'hw-advisor[parquet]'") from error
    return pyarrow


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def write_table(rows: Sequence[Mapping[str, Any]], target: Path) -> int:
    """Write rows (dictionaries of one set of names) to a Parquet file; return how many."""
    pa = _pyarrow()
    names = list(rows[0]) if rows else []
    columns = {name: [_flat(row[name]) for row in rows] for name in names}
    try:
        with written_whole(target) as part:
            pa.parquet.write_table(pa.table(columns), part)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UsageError(f"a column mixes kinds of values, which Parquet cannot hold: {error}", "use --format csv or json") from error
    return len(rows)


def _flat(value: Any) -> Any:
    return _json(value) if isinstance(value, dict | list) else value


def write_exchange(connection: Connection, filters: Filters, target: Path) -> dict[str, int]:
    """Write the measurements of ``filters`` so that ``read_exchange`` can take them in elsewhere; return counts by record."""
    pa = _pyarrow()
    known: dict[str, dict[str, str]] = {kind: {} for kind in PLAIN}
    rows: list[dict[str, Any]] = []
    withdrawn: dict[str, str] = {}
    runs: dict[str, dict[str, Any]] = {}
    for item in export_records(connection, filters):
        kind = item.pop("record")
        if kind in PLAIN:
            known[kind][item["id"]] = str(_json(item))
            if kind == "run":
                runs[item["id"]] = item
        elif kind == "measurement":
            run = runs[item["run_id"]]
            rows.append(item | {"machine_record": run["machine_id"], "environment_record": run["environment_id"]})
        elif kind == "retraction":
            withdrawn[item["target_id"]] = str(_json(item))
    columns: dict[str, Any] = {}
    for name in rows[0] if rows else ():
        if name.endswith("_record"):
            continue
        values = [row[name] for row in rows]
        columns[name] = pa.array([_json(value) for value in values] if name in _NESTED else values)
    for kind, key in (("machine", "machine_record"), ("environment", "environment_record"), ("device", "device_id"), ("run", "run_id")):
        columns[f"{kind}_record"] = pa.array([known[kind].get(row[key] or "") for row in rows], pa.string()).dictionary_encode()
    columns["retraction_record"] = pa.array([withdrawn.get(row["id"]) for row in rows], pa.string())
    header = json.dumps({"format": FORMAT, "version": VERSION}).encode()
    try:
        with written_whole(target) as part:
            pa.parquet.write_table(pa.table(columns).replace_schema_metadata({_METADATA: header}), part, compression="zstd")
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    return {"measurement": len(rows), "retraction": len(withdrawn)}


def read_exchange(source: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, record) of a file of ``write_exchange``; UsageError where it is another kind of file."""
    pa = _pyarrow()
    if source.exists() and not source.is_file():
        raise UsageError(f"cannot read {source}: it is no ordinary file")
    try:
        file = pa.parquet.ParquetFile(source)
        header = (file.schema_arrow.metadata or {}).get(_METADATA)
        if header is None:
            raise UsageError(f"{source} was not written by `advisor results export`")
        check_header(_object(header, str(source)))
        seen: set[tuple[str, str]] = set()
        number = 0
        for batch in file.iter_batches(batch_size=_BATCH):
            for row in batch.to_pylist():
                number += 1
                yield from _unpack(row, f"{source} row {number}", seen)
    except (OSError, pa.ArrowInvalid, ValueError) as error:
        if isinstance(error, UsageError | DatabaseError):
            raise
        raise UsageError(f"cannot read {source}: {getattr(error, 'strerror', None) or str(error).splitlines()[0]}") from error


def _object(text: Any, place: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{place}: a column of records holds something that is no JSON object: {text!r}"[:200])
    return value


def _unpack(row: dict[str, Any], place: str, seen: set[tuple[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in (*_CONTEXT, "retraction"):
        text = row.pop(f"{kind}_record", None)
        if text is None or (kind, text) in seen:
            continue
        seen.add((kind, text))
        yield place, {"record": kind, **_object(text, place)}
    for name in _NESTED:
        row[name] = _object(row[name], place) if row.get(name) else {}
    yield place, {"record": "measurement", **row}
