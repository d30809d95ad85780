"""advisor results, as a user meets it: statuses, formats, one line of error."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.main import run
from advisor.results.store import Store

Result = tuple[int, str, str]
LINE = {
    "benchmark": "gemm",
    "backend": "torch",
    "device": "cpu0",
    "dtype": "fp32",
    "metric": "flops_per_s",
    "value": 2.5e11,
    "params": {"m": 64, "n": 8},
}


@pytest.fixture
def advisor(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def call(*arguments: str, db: str = sqlite_url) -> Result:
        status = run(["--db", db, *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def ids(sqlite_url: str) -> list[str]:
    machine = {"fingerprint": "f00d", "devices": [{"id": "cpu0", "target": "cpu-x86", "name": "Xeon [gold]"}]}
    with Store.open(sqlite_url) as store:
        run_id = store.start_run(
            kind="bench", machine_id=store.save_machine(machine), software={"torch": "2.13"}, command="advisor bench", settings={}
        )
        low = LINE | {"low": 2.4e11, "high": 2.6e11, "sample_seconds": [0.1, 0.2]}
        return [store.add_measurement(run_id, low), store.add_measurement(run_id, LINE | {"backend": "jax", "value": 2e11}), run_id]


def document(result: Result) -> dict[str, Any]:
    status, out, err = result
    assert status == 0, err
    parsed: dict[str, Any] = json.loads(out)
    assert parsed["schema_version"] == 1
    return parsed


def test_an_empty_database_says_how_to_fill_it(advisor: Callable[..., Result]) -> None:
    for arguments in (["results", "query"], ["results", "list"], ["results", "query", "--group-by", "device"]):
        status, out, _ = advisor(*arguments)
        assert status == 0
        assert "advisor db seed" in out
    assert document(advisor("results", "query", "--json"))["measurements"] == []


def test_query_has_four_formats(advisor: Callable[..., Result], ids: list[str], tmp_path: Path) -> None:
    status, out, _ = advisor("results", "query")
    assert status == 0
    assert "2 measurements" in out
    assert "250.0 GFLOP/s" in out
    assert "240.0 GFLOP/s .. 260.0 GFLOP/s" in out
    assert "Xeon [gold]" in out
    found = document(advisor("results", "query", "--format", "json", "--backend", "torch", "--samples"))["measurements"]
    assert [(m["id"], m["value"], m["machine"]) for m in found] == [(ids[0], 2.5e11, "f00d")]
    assert found[0]["sample_seconds"] == pytest.approx([0.1, 0.2])
    status, out, _ = advisor("results", "query", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["backend"] for row in rows} == {"torch", "jax"}
    assert json.loads(rows[0]["params"]) == {"m": 64, "n": 8}
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "found.parquet"
    assert advisor("results", "query", "--format", "parquet", "-o", str(target))[0] == 0
    assert sorted(parquet.read_table(target).to_pydict()["value"]) == [2e11, 2.5e11]
    assert advisor("results", "query", "--format", "parquet")[0] == 2


def test_query_by_group(advisor: Callable[..., Result], ids: list[str]) -> None:
    found = document(advisor("results", "query", "--group-by", "backend,params.m", "--json"))
    assert found["columns"][:4] == ["backend", "params.m", "metric", "unit"]
    assert [(row["backend"], str(row["params.m"]), row["count"], row["best"], row["best_id"]) for row in found["rows"]] == [
        ("torch", "64", 1, 2.5e11, ids[0]),
        ("jax", "64", 1, 2e11, ids[1]),
    ]
    status, out, _ = advisor("results", "query", "--group-by", "device,machine")
    assert status == 0
    assert "1 group of 2 measurements" in out
    status, _, err = advisor("results", "query", "--group-by", "devise")
    assert (status, "did you mean device" in err) == (2, True)


def test_sql(advisor: Callable[..., Result], ids: list[str]) -> None:
    found = document(advisor("results", "query", "--sql", "SELECT 1 AS one, 2 AS one", "--format", "json"))
    assert (found["columns"], found["rows"]) == (["one", "one_2"], [{"one": 1, "one_2": 2}])
    found = document(advisor("results", "query", "--sql", "SELECT id FROM measurements", "--limit", "1", "--json"))
    assert (len(found["rows"]), found["truncated"]) == (1, True)
    status, out, _ = advisor(
        "results", "query", "--sql", "SELECT backend, count(*) AS n FROM measurements GROUP BY 1 ORDER BY 1", "--format", "csv"
    )
    assert out.split() == ["backend,n", "jax,1", "torch,1"]
    for sql in ("DELETE FROM sqlite_master", "DELETE FROM measurements", "SELEKT", "", "SELECT 1; SELECT 2"):
        status, out, err = advisor("results", "query", "--sql", sql, "--format", "json")
        assert (status, out) == (2, "")
        assert err.startswith("error[")
        assert err.count("\n") == 1
    assert advisor("results", "query", "--sql", "SELECT 1", "--backend", "torch")[0] == 2


def test_list_and_show(advisor: Callable[..., Result], ids: list[str]) -> None:
    listed = document(advisor("results", "list", "--json"))
    assert listed["counts"]["measurements"] == 2
    assert [(entry["id"], entry["measurements"], entry["machine"]) for entry in listed["runs"]] == [(ids[2], 2, "f00d")]
    assert ids[2] in advisor("results", "list")[1]
    for identifier, kind in ((ids[0], "measurement"), (ids[0][:20], "measurement"), (ids[2], "run")):
        shown = document(advisor("results", "show", identifier, "--json"))
        assert (shown["kind"], shown["record"]["id"][:20]) == (kind, identifier[:20])
        assert advisor("results", "show", identifier)[0] == 0
    assert document(advisor("results", "show", ids[2], "--json"))["record"]["software"] == {"torch": "2.13"}
    status, _, err = advisor("results", "show", "ffff")
    assert (status, err[:6]) == (2, "error[")


def test_retract_and_merge(advisor: Callable[..., Result], ids: list[str], tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    assert advisor("results", "merge", str(tmp_path / "results.db"), db=other)[0] == 0
    assert document(advisor("results", "retract", ids[0], "--reason", "fan", "--json"))["retracted"] == [ids[0]]
    assert [m["id"] for m in document(advisor("results", "query", "--json"))["measurements"]] == [ids[1]]
    assert len(document(advisor("results", "query", "--retracted", "--json"))["measurements"]) == 2
    assert len(document(advisor("results", "query", "--json", db=other))["measurements"]) == 2
    assert advisor("results", "merge", str(tmp_path / "results.db"), db=other)[0] == 0
    assert len(document(advisor("results", "query", "--json", db=other))["measurements"]) == 1
    assert advisor("results", "retract", ids[1])[0] == 2
    assert advisor("results", "retract", ids[1], "--reason", " ")[0] == 2


def test_export_and_import(advisor: Callable[..., Result], ids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = advisor("results", "export")
    assert status == 0
    assert [json.loads(line)["record"] for line in out.splitlines()] == [
        "header",
        "machine",
        "environment",
        "device",
        "run",
        *["measurement"] * 2,
    ]
    other = f"sqlite:///{tmp_path}/other.db"
    monkeypatch.setattr("sys.stdin", io.StringIO(out))
    assert "2 measurements" in advisor("results", "import", "-", db=other)[1]
    changed = [json.loads(line) for line in out.splitlines()]
    changed[-1] = {key: value for key, value in changed[-1].items() if key != "content_hash"} | {"value": 1.0}
    file = tmp_path / "changed.jsonl"
    file.write_text("\n".join(json.dumps(record) for record in changed))
    status, out, _ = advisor("results", "import", str(file), db=other)
    assert (status, "conflict" in out) == (1, True)
    assert advisor("results", "export", str(tmp_path / "none" / "a.jsonl"))[0] == 2
    assert advisor("results", "import", str(tmp_path / "none.jsonl"))[0] == 2


def test_a_reader_that_went_away_is_no_error(advisor: Callable[..., Result], ids: list[str]) -> None:
    status, _, err = advisor("results", "push")
    assert (status, err[:17]) == (2, "error[NO-SERVER]:")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["results", "query", "--since", "noon"], 2), (["results", "query", "--limit", "0"], 2), (["results", "query", "--format", "xml"], 2),
     (["results", "frobnicate"], 2), (["results", "show"], 2), (["results", "query", "--sql", "SELECT 1", "--timeout", "0"], 2)],
)  # fmt: skip
def test_wrong_usage(advisor: Callable[..., Result], arguments: list[str], status: int) -> None:
    found, out, err = advisor(*arguments)
    assert (found, out) == (status, "")
    assert err.startswith("error[")
    assert err.count("\n") == 1


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////proc/nope/x.db", "postgresql+psycopg://nobody@127.0.0.1:1/none", "sqlite:///"])
def test_a_database_that_is_not_there(advisor: Callable[..., Result], url: str) -> None:
    for arguments in (
        ["results", "list"],
        ["results", "query"],
        ["results", "query", "--sql", "SELECT 1"],
        ["db", "upgrade"],
        ["db", "seed"],
    ):
        status, out, err = advisor(*arguments, db=url)
        assert (status, out) == (4, "")
        assert err.startswith("error[DB-")
        assert err.count("\n") == 1


@pytest.mark.parametrize("command", [[], ["list"], ["show"], ["query"], ["export"], ["import"], ["merge"], ["retract"], ["push"]])
def test_every_help_has_an_example(advisor: Callable[..., Result], command: list[str]) -> None:
    status, out, _ = advisor("results", *command, "--help")
    assert status == 0
    assert "Example:" in out


def test_what_stands_out(advisor: Callable[..., Result], ids: list[str], sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        run_id = store.start_run(kind="bench", machine_id=None, software={}, settings={})
        for month, version, value in ((1, "2.12", 2e11), (2, "2.13", 1e11)):
            store.add_measurement(run_id, LINE | {"backend_version": version, "value": value, "measured_at": f"2026-0{month}-01"})
    (row,) = document(advisor("results", "query", "--regressions", "--json"))["rows"]
    assert (row["from_version"], row["to_version"], row["worse_pct"]) == ("2.12", "2.13", pytest.approx(100.0))
    assert "2.13" in advisor("results", "query", "--regressions")[1]
    assert "no outliers among 4 measurements" in advisor("results", "query", "--outliers")[1]
