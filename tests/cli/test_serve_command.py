"""``advisor serve`` and ``advisor token``: what they say before anything is served."""

from __future__ import annotations

import importlib.util
import json
import socket
from typing import Any

import pytest

from advisor.cli.main import run


def test_a_missing_package_names_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    real = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "fastapi" else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert run(["serve"]) == 3
    assert "pip install 'hw-advisor[serve]'" in capsys.readouterr().err


def test_a_port_that_is_taken_and_a_host_that_is_none(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(["--db", sqlite_url, "serve", "--port", str(taken.getsockname()[1])]) == 3
    assert "error[PORT]" in capsys.readouterr().err
    assert run(["--db", sqlite_url, "serve", "--host", "no such host", "--port", "0"]) == 2
    assert run(["--db", "sqlite:////proc/none/x.db", "serve", "--port", "0"]) == 4


def test_a_token_is_made_listed_and_revoked(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", sqlite_url, "token", "create", "lab", "--scope", "submit", "--scope", "retract", "--expires", "90d", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["secret"].startswith("adv_")
    assert made["scopes"] == ["retract", "submit"]
    assert made["expires_at"] > made["created_at"]
    assert run(["--db", sqlite_url, "token", "list", "--json"]) == 0
    listed = capsys.readouterr().out
    assert made["secret"] not in listed
    assert [row["state"] for row in json.loads(listed)["tokens"]] == ["active"]
    assert run(["--db", sqlite_url, "token", "revoke", "lab"]) == 0
    assert run(["--db", sqlite_url, "token", "list"]) == 0
    assert "revoked" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", ""],
        ["create", "x" * 101],
        ["create", "a", "--scope", "admin"],
        ["create", "a", "--expires", "soon"],
        ["revoke", "nobody"],
        ["revoke", "0"],
    ],
)
def test_wrong_requests_about_tokens(sqlite_url: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", sqlite_url, "token", *arguments]) == 2
    assert capsys.readouterr().err.startswith("error[")
