"""What the scenario tests share: a database of their own, and a question asked as it is typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.main import run

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_DB", f"sqlite:///{tmp_path / 'a.db'}")
    monkeypatch.setenv("ADVISOR_HOME", str(tmp_path / "home"))


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run a command line and return its JSON document; ``status`` is what it must exit with."""

    def asked(line: str, *more: str, status: int | None = None) -> dict[str, Any]:
        code = run([*line.split(), *more, "--json"])
        captured = capsys.readouterr()
        assert code in (0, 1), captured.err
        assert status is None or code == status, captured.out[:2000]
        document: dict[str, Any] = json.loads(captured.out)
        return document

    return asked


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command line and return what a person reads, errors included."""

    def said(line: str, *more: str) -> str:
        run([*line.split(), *more])
        captured = capsys.readouterr()
        return captured.out + captured.err

    return said


@pytest.fixture
def why() -> Callable[[dict[str, Any], str], dict[str, Any]]:
    """Return the reason with a code, which must be there."""

    def found(document: dict[str, Any], code: str) -> dict[str, Any]:
        reasons = (document.get("recommendation") or document)["why"]
        matching = [reason for reason in reasons if reason["code"] == code]
        assert matching, f"no {code} among {[reason['code'] for reason in reasons]}"
        return dict(matching[0])

    return found
