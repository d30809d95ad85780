"""Pushing: nothing is lost while the other side is away, nothing comes twice, and what was withdrawn is withdrawn there too."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.main import run
from advisor.errors import AdvisorError, UsageError
from advisor.results.store import Store
from advisor.usecases import tokens
from advisor.usecases.push import push


@pytest.fixture
def local(tmp_path: Path) -> str:
    """Return the URL of a database in which this machine measured three GEMMs and tried a plan."""
    url = f"sqlite:///{tmp_path / 'local.db'}"
    with Store.open(url) as store:
        devices = [{"id": "cpu0", "target": "cpu-x86", "name": "Xeon", "state": "usable"}]
        machine = store.save_machine({"schema_version": 1, "fingerprint": "f" * 32, "host": {"hostname": "secret"}, "devices": devices})
        run = store.start_run(kind="bench", machine_id=machine, software={"torch": "2.13"})
        store.add_measurements(run, [gemm(m, 1e11 + m) for m in (64, 128, 256)])
        store.add_trial(run, {"plan_id": "abc", "plan": {"framework": "torch"}, "model": "gpt2", "status": "ok"})
    return url


def gemm(m: int, value: float, **more: Any) -> dict[str, Any]:
    facts = {"benchmark": "gemm", "backend": "torch", "device": "cpu0", "dtype": "fp32", "metric": "flops_per_s", "value": value}
    return {**facts, "params": {"m": m, "n": 64, "k": 64}, "sample_seconds": [0.001], **more}


def held(url: str) -> dict[str, Any]:
    with Store.open(url) as store:
        rows = store.measurements(retracted=True)
        assert {row["origin"] for row in rows} <= {"shared"}
        return {row["id"]: (row["value"], row["machine"], row["retracted"]) for row in rows} | {t["id"]: t["plan"] for t in store.trials()}


def test_a_database_gets_everything_once(local: str, database_url: str) -> None:
    first = push(local, database_url)
    assert (first["sent"], first["new"], first["refused"], first["left"]) == (4, 4, [], 0)
    assert len(held(database_url)) == 4
    assert push(local, database_url)["sent"] == 0
    with Store.open(local) as store:
        newest = store.measurements()
        store.add_measurements(newest[0]["run_id"], [gemm(512, 5.0)])
        store.retract(newest[0]["id"], "fan")
    second = push(local, database_url)
    assert (second["sent"], second["withdrawn"], second["left"]) == (1, 1, 0)
    assert held(database_url)[newest[0]["id"]][2] == "fan"
    assert push(local, database_url)["withdrawn"] == 0


def test_what_others_measured_is_not_pushed(local: str, database_url: str, tmp_path: Path) -> None:
    push(local, database_url)
    third = f"sqlite:///{tmp_path / 'third.db'}"
    assert push(database_url, third)["sent"] == 0


def test_what_cannot_be_sent_stays_queued(local: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # Bound and not listening: whoever connects is refused.
        port = taken.getsockname()[1]
        for target in (f"postgresql+psycopg://nobody@127.0.0.1:{port}/results", f"http://127.0.0.1:{port}"):
            with pytest.raises(AdvisorError) as caught:
                push(local, target, token="adv_x")
            assert "4 records stay queued here" in caught.value.line()
        monkeypatch.setenv("ADVISOR_TOKEN", "adv_x")
        assert run(["--db", local, "results", "push", f"http://127.0.0.1:{port}"]) == 3


def test_an_interrupted_push_goes_on_where_it_ended(local: str, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.usecases.push.BATCH", 2)
    seen: list[str] = []

    def stop(text: str) -> None:
        seen.append(text)
        if len(seen) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        push(local, database_url, say=stop)
    assert len(held(database_url)) == 2
    assert push(local, database_url)["new"] == 2
    assert len(held(database_url)) == 4


def test_to_itself_and_to_nowhere(local: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="itself"):
        push(local, local)
    with pytest.raises(UsageError, match="token"):
        push(local, "http://127.0.0.1:1")
    monkeypatch.delenv("ADVISOR_PUSH_TO", raising=False)
    assert run(["--db", local, "results", "push"]) == 2
    assert "ADVISOR_PUSH_TO" in capsys.readouterr().err


@pytest.fixture
def server(sqlite_url: str) -> Iterator[tuple[str, str]]:
    """Serve an empty database; yield its address and its URL."""
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("fastapi")
    from advisor.usecases.serve import ServeOptions
    from advisor.web.app import create_app
    from advisor.web.server import listen

    listening = listen("127.0.0.1", 0)
    running = uvicorn.Server(uvicorn.Config(create_app(ServeOptions(database_url=sqlite_url)), log_level="error", lifespan="on"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    while thread.is_alive() and not running.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", sqlite_url
    running.should_exit = True
    thread.join(timeout=20)
    listening.close()


def test_a_server_gets_everything_once(
    local: str, server: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address, url = server
    token = str(tokens.create(url, "lab", ("submit", "retract"))["secret"])
    first = push(local, address, token=token)
    assert (first["sent"], first["new"], first["refused"], first["left"]) == (4, 4, [], 0)
    assert len(held(url)) == 4
    assert push(local, address, token=token)["sent"] == 0
    with Store.open(local) as store:
        newest = store.measurements()
        store.add_measurements(newest[0]["run_id"], [gemm(512, 5.0), gemm(513, 6.0, measured_at="2999-01-01T00:00:00Z")])
        store.retract(newest[0]["id"], "fan")
    second = push(local, address + "/", token=token)
    assert (second["sent"], second["withdrawn"], second["left"]) == (1, 1, 1)
    assert "measured_at" in second["refused"][0]["why"]
    assert held(url)[newest[0]["id"]][2] == "fan"
    # An answer that was lost: the batch comes again, and is known.
    with Store.open(local) as store, store.writing() as connection:
        connection.exec_driver_sql("DELETE FROM deliveries")
    third = push(local, address, token=token)
    assert (third["new"], len(held(url))) == (0, 5)
    monkeypatch.setenv("ADVISOR_TOKEN", token)
    capsys.readouterr()
    assert run(["--db", local, "results", "push", address, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["left"] == 1


def test_a_wrong_token_is_named(local: str, server: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="does not take this token"):
        push(local, server[0], token="adv_wrong")
    assert held(server[1]) == {}
