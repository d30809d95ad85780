"""The pages in a real browser: served over the network, drawn without console errors, readable on a phone."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")
#: The command, whether or not its script is on the search path.
ADVISOR = (sys.executable, "-c", "from advisor.cli.main import main; main()")
CHROMIUM = "/usr/bin/chromium"
PATHS = (
    "/",
    "/devices/a100-sxm4-80gb",
    "/compare",
    "/measurements",
    "/recommend?model=bert-base&hardware=1xt4&task=infer&global_batch=8&seq=128",
)


@pytest.fixture(scope="module")
def address(seeded_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the real command on a free port; yield its address."""
    path = tmp_path_factory.mktemp("served") / "results.db"
    shutil.copy(seeded_file, path)
    command = [*ADVISOR, "--db", f"sqlite:///{path}", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found, line
            yield found[0]
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


def browse(address: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000", *options, address,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Debian's chromium is not installed")
@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_drawn_without_console_errors(address: str, path: str, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    done = browse(address + path, tmp_path, "--window-size=390,1200", f"--screenshot={picture}")
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    assert console == []
    assert picture.stat().st_size > 10_000
    loaded = browse(address + path, tmp_path, "--dump-dom").stdout
    assert "<main" in loaded
    assert "<h1" in loaded


def test_the_server_ends_cleanly_and_says_where_it_is(seeded_file: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from advisor.cli.main import main; main()",
        "--db",
        f"sqlite:///{tmp_path / 'new.db'}",
        "serve",
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        assert "serving" in server.stderr.readline()
        server.send_signal(signal.SIGINT)
        out, error = server.communicate(timeout=30)
    assert "Traceback" not in out + error
    assert server.returncode in (0, 130)
