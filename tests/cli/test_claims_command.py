"""The claims command end to end: list, run one cheap measured claim, resume, show, exchange of sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor.cli.main import cli, run

CHEAP = """
source: a test
claims:
  - id: mapped-files
    statement: one memory-mapped file is read faster than loose files
    metric: throughput_ratio
    value: 1.5
    tests:
      - &test
        experiment: speed
        parameters:
          benchmark: dataload
          a: {backend: numpy, format: memmap}
          b: {backend: numpy, format: files}
          round_s: 1
          cases: [{label: small samples, workers: 0, samples: 256, sample_bytes: 2048}]
  - id: loose-files
    statement: the other way round
    metric: throughput_ratio
    value: 1.5
    tests:
      - experiment: speed
        parameters:
          benchmark: dataload
          a: {backend: numpy, format: files}
          b: {backend: numpy, format: memmap}
          round_s: 1
          cases: [{label: small samples, workers: 0, samples: 256, sample_bytes: 2048}]
  - id: lacking
    statement: a backend that nobody has
    metric: throughput_ratio
    value: 2
    needs: that backend
    tests:
      - experiment: speed
        parameters:
          a: {backend: no-such-backend}
          cases: [{label: x, network: bert-tiny, batch: 1, seq: 8, mode: infer}]
"""


def invoke(url: str, *arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["--db", url, "claims", *arguments, "--json"], catch_exceptions=False, standalone_mode=False)
    assert result.return_value in (0, None), result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["schema_version"] == 1
    return document


def test_a_measured_claim_end_to_end(tmp_path: Path, sqlite_url: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(CHEAP)
    first = invoke(sqlite_url, "run", "mapped-files", "loose-files", "--rounds", "2", "--file", str(path))
    mapped, loose = first["results"]
    assert (mapped["basis"], mapped["verdict"]) == ("measured", "confirmed")
    assert loose["verdict"] == "refuted"
    assert mapped["low"] <= mapped["value"] <= mapped["high"]
    # Exchanging the sides inverts the ratio; the two were measured apart, so a busy machine may move one of them.
    assert 0.4 < mapped["value"] * loose["value"] < 2.5
    assert len(mapped["findings"][0]["settings"][0]["samples"]) == 2

    again = invoke(sqlite_url, "run", "mapped-files", "--file", str(path))["results"][0]
    assert again["stored"]
    assert again["value"] == mapped["value"]
    listed = {row["id"]: row for row in invoke(sqlite_url, "list", "--file", str(path))["claims"]}
    assert listed["mapped-files"]["verdict"] == "confirmed"
    assert listed["snn-1000x"]["verdict"] is None
    shown = invoke(sqlite_url, "show", "mapped-files", "--file", str(path))
    assert shown["result"]["measurement"] == mapped["measurement"]

    # Another wording is another claim: it has no answer yet.
    path.write_text(CHEAP.replace("value: 1.5", "value: 900", 1))
    assert invoke(sqlite_url, "show", "mapped-files", "--file", str(path))["result"] is None


def test_claims_without_measuring(sqlite_url: str) -> None:
    names = ("kserve-cost-60", "snn-1000x", "tf3-multinode-comm-40", "torch-memory-plus-18", "torch28-util-78")
    document = invoke(sqlite_url, "run", *names)
    found = {result["id"]: result for result in document["results"]}
    assert {name: (r["verdict"], r["basis"]) for name, r in found.items()} == {
        "kserve-cost-60": ("depends", "predicted"),
        "snn-1000x": ("not_testable", "none"),
        "tf3-multinode-comm-40": ("ill_posed", "none"),
        "torch-memory-plus-18": ("not_testable", "none"),
        "torch28-util-78": ("refuted", "published"),
    }
    assert found["torch28-util-78"]["findings"][0]["settings"][0]["evidence"]
    assert "`advisor claims prepare --only tensorflow`" in found["torch-memory-plus-18"]["reason"]
    assert sum(document["counts"]["verdict"].values()) == len(names)


def test_what_is_lacking_is_said(tmp_path: Path, sqlite_url: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(CHEAP)
    result = invoke(sqlite_url, "run", "lacking", "--no-save", "--file", str(path))["results"][0]
    assert result["verdict"] == "not_testable"
    assert "no-such-backend" in result["reason"]
    assert "that backend" in result["reason"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run"], "NO-CLAIM"),
        (["run", "--all", "snn-1000x"], "NO-CLAIM"),
        (["run", "snn-100x"], "UNKNOWN-CLAIM"),
        (["show", "nothing"], "UNKNOWN-CLAIM"),
        (["run", "--all", "--budget", "1"], "BAD-BUDGET"),
        (["run", "snn-1000x", "--rounds", "1"], "BAD-ROUNDS"),
        (["list", "--file", "/nowhere.yaml"], "CANNOT-READ"),
        (["run", "snn-1000x", "--budget", "soon"], "USAGE"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], code: str, sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", sqlite_url, "claims", *arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith(f"error[{code}]")


@pytest.mark.parametrize("arguments", [["list"], ["prepare", "--dry-run"], ["show", "lmdb-10x"], ["run", "kserve-cost-60", "--no-save"]])
def test_pages_for_people(arguments: list[str], sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", sqlite_url, "claims", *arguments]) == 0
    assert ("environment" if arguments[0] == "prepare" else "claim") in capsys.readouterr().out
