"""advisor db: status, upgrade, seed, backup."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.main import run
from advisor.results.schema import SCHEMA_REVISION
from advisor.results.store import Store

Result = tuple[int, str, str]


@pytest.fixture
def advisor(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def call(url: str, *arguments: str) -> Result:
        status = run(["--db", url, "db", *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def document(result: Result) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(result[1])
    assert parsed["schema_version"] == 1
    return parsed


def test_from_nothing_to_ready(advisor: Callable[..., Result], database_url: str) -> None:
    status, *_ = before = advisor(database_url, "status", "--json")
    assert (status, document(before)["state"]) == (1, "missing" if database_url.startswith("sqlite") else "empty")
    assert advisor(database_url, "upgrade")[0] == 0
    after = advisor(database_url, "status", "--json")
    said = document(after)
    assert (after[0], said["state"], said["revision"], said["counts"]["measurements"]) == (0, "ready", SCHEMA_REVISION, 0)
    assert "content_hash" in said["tables"]["measurements"]
    status, out, _ = advisor(database_url, "status")
    assert (status, f"schema {SCHEMA_REVISION}" in out) == (0, True)
    assert "is up to date" in advisor(database_url, "upgrade")[1]


def test_status_changes_nothing(advisor: Callable[..., Result], tmp_path: Path) -> None:
    assert advisor(f"sqlite:///{tmp_path}/none.db", "status")[0] == 1
    assert list(tmp_path.iterdir()) == []


def test_seed_says_what_it_did(advisor: Callable[..., Result], seeded_url: str) -> None:
    tables = document(advisor(seeded_url, "seed", "--json"))["tables"]
    assert tables["training"] == {"rows": 1420, "added": 0}
    assert "the published rows are all there" in advisor(seeded_url, "seed")[1]
    with Store.open(seeded_url) as store, store.writing() as connection:
        connection.exec_driver_sql("DELETE FROM device_sheets")
    assert "92 published rows added" in advisor(seeded_url, "seed")[1]


def test_a_backup_is_the_database(advisor: Callable[..., Result], database_url: str, tmp_path: Path) -> None:
    if database_url.startswith("postgresql") and shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not installed")
    with Store.open(database_url) as store:
        run_id = store.start_run(kind="bench", software={}, settings={})
        target = tmp_path / "copies" / "copy.db"
        # The copy is taken while the database is open for writing.
        assert document(advisor(database_url, "backup", str(target), "--json"))["size_bytes"] > 1000
    if database_url.startswith("sqlite"):
        with Store.open(f"sqlite:///{target}", create=False) as copy:
            assert copy.query("SELECT id FROM runs")[1] == [(run_id,)]
    else:
        assert target.read_bytes()[:5] == b"PGDMP"
    status, _, err = advisor(database_url, "backup", str(target))
    assert (status, "exists" in err) == (2, True)
    assert [path.name for path in target.parent.iterdir()] == ["copy.db"]


def test_a_backup_of_nothing_is_refused(advisor: Callable[..., Result], tmp_path: Path) -> None:
    assert advisor(f"sqlite:///{tmp_path}/none.db", "backup", str(tmp_path / "copy.db"))[0] == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [[], ["status"], ["upgrade"], ["seed"], ["backup"]])
def test_every_help_has_an_example(advisor: Callable[..., Result], command: list[str]) -> None:
    status, out, _ = advisor("sqlite:///unused.db", *command, "--help")
    assert (status, "Example:" in out) == (0, True)
