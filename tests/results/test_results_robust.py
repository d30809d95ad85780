"""What goes wrong on real machines: killed writers, many writers, full disks, files that are something else."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from advisor.errors import DatabaseError
from advisor.results.address import file_system, hide_password, is_network_file_system, parse_url
from advisor.results.schema import SCHEMA_REVISION, VERSION_TABLE
from advisor.results.store import Store

WRITER = textwrap.dedent(
    """
    import sys
    from advisor.results.store import Store

    url, number = sys.argv[1], int(sys.argv[2])
    m = {"benchmark": "gemm", "backend": "torch", "device": "cpu0", "dtype": "fp32", "params": {}, "metric": "seconds", "value": 1.0}
    with Store.open(url) as store:
        run = store.start_run(kind="bench", software={}, settings={})
        for index in range(number):
            print(store.add_measurement(run, m | {"params": {"index": index}}), flush=True)
        store.finish_run(run)
    """
)


def writer(url: str, number: int, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, url, str(number)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def stored(url: str) -> set[str]:
    with Store.open(url) as store:
        return {m["id"] for m in store.measurements()}


def test_many_writers_into_one_new_database_all_complete(database_url: str) -> None:
    writers = [writer(database_url, 40) for _ in range(3)]
    said: list[str] = []
    for process in writers:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        said += out.split()
    assert len(said) == 120
    assert stored(database_url) == set(said)


@pytest.mark.parametrize("after", [1, 25])
def test_a_killed_writer_loses_nothing_it_reported(database_url: str, after: int) -> None:
    process = writer(database_url, 100_000)
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(after)]
    process.send_signal(signal.SIGKILL)
    said += [line for line in process.communicate(timeout=60)[0].split() if len(line) == 36]
    found = stored(database_url)
    assert set(said) <= found
    # The next writer works at once.
    out, err = writer(database_url, 2).communicate(timeout=60)
    assert len(out.split()) == 2, err
    if database_url.startswith("sqlite"):
        with sqlite3.connect(parse_url(database_url).path or "") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_writer_waits_for_another(sqlite_url: str) -> None:
    with Store.open(sqlite_url):
        pass
    other = sqlite3.connect(parse_url(sqlite_url).path or "", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    process = writer(sqlite_url, 1)
    time.sleep(0.8)
    assert process.poll() is None
    other.execute("COMMIT")
    out, err = process.communicate(timeout=60)
    assert len(out.split()) == 1, err


def test_a_full_disk_is_said_and_loses_nothing(sqlite_url: str) -> None:
    def limit() -> None:
        # A limit on the size of any file it writes is what a full disk looks like to SQLite.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    process = writer(sqlite_url, 100_000, preexec_fn=limit)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "advisor.errors.DatabaseError" in err.splitlines()[-1]
    said = set(out.split())
    assert len(said) > 5
    assert said <= stored(sqlite_url)


def test_a_full_disk_has_one_line_of_error(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        run = store.start_run(kind="bench", software={}, settings={})
        with store.reading() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

        def fill() -> None:
            with store.writing() as connection:
                connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
                connection.exec_driver_sql("INSERT INTO retractions VALUES ('a', ?, '2026-01-01')", ("x" * 50_000,))

        with pytest.raises(DatabaseError) as caught:
            fill()
        assert caught.value.code == "DB-FULL"
        assert run in store.query("SELECT id FROM runs")[1][0]


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("These are notes, not a database.\n" * 10)
    (tmp_path / "empty.db").touch()
    (tmp_path / "folder.db").mkdir()
    for name, code in (("notes.db", "DB-FORMAT"), ("folder.db", "DB-FILE"), ("notes.db/below.db", "DB-FILE")):
        with pytest.raises(DatabaseError) as caught:
            Store.open(f"sqlite:///{tmp_path}/{name}")
        assert caught.value.code == code
        assert "\n" not in caught.value.line()
    # An empty file is where a database can be made; a missing folder is made.
    for name in ("empty.db", "new/folder/results.db"):
        with Store.open(f"sqlite:///{tmp_path}/{name}") as store:
            assert store.measurements() == []


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with Store.open(f"sqlite:///{path}"):
        pass
    content = bytearray(path.read_bytes())
    content[100:] = os.urandom(len(content) - 100)
    path.write_bytes(content)
    with pytest.raises(DatabaseError) as caught:
        Store.open(f"sqlite:///{path}")
    assert caught.value.code == "DB-CORRUPT"


def test_reading_creates_nothing_where_asked(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="no results database"):
        Store.open(f"sqlite:///{tmp_path}/none.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_newer_schema_is_refused_with_what_to_do(database_url: str) -> None:
    with Store.open(database_url) as store, store.writing() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(DatabaseError, match=f"newer advisor .schema 9999; this one knows up to {SCHEMA_REVISION}") as caught:
        Store.open(database_url)
    assert "pip install --upgrade" in caught.value.line()


def test_another_programs_database_is_left_alone(sqlite_url: str) -> None:
    with sqlite3.connect(parse_url(sqlite_url).path or "") as connection:
        connection.execute("CREATE TABLE machines (name TEXT)")
    with pytest.raises(DatabaseError, match="another program"):
        Store.open(sqlite_url)
    with sqlite3.connect(parse_url(sqlite_url).path or "") as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [("machines",)]


@pytest.mark.parametrize(
    "url",
    ["nonsense", "", "://", "sqlite", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://relative.db", "mysql://u@h/d", "postgresql+asyncpg://h/d",
     "postgresql+psycopg://h:notaport/d", "sqlite:////proc/nope/x.db", "sqlite:////dev/null/x.db"],
)  # fmt: skip
def test_a_wrong_url_is_one_line(url: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        Store.open(url)
    assert caught.value.exit_status == 4
    assert caught.value.line().startswith("error[DB-")


def test_an_unreachable_server_is_one_line_without_the_password() -> None:
    with pytest.raises(DatabaseError) as caught:
        Store.open("postgresql+psycopg://someone:secret@127.0.0.1:1/none")
    line = caught.value.line()
    assert line.startswith("error[DB-UNREACHABLE]")
    assert "refused" in line
    assert "secret" not in line


def test_passwords_are_never_shown() -> None:
    assert hide_password("postgresql://u:p%40ss@h/d?x=1") == "postgresql://u:***@h/d?x=1"
    assert hide_password("postgresql://h/d?user=u&password=p") == "postgresql://h/d?user=u&password=***"


def test_network_file_systems_are_noticed(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "40 22 0:40 / /home rw,relatime shared:1 - nfs4 server:/home rw\n"
        "41 40 0:41 / /home/me/local\\040disk rw - xfs /dev/sdb rw\n"
        "42 22 0:42 / /scratch rw - lustre mds:/scratch rw\n"
        "43 22 0:43 / /mnt/ssh rw - fuse.sshfs host: rw\n"
        "broken line\n"
    )
    paths = ("/home/me/a.db", "/home/me/local disk/a.db", "/homes/a.db", "/scratch/a.db", "/mnt/ssh/a.db")
    kinds = {path: file_system(Path(path), mounts) for path in paths}
    assert list(kinds.values()) == ["nfs4", "xfs", "ext4", "lustre", "fuse.sshfs"]
    assert [is_network_file_system(kind) for kind in kinds.values()] == [True, False, False, True, True]
    assert file_system(Path("/a.db"), tmp_path / "none") is None


def test_on_a_network_file_system_there_is_no_write_ahead_log(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(sqlite_url):
        pass
    monkeypatch.setattr("advisor.results.engine.file_system", lambda path: "nfs4")
    with Store.open(sqlite_url) as store:
        store.start_run(kind="bench", software={}, settings={})
        with store.reading() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
    assert "network file system" in caplog.text


def test_a_read_only_file_can_be_read() -> None:
    folder = Path(tempfile.mkdtemp(prefix="advisor-ro-"))
    url = f"sqlite:///{folder}/results.db"
    with Store.open(url) as store:
        store.start_run(kind="bench", software={}, settings={})
    (folder / "results.db").chmod(0o444)
    folder.chmod(0o555)
    # Permissions do not bind root, so the reader becomes somebody else once its code is loaded.
    script = textwrap.dedent(
        """
        import os, sys
        import advisor.results.sql
        from advisor.errors import DatabaseError
        from advisor.results.store import Store

        with Store.open(sys.argv[2]) as store:
            store.start_run(kind="bench", software={}, settings={})
            store.measurements()
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        with Store.open(sys.argv[1]) as store:
            print(store.query("SELECT count(*) FROM runs")[1], len(store.measurements()), store.read_only)
            try:
                store.start_run(kind="bench", software={}, settings={})
            except DatabaseError as error:
                print(error.line())
        """
    )
    try:
        with tempfile.TemporaryDirectory() as other:
            done = subprocess.run(
                [sys.executable, "-c", script, url, f"sqlite:///{other}/x.db"], capture_output=True, text=True, timeout=60
            )
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
    assert done.stdout.splitlines()[:1] == ["[(1,)] 0 True"], done.stderr
    assert "error[DB-READONLY]" in done.stdout
