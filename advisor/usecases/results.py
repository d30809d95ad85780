"""Questions to the results database, and what goes in and out of it: one function a subcommand of ``advisor results``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.errors import UsageError
from advisor.results.exchange import export_records
from advisor.results.filters import Filters, since
from advisor.results.importing import Importer
from advisor.results.lines import read_lines, write_lines
from advisor.results.overview import counts, recent_runs, record
from advisor.results.queries import measurements
from advisor.results.store import Store

SCHEMA_VERSION = 1
SEED_HINT = "the database holds no measurements yet: `advisor bench` measures this machine, `advisor db seed` loads the published rows"
NO_MATCH_HINT = "no measurement matches; `advisor results list` shows what there is"


def make_filters(chosen: Mapping[str, str | None], **more: Any) -> Filters:
    """Return the Filters of texts as a user gives them; ``since`` is a date or a span before now. UsageError where it is neither."""
    text: dict[str, Any] = dict(chosen)
    return Filters(**text | {"since": since(chosen.get("since"))}, **more)


def list_results(url: str, *, limit: int) -> dict[str, Any]:
    """Return the newest runs, and how many records of each kind the database holds."""
    with Store.open(url) as store, store.reading() as connection:
        held = counts(connection)
        document = {
            "schema_version": SCHEMA_VERSION,
            "database": store.address.shown,
            "counts": held,
            "runs": recent_runs(connection, limit),
        }
    return document | {"hint": None if held["measurements"] else SEED_HINT}


def show(url: str, identifier: str) -> dict[str, Any]:
    """Return one record whole, by its id or the beginning of it: ``kind`` and ``record``."""
    with Store.open(url) as store, store.reading() as connection:
        kind, found = record(connection, identifier)
    return {"schema_version": SCHEMA_VERSION, "kind": kind, "record": found}


def query(url: str, filters: Filters) -> dict[str, Any]:
    """Return the measurements of ``filters``; ``truncated`` says that there are more than its limit."""
    limit = filters.limit
    with Store.open(url) as store, store.reading() as connection:
        found = measurements(connection, replace(filters, limit=None if limit is None else limit + 1))
        hint = None
        if not found:
            hint = NO_MATCH_HINT if counts(connection)["measurements"] else SEED_HINT
    truncated = limit is not None and len(found) > limit
    return {"schema_version": SCHEMA_VERSION, "measurements": found[:limit], "truncated": truncated, "hint": hint}


def query_groups(url: str, filters: Filters, by: Sequence[str]) -> dict[str, Any]:
    """Return count, best, median and spread of the measurements of ``filters`` by group; see ``advisor.results.groups``."""
    from advisor.results.groups import groups
    from advisor.usecases.roofline import product

    with Store.open(url) as store, store.reading() as connection:
        columns, rows = groups(connection, filters, by, product)
        hint = None
        if not rows:
            hint = NO_MATCH_HINT if counts(connection)["measurements"] else SEED_HINT
    return table(columns, rows) | {"hint": hint}


def query_standing_out(url: str, filters: Filters, kind: str) -> dict[str, Any]:
    """Return the ``outliers`` against the fleet's median or the ``regressions`` between versions; see ``advisor.results.analysis``."""
    from advisor.results.analysis import KINDS

    find, columns = KINDS[kind]
    with Store.open(url) as store, store.reading() as connection:
        found = find(connection, filters)
        held = counts(connection)["measurements"] if not found.rows else 0
    hint = None if found.rows else f"no {kind} among {found.looked_at} measurements" if held else SEED_HINT
    return table(columns, [[row[name] for name in columns] for row in found.rows]) | {"truncated": found.more, "hint": hint}


def query_sql(url: str, sql: str, *, limit: int, timeout_s: float) -> dict[str, Any]:
    """Return the answer of a reading SQL statement: ``columns``, ``rows`` (an object a row), ``truncated``."""
    with Store.open(url) as store:
        columns, rows = store.query(sql, limit=limit + 1, timeout_s=timeout_s)
    return table(columns, rows[:limit]) | {"truncated": len(rows) > limit, "hint": None}


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return a table as JSON holds it; a column name that comes twice gets a number, so that no value is lost."""
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return {"schema_version": SCHEMA_VERSION, "columns": names, "rows": [dict(zip(names, row, strict=True)) for row in rows]}


def export(url: str, target: str, filters: Filters, *, parquet: bool) -> dict[str, Any]:
    """Write measurements and what they refer to to a file (``-``: standard output); return the counts by kind of record."""
    filters = replace(filters, retracted=True)
    with Store.open(url) as store, store.reading() as connection:
        if parquet:
            from advisor.results.parquet import write_exchange

            written = write_exchange(connection, filters, Path(target))
        else:
            written = write_lines(export_records(connection, filters), sys.stdout if target == "-" else Path(target))
    written.pop("header", None)
    return {"schema_version": SCHEMA_VERSION, "file": target, "written": written}


def import_files(url: str, files: Sequence[str]) -> dict[str, Any]:
    """Take files of exported records, of ``bench --json`` or Parquet into the database; return counts and conflicts."""
    with Store.open(url) as store:
        importer = Importer(store)
        for name in files:
            if name.endswith(".parquet"):
                from advisor.results.parquet import read_exchange

                importer.take(read_exchange(Path(name)))
            else:
                importer.take(read_lines(sys.stdin if name == "-" else Path(name), "standard input" if name == "-" else name))
    return {"schema_version": SCHEMA_VERSION, **importer.summary.to_dict()}


def merge(url: str, source: str) -> dict[str, Any]:
    """Take everything of the database ``source`` (a URL or an SQLite file) into this one; doing it again changes nothing."""
    source_url = source if "://" in source else f"sqlite:///{source}"
    with Store.open(url) as store, Store.open(source_url, create=False) as other:
        if store.address == other.address:
            raise UsageError("a database cannot be merged into itself", "name another with --db")
        importer = Importer(store)
        with other.reading() as connection:
            records = export_records(connection, Filters(retracted=True))
            importer.take((f"{other.address.shown} {item['record']}", item) for item in records)
    return {"schema_version": SCHEMA_VERSION, **importer.summary.to_dict()}


def retract(url: str, identifier: str, reason: str) -> dict[str, Any]:
    """Withdraw a measurement, a trial or a whole run from all answers; return the ids."""
    with Store.open(url) as store:
        withdrawn = store.retract(identifier, reason)
    return {"schema_version": SCHEMA_VERSION, "retracted": withdrawn, "reason": reason.strip()}


def write_parquet_table(document: Mapping[str, Any], target: Path) -> int:
    """Write the rows of a query's document to a Parquet file; return how many."""
    from advisor.results.parquet import write_table

    return write_table(document.get("rows", document.get("measurements", [])), target)
