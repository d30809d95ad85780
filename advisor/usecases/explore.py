"""Measurements as the pages show them: filtered, page by page, one whole, and compared. Each returns the page's JSON document."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from advisor.errors import UnknownName, UsageError
from advisor.results import queries
from advisor.results.filters import Filters
from advisor.results.groups import groups
from advisor.results.newest import newest_ids
from advisor.results.rows import parse_time
from advisor.results.schema import ColumnCode, Measurement
from advisor.results.store import Store
from advisor.results.terms import conditions
from advisor.usecases.results import table
from advisor.usecases.roofline import product

SCHEMA_VERSION = 1
PAGE_MOST = 500
#: What measurements can be compared by on a page.
COMPARE_BY = ("class", "device", "backend", "version", "dtype", "machine", "model", "origin")


def measurements(store: Store, filters: Filters, *, limit: int, cursor: str | None) -> dict[str, Any]:
    """Return one page of measurements, newest first, and the ``next_cursor``; the time of a page does not grow with its number."""
    limit = max(1, min(limit, PAGE_MOST))
    after = None if cursor is None else _read_cursor(cursor)
    with store.reading() as connection:
        ids = _page_ids(connection, replace(filters, limit=limit + 1), after)
        found = queries.by_ids(connection, ids[:limit])
    following = _cursor(found[-1]) if len(ids) > limit and found else None
    return {"schema_version": SCHEMA_VERSION, "measurements": found, "limit": limit, "next_cursor": following}


def _page_ids(connection: Connection, filters: Filters, after: tuple[datetime | None, str] | None) -> list[str]:
    """Return ids in order: of all measurements along their index, of a selection by the columns."""
    if filters.narrows():
        return newest_ids(connection, filters, after)
    limit = filters.limit or PAGE_MOST
    terms = conditions(connection, filters)
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
        whats = connection.execute(sa.select(ColumnCode.document).where(ColumnCode.kind == "what")).scalars()
        known = {(what["benchmark"], what["dtype"]) for what in whats if what is not None}
        benchmark = filters.benchmark or ("gemm" if any(b == "gemm" for b, _ in known) else min((b for b, _ in known), default=None))
        rows: list[dict[str, Any]] = []
        if benchmark is not None:
            rows = table(*groups(connection, replace(filters, benchmark=benchmark), (by,), product))["rows"]
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
