"""A client that speaks to the application without a network, on databases of the test's own."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("jinja2")


class Client:
    """Sends requests to an application as a client at 127.0.0.1 would."""

    def __init__(self, url: str, **options: Any) -> None:
        from advisor.usecases.serve import ServeOptions, Service
        from advisor.web.app import create_app

        self.url = url
        self.options = ServeOptions(database_url=url, **options)
        self.app = create_app(self.options)
        self.app.state.service = Service(self.options)
        self.service = self.app.state.service

    def send(self, method: str, path: str, **how: Any) -> Any:
        async def once() -> Any:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
                return await client.request(method, path, **how)

        return asyncio.run(once())

    def get(self, path: str, **how: Any) -> Any:
        return self.send("GET", path, **how)

    def page(self, path: str, **how: Any) -> Any:
        return self.send("GET", path, headers={"accept": "text/html"}, **how)

    def token(self, name: str = "tester", *scopes: str) -> str:
        from advisor.usecases import tokens

        return str(tokens.create(self.url, name, scopes or ("submit",))["secret"])

    def submit(self, body: Any, token: str | None, **headers: str) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        return self.send("POST", "/api/measurements", content=content, headers=sent)


@pytest.fixture
def client(sqlite_url: str) -> Iterator[Client]:
    """Return a client of an empty database."""
    made = Client(sqlite_url)
    yield made
    made.service.close()


@pytest.fixture(scope="session")
def seeded(seeded_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Return a client of a database with the published rows and one machine; only to read."""
    from advisor.results.store import Store

    path = tmp_path_factory.mktemp("web") / "seeded.db"
    shutil.copy(seeded_file, path)
    with Store.open(f"sqlite:///{path}") as store:
        machine = store.save_machine(machine_document())
        run = store.start_run(kind="bench", machine_id=machine)
        store.add_measurements(run, [measurement(m=256 << i, value=1e10 * (i + 1)) for i in range(4)])
    made = Client(f"sqlite:///{path}", questions_per_minute=6000.0)
    yield made
    made.service.close()


def machine_document(fingerprint: str = "f" * 32, name: str = "Test <CPU>") -> dict[str, Any]:
    """Return what a probe of a small machine says, with a name that must be escaped."""
    return {
        "schema_version": 1,
        "fingerprint": fingerprint,
        "host": {
            "os": "linux",
            "kernel": "6.1",
            "arch": "x86_64",
            "hostname": "secret-host",
            "cpu": {"model": name, "usable_cpus": 2.0},
            "memory": {"total_bytes": 8 << 30, "usable_bytes": 4 << 30},
        },
        "devices": [{"id": "cpu0", "name": name, "target": "cpu-x86", "state": "usable", "profile": None, "memory_bytes": 4 << 30}],
        "frameworks": [{"name": "torch", "version": "2.4", "state": "usable", "targets": ["cpu-x86"]}],
        "findings": [{"code": "X", "severity": "warning", "message": "<script>alert(1)</script>", "fix": "do & mend"}],
    }


def measurement(m: int = 512, value: float = 1e11, **more: Any) -> dict[str, Any]:
    """Return one GEMM measurement as `advisor bench` would."""
    return {
        "benchmark": "gemm",
        "backend": "torch",
        "backend_version": "2.4",
        "device": "cpu0",
        "dtype": "fp32",
        "params": {"m": m, "n": 512, "k": 512, "threads": 2},
        "metric": "flops_per_s",
        "unit": "FLOP/s",
        "value": value,
        "low": value * 0.9,
        "high": value * 1.1,
        "samples": 3,
        "seconds": 0.1,
        "status": "ok",
        "measured_at": "2026-01-31T12:00:00+00:00",
        **more,
    }


@pytest.fixture
def make_client(sqlite_url: str) -> Iterator[Any]:
    """Return a function that makes clients of this test's database with other options."""
    made: list[Client] = []

    def make(**options: Any) -> Client:
        made.append(Client(sqlite_url, **options))
        return made[-1]

    yield make
    for one in made:
        one.service.close()


@pytest.fixture
def machine() -> Any:
    """Return the function that makes a machine's document."""
    return machine_document


@pytest.fixture
def gemm() -> Any:
    """Return the function that makes a measurement."""
    return measurement


@pytest.fixture
def both(database_url: str) -> Iterator[Client]:
    """Return a client of an empty database, once of each kind."""
    made = Client(database_url)
    yield made
    made.service.close()
