"""The command line of questions: statuses, one JSON document, text for people."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from advisor.cli.main import run

A100 = ["--hardware", "64xa100-sxm4-80gb", "--seq", "2048", "--global-batch", "512"]


@pytest.fixture(autouse=True)
def own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_DB", f"sqlite:///{tmp_path / 'a.db'}")
    monkeypatch.setenv("ADVISOR_HOME", str(tmp_path / "home"))


def test_recommend_prints_one_json_document_and_explain_finds_its_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recommend", "--model", "gpt-13b", *A100, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    plan_id = document["recommendation"]["plan_id"]
    assert run(["explain", plan_id[:8], "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert explained["plan"] == document["recommendation"]["plan"]
    assert any("206" in f["numbers"] or "205" in f["numbers"] for f in explained["formulas"])
    assert run(["explain", plan_id]) == 0
    out = capsys.readouterr().out
    assert "The arithmetic" in out
    assert "what if" in out
    told = {r["code"]: r for r in document["recommendation"]["why"]}["COUNTERFACTUAL"]
    assert explained["counterfactuals"] == told["detail"]["lines"]
    assert explained["counterfactuals"][0].startswith("with twice the FLOP/s: -")
    assert explained["counterfactuals_reason"] is None
    other = document["alternatives"][0]["plan_id"]
    assert run(["explain", other, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counterfactuals"]


def test_recommend_for_people_puts_the_verdict_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recommend", "--model", "gpt-13b", *A100]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Yes: training gpt-13b on 64")
    for word in ("step time", "memory", "Runners-up", "bottleneck", "evidence", "legal plans priced"):
        assert word in out


def test_a_no_exits_with_1_and_says_what_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recommend", "--model", "gpt-13b", "--hardware", "1xrtx-4090", "--global-batch", "8", "--fix", "offload=none"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("No: ")
    assert "What would do it" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["recommend"],
        ["recommend", "--model", "gpt-13b", "--seq", "many"],
        ["recommend", "--model", "gpt-13b", *A100, "--fix", "tp"],
        ["recommend", "--model", "gpt-13b", *A100, "--fix", "tp=2", "--fix", "tp=4"],
        ["recommend", "--model", "gpt-13b", *A100, "--limit", "speed=3"],
        ["recommend", "--model", "gpt-13b", *A100, "--limit", "ttft_s=nan"],
        ["recommend", "--model", "gpt-13b", *A100, "--limit", "memory_bytes_per_device=-1"],
        ["recommend", "--model", "gpt-13b", *A100, "--price", "a100-sxm4-80gb=free"],
        ["recommend", "--model", "gpt-13b", *A100, "--measure"],
        ["estimate", "--model", "gpt-13b", *A100, "--plan", "nothing.json"],
        ["sweep", "--model", "gpt-13b", *A100, "--param", "colour"],
        ["compare", "--model", "gpt-13b"],
        ["explain", "nothing"],
        ["recomend"],
    ],
)
def test_bad_usage_ends_with_one_error_line_and_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"error\[[A-Z0-9-]+\]: .+", captured.err.strip().splitlines()[-1])


def test_estimate_reads_a_plan_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("tp: 2\npp: 4\nframework: megatron\n")
    assert run(["estimate", "--model", "gpt-13b", *A100, "--plan", str(plan), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["pp"] == 4


def test_sweep_compare_and_fit_print_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "--model", "gpt-1.3b", "--hardware", "8xa100-sxm4-80gb", "--global-batch", "64", "--param", "micro_batch"]) == 0
    assert "best micro_batch" in capsys.readouterr().out
    assert run(["compare", "--model", "bert-base", "--task", "infer", "--hardware", "1xt4", "--hardware", "1xa100-sxm4-80gb"]) == 0
    assert "best by throughput: 1xa100-sxm4-80gb" in capsys.readouterr().out
    assert run(["fit", "--model", "llama-2-70b", "--task", "infer", "--hardware", "a100-sxm4-80gb"]) == 0
    assert "smallest for infer llama-2-70b" in capsys.readouterr().out


def test_a_database_that_cannot_be_written_costs_the_record_not_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", "sqlite:////proc/nope/x.db", "recommend", "--model", "gpt-13b", *A100, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["feasible"]
    assert "warning: the answer was not stored: cannot open /proc/nope/x.db" in captured.err
