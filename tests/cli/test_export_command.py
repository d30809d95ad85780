"""advisor export, from the user's end: a stored answer, its files, their check, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli.main import run

_QUESTION = ["recommend", "--model", "gpt2", "--hardware", "8xa100-sxm4-80gb", "--seq", "1024", "--global-batch", "64"]
_FIXED = ["--fix", "framework=deepspeed", "--fix", "sharding=zero2"]


@pytest.fixture
def plan_id(capsys: pytest.CaptureFixture[str]) -> str:
    assert run([*_QUESTION, *_FIXED, "--json"]) == 0
    found: str = json.loads(capsys.readouterr().out)["recommendation"]["plan_id"]
    return found


def test_the_latest_answer_is_written_and_checked(plan_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "launch"
    assert run(["export", "--last", "--format", "deepspeed,accelerate", "--out", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["plan_id"] == plan_id
    assert {row["format"] for row in document["exported"]} == {"deepspeed", "accelerate"}
    assert all(Path(file).is_file() for row in document["exported"] for file in row["files"])
    assert json.loads((out / "deepspeed" / "ds_config.json").read_text())["zero_optimization"]["stage"] == 2
    assert (out / "deepspeed" / "run.sh").stat().st_mode & 0o100
    assert plan_id in (out / "accelerate" / "accelerate.yaml").read_text()

    assert run(["export", plan_id, "--format", "deepspeed", "--out", str(out), "--check"]) == 0
    assert "checked with JSON parser" in " ".join(capsys.readouterr().out.split())
    config = out / "deepspeed" / "ds_config.json"
    config.write_text(config.read_text().replace('"stage": 2', '"stage": 3'))
    assert run(["export", plan_id, "--format", "deepspeed", "--out", str(out), "--check", "--json"]) == 1
    checked = json.loads(capsys.readouterr().out)["checked"][0]
    assert checked["problems"] == ["zero_optimization.stage is 3, the plan says 2"]


def test_recommend_writes_files_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*_QUESTION, *_FIXED, "--export", "deepspeed", "--out", str(tmp_path / "at-once"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exported"][0]["format"] == "deepspeed"
    assert (tmp_path / "at-once" / "run.sh").is_file()


def test_what_a_format_cannot_say_is_one_line_and_writes_nothing(plan_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", plan_id, "--format", "deepspeed,vllm", "--out", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error[CANNOT-EXPORT]: vllm: vLLM serves; the plan trains")
    assert error.count("\n") == 1
    assert "can be written as" in error
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--last"], "NO-FORMAT"),
        (["--format", "deepspeed", "--out", "x"], "NO-PLAN"),
        (["--last", "--format", "deepspeed", "--out", "x"], "NO-PLAN"),
        (["ffffffffffff", "--format", "deepspeed", "--out", "x"], "UNKNOWN-PLAN"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error[{code}]: ")
    assert error.count("\n") == 1


def test_a_missing_file_an_unknown_format_and_a_closed_folder(plan_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", plan_id, "--format", "deepspeed", "--out", str(tmp_path), "--check"]) == 2
    assert "error[CANNOT-READ]" in capsys.readouterr().err
    assert run(["export", plan_id, "--format", "deepsped", "--out", str(tmp_path)]) == 2
    assert "did you mean deepspeed" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert run(["export", plan_id, "--format", "deepspeed", "--out", str(tmp_path / "file" / "sub")]) == 3
    assert "error[CANNOT-WRITE]" in capsys.readouterr().err


def test_the_list_names_every_format_with_its_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["formats"]
    assert len(rows) == 15
    assert all(row["title"] and row["targets"] for row in rows)
