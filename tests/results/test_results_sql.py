"""A reader's own SQL reads, and does nothing else, whatever it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.errors import UsageError
from advisor.results.store import Store

WRITES = [
    "DELETE FROM runs",
    "DELETE FROM sqlite_master",
    "INSERT INTO retractions VALUES ('a', 'b', '2026-01-01')",
    "UPDATE runs SET kind = 'x'",
    "DROP TABLE measurements",
    "CREATE TABLE mine (a int)",
    "CREATE TEMP TABLE mine (a int)",
    "WITH gone AS (DELETE FROM runs RETURNING id) SELECT * FROM gone",
    "SELECT 1; DELETE FROM runs",
    "COMMIT; DELETE FROM runs",
    "PRAGMA query_only = OFF",
    "PRAGMA journal_mode = DELETE",
    "ATTACH DATABASE '/tmp/other.db' AS other",
    "VACUUM INTO '/tmp/copy.db'",
    "VACUUM",
    "BEGIN IMMEDIATE",
    "COPY runs TO PROGRAM 'true'",
    "COPY runs TO '/tmp/runs.csv'",
    "SET statement_timeout = 0",
    "SELECT load_extension('nothing')",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "EXPLAIN ANALYZE DELETE FROM runs",
    "TRUNCATE runs",
    "DO $$ BEGIN DELETE FROM runs; END $$",
    "SELECT 1 \x00",
    "",
    ";",
    "SELEKT 1",
    "SELECT nothing FROM nowhere",
    "SELECT 'open",
]


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        opened.start_run(kind="bench", software={}, settings={})
        yield opened


@pytest.mark.parametrize(
    "sql", ["SELECT 1 AS one", "select 1 as one;", "-- said\nSELECT 1 AS one", "/* said */ WITH a(one) AS (SELECT 1) SELECT one FROM a"]
)
def test_reading_works(store: Store, sql: str) -> None:
    columns, rows = store.query(sql)
    assert (columns, rows) == (["one"], [(1,)])


def test_no_row_is_an_answer(store: Store) -> None:
    assert store.query("SELECT id, kind FROM runs WHERE kind = 'none'") == (["id", "kind"], [])
    assert store.query("SELECT 'a%b' AS text") == (["text"], [("a%b",)])


def test_nothing_else_does(store: Store) -> None:
    for sql in WRITES:
        with pytest.raises(UsageError):
            store.query(sql)
    assert store.query("SELECT kind FROM runs")[1] == [("bench",)]
    assert len(store.measurements()) == 0
    assert not Path("/tmp/other.db").exists()


def test_rows_are_limited(store: Store) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    assert store.query(endless, limit=3)[1] == [(1,), (2,), (3,)]


def test_time_is_limited(store: Store) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
    with pytest.raises(UsageError, match=r"longer than 0\.2 s"):
        store.query(endless, timeout_s=0.2)


def test_one_value_cannot_eat_the_memory(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store, pytest.raises(UsageError, match="too big"):
        store.query("SELECT zeroblob(1000000000)")
