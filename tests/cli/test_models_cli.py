"""advisor models."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.cli.main import run


def test_list_shows_every_model_with_its_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "list"]) == 0
    text = capsys.readouterr().out
    line = next(line for line in text.splitlines() if line.startswith("gpt-13b "))
    for part in ("12.85 B", "27.36 GFLOP/token", "800.0 KiB/token", "2,048 tokens"):
        assert part in line
    assert "resnet-50" in text


def test_list_filters_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "list", "deepseek", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert [row["name"] for row in document["models"]] == ["deepseek-v2-lite", "deepseek-v2", "deepseek-v3"]
    assert all(row["source"] and row["active_parameters"] < row["parameters"] for row in document["models"])


def test_show_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "show", "GPT-13B", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"] == 12_853_386_240
    assert document["forward_flops"] == 56_029_547_069_440
    assert document["forward_flops_causal"] < document["forward_flops"]
    assert sum(block["parameters"] * block["repeat"] for block in document["blocks"]) == document["parameters"]
    assert document["transformer"]["heads"] == 40
    assert "Brown et al. 2020" in document["source"]


@pytest.mark.parametrize("name", ["mixtral-8x7b", "t5-11b", "resnet-50", "vit-b-16", "mamba-130m"])
def test_show_for_people(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "show", name]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{name}: ")
    assert "source" in text


def test_show_warns_of_fields_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64, "sparse_heads": 3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert run(["models", "show", str(tmp_path)]) == 0
    assert "left out: sparse_heads" in capsys.readouterr().out


def test_an_unknown_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "show", "lama-2-7b"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error[UNKNOWN-MODEL]: unknown model 'lama-2-7b'; did you mean llama-2-7b")
    assert captured.err.count("\n") == 1


def test_nothing_heavy_is_imported() -> None:
    code = "import sys; from advisor.cli.main import run; run(['models', 'list']); print({'torch', 'onnx', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1] == "set()", done.stderr
