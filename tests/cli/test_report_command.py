"""``advisor report``: one page that needs nothing else, or its text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from advisor.cli.main import run


@pytest.fixture
def answered(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return a database with one answer."""
    question = ["--model", "bert-base", "--task", "infer", "--hardware", "1xt4", "--seq", "128", "--global-batch", "8"]
    assert run(["--db", sqlite_url, "recommend", *question]) == 0
    capsys.readouterr()
    return sqlite_url


def test_the_page_of_an_answer_stands_alone(answered: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "deep" / "answer.html"
    assert run(["--db", answered, "report", "--out", str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    text = page.read_text()
    loads: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            loads.extend(f"{tag} {value}" for name, value in attributes if name in ("src", "href"))
            assert tag not in ("script", "link", "img", "iframe")

    Reader().feed(text)
    assert loads == []
    assert not re.search(r"url\(|@import", text)
    assert "bert-base on 1xt4" in text
    assert text.count("<svg") == 2
    assert "default-src" in text


def test_the_page_of_a_machine(sqlite_url: str, tmp_path: Path) -> None:
    page = tmp_path / "machine.html"
    assert run(["--db", sqlite_url, "report", "--machine", "--out", str(page)]) == 0
    assert "<td>cpu0</td>" in page.read_text()


def test_without_a_file_the_text_is_printed(answered: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", answered, "report"]) == 0
    assert "bert-base" in capsys.readouterr().out
    assert run(["--db", answered, "report", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    plan = document["recommendation"]["recommendation"]["plan_id"]
    assert document["machine"] is None
    assert run(["--db", answered, "report", "--plan", plan[:8], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recommendation"]["recommendation"]["plan_id"] == plan


def test_what_cannot_be_reported(sqlite_url: str, answered: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", f"sqlite:///{tmp_path / 'none.db'}", "report", "--answer"]) == 2
    assert "NO-ANSWER" in capsys.readouterr().err
    assert run(["--db", answered, "report", "--plan", "ffffffffffff"]) == 2
    (tmp_path / "file").write_text("")
    assert run(["--db", answered, "report", "--out", str(tmp_path / "file" / "x.html")]) == 2
    assert "cannot write" in capsys.readouterr().err
