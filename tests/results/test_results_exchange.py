"""Export, import, merge: nothing lost, nothing doubled, nothing wrong taken in."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.errors import AdvisorError, DatabaseError, UsageError
from advisor.results.filters import Filters
from advisor.results.hash import canonical_json, clean, content_hash
from advisor.results.importing import Importer
from advisor.results.lines import read_lines
from advisor.results.store import Store
from advisor.usecases import results

MACHINE = {"fingerprint": "f00d", "devices": [{"id": "cpu0", "target": "cpu-x86", "name": "Xeon"}], "host": {}}
LINE = {"benchmark": "gemm", "backend": "torch", "device": "cpu0", "dtype": "fp32", "metric": "seconds", "value": 0.5, "params": {"m": 64}}


def fill(url: str) -> None:
    with Store.open(url) as store:
        run = store.start_run(kind="bench", machine_id=store.save_machine(MACHINE), software={"torch": "2.13"}, settings={"budget_s": 1e22})
        for index in range(5):
            m = LINE | {
                "reason": "é ☃ \U0001f600",
                "params": {"m": index, "ratio": 1.0, "tiny": 1e-7, "minus": -0.0},
                "value": 0.1 * index,
                "sample_seconds": [0.1, 0.2],
            }
            last = store.add_measurement(
                run, m | {"sample_seconds": [0.1, 0.2], "conditions": {"load": index / 3}, "reason": "é ☃ \U0001f600"}
            )
        store.add_trial(run, {"plan_id": "p", "plan": {"framework": "torch", "dp": 2}, "step_time_s": 0.25})
        store.save_recommendation({"model": "m"}, {"feasible": True}, [{"plan_id": "p", "plan": {"dp": 2}, "estimate": {}}])
        store.retract(last, "fan")
        store.finish_run(run)


def everything(url: str) -> dict[str, Any]:
    """Return all that answers are made of, without what merging is meant to change."""
    with Store.open(url) as store:
        answer = store.latest_recommendation()
        assert answer is not None
        return {
            "measurements": [{k: v for k, v in m.items() if k != "origin"} for m in store.measurements(samples=True, retracted=True)],
            "trials": [{k: v for k, v in t.items() if k != "origin"} for t in store.trials()],
            "answer": {k: v for k, v in answer.items() if k != "origin"},
            "machine": store.latest_machine("f00d"),
            "found": store.find_plan("p"),
        }


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz", "all.parquet"])
def test_what_is_exported_can_be_imported_and_again(database_url: str, tmp_path: Path, name: str) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    fill(source)
    file = str(tmp_path / name)
    written = results.export(source, file, Filters(), parquet=name.endswith("parquet"))["written"]
    assert written["measurement"] == 5
    first = results.import_files(database_url, [file])
    assert (first["new"]["measurement"], first["new"]["retraction"], first["conflicts"]) == (5, 1, [])
    again = results.import_files(database_url, [file])
    assert not any(again["new"].values())
    assert again["known"]["measurement"] == 5
    with Store.open(database_url) as store:
        assert {m["origin"] for m in store.measurements()} == {"shared"}
    if not name.endswith("parquet"):
        assert everything(database_url) == everything(source)


def test_merging_there_and_back_changes_nothing(database_url: str, tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    fill(source)
    before = everything(source)
    assert results.merge(database_url, str(tmp_path / "source.db"))["new"]["measurement"] == 5
    assert everything(database_url) == before
    back = results.merge(source, database_url)
    assert not any(back["new"].values())
    assert back["conflicts"] == []
    assert everything(source) == before
    with Store.open(source) as store:
        assert {m["origin"] for m in store.measurements()} == {"local"}


def test_two_machines_merge_without_mixing(tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path}/all.db"
    for number in range(2):
        url = f"sqlite:///{tmp_path}/{number}.db"
        with Store.open(url) as store:
            machine = store.save_machine(MACHINE | {"fingerprint": f"machine-{number}"})
            store.add_measurement(
                store.start_run(kind="bench", machine_id=machine, software={}, settings={}), LINE | {"value": float(number)}
            )
        results.merge(target, url)
    with Store.open(target) as store:
        assert [m["value"] for m in store.measurements(machine="machine-1")] == [1.0]
        assert len(store.measurements(latest=True)) == 2


def test_a_database_is_not_merged_into_itself_nor_from_nowhere(sqlite_url: str, tmp_path: Path) -> None:
    fill(sqlite_url)
    with pytest.raises(UsageError, match="itself"):
        results.merge(sqlite_url, sqlite_url)
    with pytest.raises(DatabaseError, match="no results database"):
        results.merge(sqlite_url, str(tmp_path / "none.db"))


def test_filters_choose_what_is_exported(sqlite_url: str, tmp_path: Path) -> None:
    fill(sqlite_url)
    with Store.open(sqlite_url) as store:
        store.add_measurement(store.start_run(kind="bench", software={}, settings={}), LINE | {"backend": "jax"})
    file = tmp_path / "jax.jsonl"
    written = results.export(sqlite_url, str(file), Filters(backend="jax"), parquet=False)["written"]
    assert written == {"environment": 1, "device": 1, "run": 1, "measurement": 1}
    records = [json.loads(line)["record"] for line in file.read_text().splitlines()]
    assert records == ["header", "environment", "device", "run", "measurement"]


def test_a_document_of_bench_is_imported(database_url: str, tmp_path: Path) -> None:
    document = {"schema_version": 1, "measurements": [LINE | {"id": "a" * 36}, LINE | {"value": 0.25}]}
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(document, indent=1))
    assert results.import_files(database_url, [str(file)])["new"]["measurement"] == 2
    with Store.open(database_url) as store:
        assert sorted(m["value"] for m in store.measurements()) == [0.25, 0.5]


def test_a_loose_line_joins_its_machine(sqlite_url: str, tmp_path: Path) -> None:
    fill(sqlite_url)
    file = tmp_path / "line.jsonl"
    file.write_text(json.dumps(LINE | {"machine": "f00d", "value": 99.0, "measured_at": "2026-01-01T00:00:00Z"}))
    for expected in (1, 0):
        assert results.import_files(sqlite_url, [str(file)])["new"]["measurement"] == expected
    with Store.open(sqlite_url) as store:
        (found,) = [m for m in store.measurements(device="xeon") if m["value"] == 99.0]
        assert (found["machine"], found["origin"]) == ("f00d", "shared")


def test_the_same_id_with_other_content_is_a_conflict(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    stamped = LINE | {"id": "same", "measured_at": "2026-01-01T00:00:00Z"}
    for value in (1.0, 2.0):
        file.write_text(json.dumps(stamped | {"value": value}))
        last = results.import_files(database_url, [str(file)])
    assert last["conflicts"] == ["same"]
    with Store.open(database_url) as store:
        assert [m["value"] for m in store.measurements()] == [1.0]


def test_an_edited_line_is_noticed(sqlite_url: str, tmp_path: Path) -> None:
    fill(sqlite_url)
    file = tmp_path / "all.jsonl"
    results.export(sqlite_url, str(file), Filters(), parquet=False)
    lines = file.read_text().splitlines()
    place = next(index for index, line in enumerate(lines) if '"measurement"' in line)
    lines[place] = json.dumps(json.loads(lines[place]) | {"value": 1e9})
    file.write_text("\n".join(lines))
    with pytest.raises(UsageError, match=rf"line {place + 1}: measurement .* content_hash"):
        results.import_files(f"sqlite:///{tmp_path}/other.db", [str(file)])


@pytest.mark.parametrize(
    "text",
    ["not json", "[]", "1", '"text"', "{", '{"record": "spaceship"}', '{"record": "run"}', '{"record": "header", "format": "other"}',
     '{"benchmark": 1}', json.dumps(LINE | {"value": "fast"}), json.dumps(LINE | {"id": "x" * 37}), json.dumps(LINE | {"samples": 1 << 40}),
     json.dumps(LINE | {"measured_at": "noon"}), json.dumps(LINE | {"origin": "mars"}), json.dumps(LINE | {"sample_seconds": ["a"]}),
     json.dumps(LINE | {"params": [1]}), json.dumps(LINE | {"device_id": "nobody"}), "[" * 5000, '{"params": ' * 600 + "1" + "}" * 600,
     json.dumps({"measurements": [1]}), "\ufeff{}", '{"record": "retraction", "target_id": "a"}',
     '{"record": "recommendation", "id": "a", "question": {}, "document": {}, "plans": [1]}'],
)  # fmt: skip
def test_wrong_lines_are_refused_in_one_line(sqlite_url: str, tmp_path: Path, text: str) -> None:
    file = tmp_path / "wrong.jsonl"
    file.write_text(json.dumps(LINE) + "\n" + text + "\n")
    with pytest.raises(UsageError) as caught:
        results.import_files(sqlite_url, [str(file)])
    assert "wrong.jsonl line 2" in caught.value.line()
    assert "\n" not in caught.value.line()


def test_files_that_are_no_text_are_refused(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "noise.jsonl").write_bytes(bytes(range(128, 256)))
    (tmp_path / "noise.jsonl.gz").write_bytes(b"not gzip")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(json.dumps(LINE).encode() * 100)[:-20])
    (tmp_path / "noise.parquet").write_bytes(b"PAR1 not parquet")
    for name in ("noise.jsonl", "noise.jsonl.gz", "cut.jsonl.gz", "noise.parquet", "none.jsonl", "."):
        with pytest.raises(UsageError):
            results.import_files(sqlite_url, [str(tmp_path / name)])


def test_an_export_of_a_newer_program_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    file = tmp_path / "new.jsonl"
    file.write_text(json.dumps({"record": "header", "format": "advisor-results", "version": 99}))
    with pytest.raises(DatabaseError, match="version 99") as caught:
        results.import_files(sqlite_url, [str(file)])
    assert "pip install --upgrade" in caught.value.line()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_a_hash_survives_a_journey_through_json(value: Any) -> None:
    once = clean(value)
    assert content_hash(json.loads(json.dumps(once))) == content_hash(value)
    assert clean(once) == once
    json.loads(canonical_json(once))


FIELDS = [*LINE, "id", "record", "run_id", "device_id", "measured_at", "samples", "conditions", "origin", "machine", "sample_seconds"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_line_is_taken_or_refused(sqlite_url: str, changes: dict[str, Any]) -> None:
    status = 0
    with Store.open(sqlite_url) as store:
        try:
            Importer(store).take(read_lines(io.StringIO(json.dumps(LINE | changes)), "line"))
        except AdvisorError as error:
            status = error.exit_status
    assert status in (0, 2, 4)


def test_an_import_of_nothing_is_an_error(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    command = [sys.executable, "-c", "from advisor.cli.main import main; main()", "--db", sqlite_url, "results", "import"]
    for files, stdin in ((["-"], "closed"), (["-"], "empty"), ([str(tmp_path / "empty.jsonl")], "empty")):
        words = " ".join(shlex.quote(word) for word in [*command, *files]) + (" <&-" if stdin == "closed" else " </dev/null")
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error[NO-RECORDS]")
