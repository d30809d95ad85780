"""A stub NVML compiled by the tests, and folders that stand for machines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.probe.root import Root

HERE = Path(__file__).parent
# Test modules share accelerator_machines.py; under importlib mode their own folder is not on the path.
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))
Stub = Callable[..., dict[str, str]]


@pytest.fixture(scope="session")
def compile_stub(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that compiles the stub with switches, once a set of them."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or os.name != "posix":
        pytest.skip("no C compiler here")
    made: dict[tuple[str, ...], Path] = {}

    def build(*switches: str) -> Path:
        if switches not in made:
            folder = tmp_path_factory.mktemp("nvml")
            command = [
                compiler,
                "-std=gnu11",
                "-O1",
                "-shared",
                "-fPIC",
                "-Wl,-soname,libnvidia-ml.so.1",
                *(f"-D{name}" for name in switches),
            ]
            subprocess.run([*command, "-o", str(folder / "libnvidia-ml.so.1"), str(HERE / "fakenvml.c")], check=True)
            made[switches] = folder
        return made[switches]

    return build


@pytest.fixture
def stub(compile_stub: Callable[..., Path], tmp_path: Path) -> Stub:
    """Return a function from config lines to the environment in which the real binding loads the stub."""

    def prepare(*lines: str, switches: tuple[str, ...] = ()) -> dict[str, str]:
        config = tmp_path / "nvml.cfg"
        config.write_text("\n".join(lines) + "\n")
        return {**os.environ, "LD_LIBRARY_PATH": str(compile_stub(*switches)), "FAKE_NVML_CONFIG": str(config)}

    return prepare


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[dict[str, str]], Root]:
    """Return a function that writes a recorded machine: path to content; ``-> target`` makes a link, a trailing / a folder."""

    def build(files: dict[str, str]) -> Root:
        base = tmp_path / "root"
        base.mkdir(exist_ok=True)
        for name, content in files.items():
            path = base / name.strip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                path.mkdir(exist_ok=True)
            elif content.startswith("-> "):
                path.symlink_to(content[3:])
            else:
                path.write_text(content)
        return Root(base)

    return build
