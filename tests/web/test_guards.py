"""Who is let in: rates, the names the server answers to, and the moment it starts."""

from __future__ import annotations

import socket
from typing import Any

import pytest


def test_rates_are_limited_by_token_and_for_wrong_ones_by_address(make_client: Any, gemm: Any) -> None:
    client = make_client(submissions_per_minute=1.0, failures_per_minute=1.0)
    token = client.token()
    statuses = [client.submit({"measurements": [gemm(m=i + 1)]}, token).status_code for i in range(7)]
    assert statuses == [201] * 5 + [429] * 2
    guesses = [client.submit({}, f"adv_{i}") for i in range(7)]
    assert [response.status_code for response in guesses] == [401] * 5 + [429] * 2
    assert int(guesses[-1].headers["retry-after"]) > 0


@pytest.mark.parametrize("name", ["", " ", "http://results.lab", "results.lab:8000", "a b", "-x", "x/y"])
def test_a_name_no_client_can_use_is_refused_at_the_start(sqlite_url: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from advisor.cli.main import run

    assert run(["--db", sqlite_url, "serve", "--port", "0", "--allow-host", name]) == 2
    assert "--allow-host" in capsys.readouterr().err
    assert run(["--db", sqlite_url, "serve", "--port", "0", "--host", ""]) == 2


def test_who_connects_before_the_server_is_ready_waits() -> None:
    from advisor.web.server import listen

    with listen("127.0.0.1", 0) as waiting, socket.create_connection(waiting.getsockname(), timeout=10) as client:
        assert client.getpeername() == waiting.getsockname()


def test_only_its_own_names_are_answered(make_client: Any) -> None:
    client = make_client(allowed_hosts=("results.example",))
    for host, status in (("127.0.0.1:8000", 200), ("localhost", 200), ("[::1]:8000", 200), ("results.example", 200), ("evil.example", 421)):
        assert client.get("/healthz", headers={"host": host}).status_code == status, host
