"""Hostile names, files, streams and databases: one line of error, its exit status, never a wait and never a traceback."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.cli.main import run
from advisor.errors import error_line
from advisor.resources import written_whole

LINE = re.compile(r"error\[[A-Z0-9-]+\]: .+")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from advisor.cli.main import main; main()", *arguments]


def finish(command_line: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command_line, capture_output=True, text=True, timeout=60, check=False)


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = run(list(arguments))
    captured = capsys.readouterr()
    assert captured.out == ""
    line = captured.err.splitlines()[-1]
    assert LINE.fullmatch(line), captured.err
    return status, line


def test_an_error_shows_control_characters_as_escapes_and_shortens_what_is_long() -> None:
    assert error_line("X", "a\x1b[2J\nb\u202ec", "do\x07") == r"error[X]: a\x1b[2J b\u202ec; do\x07"
    line = error_line("X", "y" * 100_000, "mend it")
    assert len(line) < 1200
    assert line.endswith("; mend it")


@pytest.mark.parametrize(
    "arguments", [["probe", "a\x1b]0;b"], ["calibrate", "a\x1b[2J"], ["estimate", "--model", "gpt2", "--seq", "9" * 5000]]
)
def test_no_argument_reaches_the_terminal_raw_or_whole(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    status, line = failure(capsys, *arguments)
    assert status == 2
    assert "\x1b" not in line
    assert len(line) < 1200


@pytest.mark.parametrize("name", ["~no-such-user/config.json", "~no-such-user/a.onnx", "~no-such-user/a.py:f"])
def test_the_home_of_an_unknown_user_is_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, line = failure(capsys, "models", "show", name)
    assert status == 2
    assert "CANNOT-READ" in line


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("a.json", ["models", "show", "{}"], 2),
        ("a.yaml", ["models", "show", "{}"], 2),
        ("a.json", ["estimate", "--model", "gpt2", "--hardware", "1xa100-sxm4-80gb", "--plan", "{}"], 2),
        ("a.parquet", ["results", "import", "{}"], 2),
        ("a.db", ["--db", "sqlite:///{}", "results", "list"], 4),
    ],
)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(tmp_path: Path, name: str, arguments: list[str], status: int) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    done = subprocess.run(
        command(*(a.replace("{}", str(pipe)) for a in arguments)), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status
    assert LINE.fullmatch(done.stderr.splitlines()[-1])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_on_a_recorded_machine_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    for name in ("cpuinfo", "meminfo"):
        os.mkfifo(tmp_path / "proc" / name)
    done = finish(command("probe", "--root", str(tmp_path), "--json"))
    assert done.returncode == 0
    assert json.loads(done.stdout)["host"]["memory"]["total_bytes"] is None


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    ("redirection", "status"), [(">&-", 0), ("2>&- >/dev/null", 0), ("<&- >/dev/null", 0), ("| head -1 >/dev/null", 0), (">/dev/full", 3)]
)
def test_closed_and_full_streams_end_in_order(redirection: str, status: int) -> None:
    if "/dev/full" in redirection and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    script = f'"$@" {redirection}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *command("models", "list")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1:strict"])
def test_a_terminal_without_the_letters_still_gets_the_answer(encoding: str) -> None:
    arguments = ["estimate", "--model", "gpt2", "--hardware", "1xa100-sxm4-80gb"]
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    for extra in ([], ["--json"]):
        done = subprocess.run(command(*arguments, *extra), capture_output=True, env=environment, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode("ascii"))["schema_version"] == 1


@pytest.mark.parametrize("url", ["sqlite:////dev/null", "sqlite:///\udc80.db"])
def test_what_cannot_be_a_database_file_is_refused(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert failure(capsys, "--db", url, "results", "list")[0] == 4


@pytest.mark.parametrize("damage", ["UPDATE measurements SET params = '{bad'", "UPDATE measurements SET measured_at = 'never'"])
def test_a_damaged_value_is_a_damaged_database(capsys: pytest.CaptureFixture[str], seeded_file: Path, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "damaged.db"
    shutil.copy(seeded_file, copy)
    with sqlite3.connect(copy) as connection:
        connection.execute(damage)
    connection.close()
    status, line = failure(capsys, "--db", f"sqlite:///{copy}", "results", "query", "--json")
    assert status == 4
    assert "DB-CORRUPT" in line


def test_a_compressed_line_without_end_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, sqlite_url: str) -> None:
    bomb = tmp_path / "bomb.jsonl.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(66):
            file.write(b"x" * (1 << 20))
    status, line = failure(capsys, "--db", sqlite_url, "results", "import", str(bomb))
    assert status == 2
    assert "TOO-LARGE" in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "--since", "99999999999w"],
        ["query", "--since", "9" * 5000 + "d"],
        ["list", "--limit", "9" * 30],
        ["query", "--limit", "9" * 30],
    ],
)
def test_numbers_beyond_the_database_are_wrong_usage(capsys: pytest.CaptureFixture[str], sqlite_url: str, arguments: list[str]) -> None:
    assert failure(capsys, "--db", sqlite_url, "results", *arguments)[0] == 2


@pytest.mark.parametrize(
    ("columns", "header"),
    [
        ({"run_record": ["5"]}, {"format": "advisor-results", "version": 1}),
        ({"run_record": [7]}, {"format": "advisor-results", "version": 1}),
        ({"params": ["[1]"]}, {"format": "advisor-results", "version": 1}),
        ({"a": [1]}, []),
    ],
)
def test_a_parquet_column_that_is_no_record_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, sqlite_url: str, columns: dict[str, list[object]], header: object
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table(columns).replace_schema_metadata({b"advisor": json.dumps(header).encode()})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert failure(capsys, "--db", sqlite_url, "results", "import", str(tmp_path / "a.parquet"))[0] == 2


def test_a_sheet_that_is_a_loop_of_links_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "a.yaml").symlink_to("a.yaml")
    monkeypatch.setenv("ADVISOR_PROFILE_PATH", str(tmp_path))
    status, line = failure(capsys, "hardware", "list")
    assert status == 2
    assert "a.yaml" in line


def test_a_recorded_machine_cannot_steer_the_terminal_or_stall_the_probe(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, text in {
        "proc/cpuinfo": "processor : 0\nmodel name : \x1b[2Jname\n",
        "tools/amd-smi.json": "[" * 100_000,
        "tools/lspci-nn.txt": "0000:01:00.0 VGA compatible controller [0300]: NVIDIA [10de:2330]\n" * 5000,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert run(["probe", "--root", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2Jname" in out
    assert run(["probe", "--root", str(tmp_path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["devices"]) == 2


def test_the_time_limit_of_sql_holds_where_few_steps_take_long(capsys: pytest.CaptureFixture[str], seeded_file: Path) -> None:
    sql = "SELECT max(hex(randomblob(3000000))) FROM measurements"
    url = f"sqlite:///{seeded_file}"
    status, line = failure(capsys, "--db", url, "results", "query", "--timeout", "0.2", "--sql", sql)
    assert (status, line.split(":")[0]) == (2, "error[SQL-TIME]")


def test_malformed_json_in_sql_is_no_damaged_database(capsys: pytest.CaptureFixture[str], sqlite_url: str) -> None:
    assert failure(capsys, "--db", sqlite_url, "results", "query", "--sql", "SELECT json('{')")[0] == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_file_is_written_whole_or_not_at_all_and_no_device_or_link_is_replaced(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "a.txt", tmp_path / "link.txt", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    os.mkfifo(pipe)

    def fail() -> None:
        with written_whole(target) as part:
            part.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert target.read_text() == "old"
    with written_whole(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    with written_whole(pipe) as part:
        assert part == pipe
    assert sorted(file.name for file in tmp_path.iterdir() if file.name != "advisor-home") == ["a.txt", "link.txt", "pipe"]


def test_a_profile_path_that_is_no_path_is_wrong_usage(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_PROFILE_PATH", "x" * 5000)
    status, line = failure(capsys, "hardware", "list")
    assert status == 2
    assert "BAD-PROFILE-PATH" in line


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs permissions of Unix")
def test_a_home_that_may_not_be_looked_into_is_no_reason_to_fail(tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir()
    # A file in place of the folder is refused to every user, root included; a folder without rights to all others.
    (shut / "file").write_text("")
    shut.chmod(0o600)
    arguments = ["estimate", "--model", "gpt2", "--hardware", "1xa100-sxm4-80gb"]
    for home in (shut / "file" / "advisor", shut / "advisor"):
        environment = os.environ | {"ADVISOR_HOME": str(home), "ADVISOR_DB": f"sqlite:///{tmp_path}/a.db"}
        done = subprocess.run(command(*arguments), capture_output=True, text=True, env=environment, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    shut.chmod(0o700)
