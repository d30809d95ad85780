"""advisor validate and calibrate, run as a user runs them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from advisor.cli.main import run
from advisor.results.published import read_published


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [row for row in read_published("training") if row["group"] in ("megatron_sc21", "jz_v100_1B3", "simumax_b200")]
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_validate_prints_the_documents_fields(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", str(table), "--kind", "training", "--rows", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert {"overall", "by", "assumed", "memory", "oom", "ranking", "predictions", "skipped"} <= set(document)
    assert document["overall"]["n"] >= 45
    assert document["by"]["megatron_sc21"]["n"] == 10
    known = {p["id"]: p for p in document["predictions"] if p["quantity"] == "time"}
    measured = next(row for row in read_published("training") if row["group"] == "simumax_b200")
    assert known[measured["id"]]["measured"] == pytest.approx(float(measured["step_time_s"]))


def test_validate_finds_the_kind_and_speaks_to_people(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", str(table), "--by", "hardware"]) == 0
    out = capsys.readouterr().out
    assert "median error" in out
    assert "V100-32" in out


@pytest.mark.parametrize("text", ["", "\0", "a,b\n1,2\n", "id,group\n1,2\n"])
def test_a_bad_table_is_one_line(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert run(["validate", str(path)]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert error[-1].startswith("error[BAD-TABLE]")


def test_a_missing_table_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "/nowhere/rows.csv"]) == 2
    assert capsys.readouterr().err.startswith("error[CANNOT-READ]")


def test_calibrate_writes_what_later_answers_read(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scipy")
    out = tmp_path / "calibration"
    assert run(["calibrate", str(table), "--out", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    written = json.loads((out / "training.json").read_text())
    assert written["parameters"]["sustained.ampere"]["value"] == document["parameters"]["sustained.ampere"]["value"]
    assert written["provenance"]["source"] == "runs.csv"


def test_leave_out_prints_validates_document(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scipy")
    assert run(["calibrate", str(table), "--leave-out", "device", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "training"
    assert document["overall"]["n"] >= 45
