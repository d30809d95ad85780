"""Fixtures that every part uses: a private home for each test, databases of both kinds."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def advisor_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every test away from the user's data: ADVISOR_HOME is a fresh folder and ADVISOR_DB is not set."""
    home = tmp_path / "advisor-home"
    monkeypatch.setenv("ADVISOR_HOME", str(home))
    monkeypatch.delenv("ADVISOR_DB", raising=False)
    return home


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Return the URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'results.db'}"


@pytest.fixture(scope="session")
def seeded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an SQLite file with the published rows, made once for the session: copy it, do not change it."""
    from advisor.results.seed import seed
    from advisor.results.store import Store

    path = tmp_path_factory.mktemp("seeded") / "results.db"
    with Store.open(f"sqlite:///{path}") as store:
        seed(store)
    return path


@pytest.fixture
def seeded_url(seeded_file: Path, tmp_path: Path) -> str:
    """Return the URL of this test's own copy of an SQLite database with the published rows."""
    shutil.copy(seeded_file, tmp_path / "seeded.db")
    return f"sqlite:///{tmp_path / 'seeded.db'}"


def _server_programs() -> tuple[str, str] | None:
    """Return initdb and pg_ctl, which Debian keeps off the search path."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    found = [shutil.which(name, path=os.pathsep.join(folders)) for name in ("initdb", "pg_ctl")]
    return (found[0], found[1]) if found[0] and found[1] else None


def _ordinary_user() -> dict[str, Any]:
    """Return subprocess options under which PostgreSQL agrees to run: it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in known:
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root and there is no ordinary user")


@contextmanager
def running_postgresql(*settings: str) -> Iterator[str]:
    """Start a PostgreSQL of our own with these settings (``fsync=off``); give the URL of its maintenance database.

    Skips where PostgreSQL is not installed. The yardsticks in benchmarks/ use this too.
    """
    programs = _server_programs()
    if sys.platform == "win32" or programs is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not installed")
    pytest.importorskip("psycopg")
    initdb, pg_ctl = programs
    who = _ordinary_user()
    # A short path: a Unix socket's name is limited to about a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="advisor-pg-", dir="/tmp"))
    if who:
        os.chown(folder, who["user"], who["group"])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options: dict[str, Any] = {**who, "cwd": folder, "env": {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}}

    def call(*command: str) -> None:
        done = subprocess.run(command, **options, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    call(initdb, "-D", f"{folder}/data", "-U", "advisor", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
    chosen = " ".join(f"-c {setting}" for setting in ("listen_addresses=127.0.0.1", "max_connections=60", *settings))
    # The server's own output goes to a file: a pipe that the server inherits would never come to its end.
    call(pg_ctl, "-D", f"{folder}/data", "-w", "-t", "60", "-l", f"{folder}/log", "-o", f"-p {port} -k {folder} {chosen}", "start")
    try:
        yield f"postgresql+psycopg://advisor@127.0.0.1:{port}/postgres"
    finally:
        call(pg_ctl, "-D", f"{folder}/data", "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """Start a PostgreSQL of our own for the session; yield the URL of its maintenance database."""
    with running_postgresql("fsync=off") as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """Return the URL of an empty PostgreSQL database of this test's own."""
    import psycopg

    name = f"t{uuid.uuid4().hex[:12]}"
    maintenance = postgresql_server.replace("+psycopg", "")
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgresql_server.rsplit("/", 1)[0] + f"/{name}"
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty database, once of each kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))
