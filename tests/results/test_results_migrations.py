"""Migrations: the models are what they build, up and down, and a reader needs none of their code."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from advisor.errors import DatabaseError
from advisor.results import columns, migrate
from advisor.results import engine as engines
from advisor.results.address import parse_url
from advisor.results.filters import Filters
from advisor.results.groups import groups
from advisor.results.schema import KNOWN_REVISIONS, SCHEMA_REVISION, VERSION_TABLE, Base
from advisor.results.store import Store
from advisor.usecases import database

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def tables(connection: sa.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return all that a schema says: columns, keys, indexes."""
    look = sa.inspect(connection)
    said: dict[str, list[tuple[object, ...]]] = {}
    for name in sorted(look.get_table_names()):
        columns = [(column["name"], str(column["type"]), column["nullable"]) for column in look.get_columns(name)]
        keys = [tuple(look.get_pk_constraint(name)["constrained_columns"])]
        indexes = sorted((str(index["name"]), tuple(index["column_names"])) for index in look.get_indexes(name))
        foreign = sorted((tuple(key["constrained_columns"]), key["referred_table"]) for key in look.get_foreign_keys(name))
        unique = sorted(tuple(key["column_names"]) for key in look.get_unique_constraints(name))
        said[name] = [*columns, *keys, *indexes, *foreign, *unique]
    return said


def test_the_known_revisions_are_the_shipped_ones() -> None:
    assert migrate.shipped_revisions() == list(KNOWN_REVISIONS)


def test_models_are_what_the_migrations_build(database_url: str) -> None:
    engine = engines.make_engine(parse_url(database_url))
    try:
        with engine.execution_options(writes=True).begin() as connection:
            migrate.upgrade(connection)
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
            assert compare_metadata(context, Base.metadata) == []
            migrated = tables(connection)
            migrate.downgrade(connection, "base")
            assert set(tables(connection)) == {VERSION_TABLE}
            connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
        with Store.open(database_url) as store, store.reading() as connection:
            assert tables(connection) == migrated
    finally:
        engine.dispose()


def test_a_failed_migration_changes_nothing(sqlite_url: str) -> None:
    engine = engines.make_engine(parse_url(sqlite_url))
    try:
        with engine.execution_options(writes=True).begin() as connection:
            connection.exec_driver_sql("CREATE TABLE runs (id TEXT)")
        with pytest.raises(sa.exc.OperationalError), engine.execution_options(writes=True).begin() as connection:
            migrate.upgrade(connection)
        with engine.connect() as connection:
            assert set(sa.inspect(connection).get_table_names()) == {"runs"}
    finally:
        engine.dispose()


def test_upgrading_is_repeatable(database_url: str) -> None:
    assert database.upgrade(database_url)["from_revision"] is None
    assert database.upgrade(database_url)["from_revision"] == SCHEMA_REVISION
    assert database.status(database_url)["state"] == "ready"


def test_an_old_schema_is_refused_with_the_command(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(database_url):
        pass
    monkeypatch.setattr(engines, "KNOWN_REVISIONS", (SCHEMA_REVISION, "9999"))
    monkeypatch.setattr(engines, "SCHEMA_REVISION", "9999")
    with pytest.raises(DatabaseError) as caught:
        Store.open(database_url)
    assert caught.value.code == "DB-OLD"
    assert f"run `{parse_url(database_url).upgrade}`" in caught.value.line()


ROWS: dict[str, tuple[dict[str, object], ...]] = {
    "machines": ({"id": "m", "fingerprint": "f00d", "content_hash": "h", "document": {"a": 1}, "origin": "local", "first_seen_at": NOW,
                  "last_seen_at": NOW},),
    "software_environments": ({"id": "e", "content_hash": "h", "document": {}, "created_at": NOW},),
    "devices": ({"id": "d", "machine_id": "m", "key": "cuda:0", "name": "A100"},),
    "runs": ({"id": "r", "kind": "bench", "machine_id": "m", "environment_id": "e", "settings": {}, "origin": "local", "started_at": NOW},),
    "measurements": tuple(
        {"id": f"00000000-0000-7000-8000-{number:012d}", "run_id": "r", "device_id": "d", "series": f"{number % 7:032x}",
         "benchmark": "gemm", "backend": "torch", "dtype": "bf16", "params": {"m": number % 7}, "metric": "flops_per_s", "unit": "FLOP/s",
         "value": 1.0 + number, "samples": 1, "seconds": 0.5, "status": "ok", "conditions": {}, "origin": "local", "content_hash": "h",
         "measured_at": NOW if number % 2 else None}
        for number in range(100)
    ),
    "plan_trials": ({"id": "t", "run_id": "r", "status": "ok", "document": {"plan": {}}, "origin": "local", "content_hash": "h",
                     "measured_at": NOW},),
    "recommendations": ({"id": "a", "question_hash": "h", "content_hash": "h", "question": {}, "document": {"x": 1}, "origin": "local",
                         "created_at": NOW},),
    "plans": ({"recommendation_id": "a", "position": 0, "plan_id": "p", "document": {"plan_id": "p"}},),
    "retractions": ({"target_id": "00000000-0000-7000-8000-000000000099", "reason": "fan", "created_at": NOW},),
}  # fmt: skip


@pytest.mark.parametrize("revision", KNOWN_REVISIONS)
def test_a_database_of_every_released_schema_keeps_its_data(database_url: str, revision: str) -> None:
    engine = engines.make_engine(parse_url(database_url))
    try:
        with engine.execution_options(writes=True).begin() as connection:
            migrate.upgrade(connection, revision)
            for name, rows in ROWS.items():
                connection.execute(sa.insert(Base.metadata.tables[name]), list(rows))
            before = {name: len(rows) for name, rows in ROWS.items()}
        if revision != SCHEMA_REVISION:
            assert database.status(database_url)["state"] == "old"
            with pytest.raises(DatabaseError) as caught:
                Store.open(database_url)
            assert f"run `advisor --db {database_url} db upgrade`" in caught.value.line()
            assert database.upgrade(database_url)["from_revision"] == revision
        else:
            with engine.execution_options(writes=True).begin() as connection:
                columns.rebuild(connection)
        check(database_url, before)
        # Down to each older schema and up again: what both know stays.
        for older in KNOWN_REVISIONS[: KNOWN_REVISIONS.index(SCHEMA_REVISION)]:
            with engine.execution_options(writes=True).begin() as connection:
                migrate.downgrade(connection, older)
            assert database.status(database_url)["revision"] == older
            database.upgrade(database_url)
            check(database_url, before)
    finally:
        engine.dispose()


def check(url: str, before: dict[str, int]) -> None:
    """Assert that the data are there and that statistics know of them."""
    assert {name: count for name, count in database.status(url)["counts"].items() if name in before} == before
    with Store.open(url) as store:
        rows = store.measurements(benchmark="gemm", limit=1000)
        assert sorted(row["value"] for row in rows) == [1.0 + number for number in range(99)]
        assert store.find_plan("p") is not None
        assert len(store.trials()) == 1
        with store.reading() as connection:
            assert columns.are_whole(connection)
            (group,) = groups(connection, Filters(), ("device",))[1]
            assert group[3] == 99


def test_opening_loads_no_migration_code(sqlite_url: str) -> None:
    script = textwrap.dedent(
        """
        import sys
        from advisor.results.store import Store

        for _ in range(2):
            with Store.open(sys.argv[1]) as store:
                store.measurements()
        print([name for name in ("alembic", "mako", "psycopg", "pyarrow", "numpy") if name in sys.modules])
        """
    )
    done = subprocess.run([sys.executable, "-c", script, sqlite_url], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_optuna_and_the_results_share_a_database(sqlite_url: str) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with Store.open(sqlite_url) as store:
        store.start_run(kind="bench", software={}, settings={})
    study = optuna.create_study(storage=sqlite_url, study_name="both")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    with Store.open(sqlite_url) as store:
        assert store.query("SELECT count(*) FROM runs")[1] == [(1,)]
        assert store.query("SELECT count(*) FROM trials")[1] == [(2,)]
