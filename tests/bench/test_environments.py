"""Managed environments: built whole or not at all, one builder at a time, found broken when they are, and measured in."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from advisor.bench import environments
from advisor.bench.environment_build import create as build
from advisor.bench.environment_build import unfinished
from advisor.bench.environments import EnvironmentSpec, base_folder, child_variables, find, python_in, usable_python
from advisor.errors import AdvisorError, EnvironmentLacks, UnknownName, UsageError
from advisor.usecases import env as usecase

ADVISOR = [sys.executable, "-c", "import sys; from advisor.cli.main import main; main(sys.argv[1:])"]
BACKEND = """
from microbench.plugin import Backend, Kernel


class Session:
    def __init__(self, device, threads, options):
        import numpy, toyframework
        self.np, self.version = numpy, toyframework.VERSION

    def build(self, case, inputs):
        a, b = inputs["a"], inputs["b"]
        out = self.np.empty((a.shape[0], b.shape[1]), a.dtype)
        return Kernel(lambda: self.np.matmul(a, b, out=out), lambda: out, lambda: out.fill(self.np.nan))


BACKEND = Backend(
    name="toy", module="toyframework", install="advisor env create toy", environment="toys", requirements=("toyframework",),
    open=Session, dtypes={"gemm": ("fp32",)},
)
"""
BARE = EnvironmentSpec(name="bare", requirements=())


def quiet(text: str) -> None:
    """Say nothing."""


def wheel(folder: Path) -> None:
    """Write a wheel of a framework of one line; it lends the new environment this one's numpy, so that no network is needed."""
    info = "toyframework-1.5.dist-info"
    files = {
        "toyframework.py": "VERSION = '1.5'\n",
        "toyframework.pth": f"{Path(np.__file__).parent.parent}\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: toyframework\nVersion: 1.5\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}"
        for name, text in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(folder / "toyframework-1.5-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the environment ``toys`` under ``home`` and its backend's file ``toy.py``, built once, offline."""
    folder = tmp_path_factory.mktemp("toys")
    (folder / "toy.py").write_text(BACKEND)
    wheel(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADVISOR_HOME", str(folder / "home"))
        patch.setenv("PIP_NO_INDEX", "1")
        (row,) = usecase.create([str(folder / "toy.py")], quiet, find_links=str(folder))["environments"]
    assert (row["name"], row["state"], row["packages"]["toyframework"]) == ("toys", "ready", "1.5")
    return folder


def advisor(*arguments: str, home: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ADVISOR, *arguments], env={**os.environ, "ADVISOR_HOME": str(home)}, capture_output=True, text=True, timeout=120, **options
    )


def test_a_backend_is_measured_in_its_environment_and_the_run_records_what_that_holds(toys, tmp_path):
    shapes = tmp_path / "shapes.json"
    shapes.write_text("[[16, 16, 16]]")
    done = advisor("bench", "gemm", "--backend", str(toys / "toy.py"), "--quick", "--budget", "6", "--shapes", str(shapes), "--json",
                   home=toys / "home")  # fmt: skip
    rows = json.loads(done.stdout)["measurements"]
    assert {row["status"] for row in rows} <= {"ok", "contended"}, (rows, done.stderr)
    assert {(row["backend_version"], row["conditions"]["managed_environment"]) for row in rows} == {("1.5", "toys")}
    query = "SELECT document FROM software_environments"
    found = advisor("results", "query", "--sql", query, "--json", home=toys / "home")
    assert '"toys"' in found.stdout.replace("\\", ""), found.stdout + found.stderr
    assert "toyframework" in found.stdout


def test_without_its_environment_the_backend_is_unsupported_with_the_command(toys, tmp_path):
    done = advisor("bench", "gemm", "--backend", str(toys / "toy.py"), "--quick", "--budget", "5", "--no-save", "--json", home=tmp_path)
    assert done.returncode == 3
    assert {row["status"] for row in json.loads(done.stdout)["measurements"]} == {"unsupported"}
    assert "`advisor env create toy` brings it" in done.stdout


def test_the_list_tells_what_is_ready_broken_and_absent(toys, monkeypatch):
    monkeypatch.setenv("ADVISOR_HOME", str(toys / "home"))
    rows = {row["name"]: row for row in usecase.listing()["environments"]}
    assert (rows["toys"]["state"], rows["toys"]["python_version"]) == ("ready", sys.version.split()[0])
    assert rows["toys"]["size_bytes"] > 1 << 20
    assert rows["tensorflow"]["state"] == "absent"
    assert set(rows["tensorflow"]["backends"]) == {"litert", "tensorflow", "tensorflow-xla"}
    (info,) = (base_folder() / "toys").rglob("toyframework-1.5.dist-info")
    hidden = info.with_name("hidden")
    info.rename(hidden)
    try:
        broken = find("toys")
        assert (broken.state, "toyframework 1.5" in broken.reason) == ("broken", True)
    finally:
        hidden.rename(info)
    assert find("toys").state == "ready"
    assert find("toys", EnvironmentSpec(name="toys", requirements=("toyframework", "other"))).state == "outdated"


def test_what_is_ready_is_not_built_again_and_what_lost_its_python_is(monkeypatch):
    first = build(BARE, quiet)
    assert first.state == "ready"
    assert build(BARE, quiet).created_at == first.created_at
    python_in(first.path).unlink()
    assert find("bare").state == "broken"
    assert usable_python("bare") is None
    assert build(BARE, quiet).state == "ready"
    assert usable_python("bare")


def test_scripts_name_the_place_the_environment_ends_up_in():
    made = build(BARE, quiet)
    script = python_in(made.path).with_name("activate").read_text()
    assert str(made.path) in script
    assert "/.bare." not in script


def test_a_build_that_fails_says_why_and_leaves_nothing(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(EnvironmentLacks, match="no-such-distribution") as failure:
        build(EnvironmentSpec(name="hopeless", requirements=("no-such-distribution-of-ours",)), quiet)
    assert failure.value.code == "PIP-FAILED"
    assert find("hopeless").state == "absent"
    assert unfinished("hopeless") is None


def test_a_builder_that_is_killed_leaves_nothing_that_is_used():
    program = f"from advisor.bench.environment_build import *\ncreate(EnvironmentSpec(name='bare', requirements=()), print)  # {BARE.name}"
    victim = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not unfinished("bare") and victim.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    victim.send_signal(signal.SIGSTOP)
    caught = find("bare").state == "absent"
    if caught:
        assert unfinished("bare") == "building"
        rows = {row["name"]: row["state"] for row in usecase.listing()["environments"]}
        assert "bare" not in rows or rows["bare"] == "building"
    victim.kill()
    victim.wait()
    if caught:
        assert unfinished("bare") == "interrupted"
        assert usable_python("bare") is None
    assert build(BARE, quiet).state == "ready"
    assert unfinished("bare") is None


def test_builders_of_one_name_take_turns_and_the_second_finds_it_done():
    program = (
        "from advisor.bench.environment_build import *\n"
        "said = []\nmade = create(EnvironmentSpec(name='bare', requirements=()), said.append)\n"
        "print(made.state, made.created_at, len([s for s in said if s.startswith('creating')]))"
    )
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=120)[0].split() for process in both]
    assert {tuple(words[:2]) for words in said} == {("ready", said[0][1])}
    assert sum(int(words[2]) for words in said) == 1


def test_remove_and_names_that_are_not_known():
    build(BARE, quiet)
    assert usecase.remove("bare", quiet)["removed"] == "bare"
    assert find("bare").state == "absent"
    with pytest.raises(UnknownName):
        usecase.remove("bare", quiet)
    with pytest.raises(UnknownName, match="tensorfow"):
        usecase.create(["tensorfow"], quiet)
    for name in ("../x", "-x", ""):
        with pytest.raises(AdvisorError):
            usecase.remove(name, quiet)
    with pytest.raises(UsageError, match="states no requirements"):
        usecase.create([str(Path(__file__).with_name("toy.py"))], quiet)


def test_backends_that_name_one_environment_share_it():
    found = environments.specs(
        {
            "backends": {
                "a": {"environment": "e", "requirements": ["x", "numpy"], "modules": ["x"], "impossible": False},
                "b": {"environment": "e", "requirements": ["y", "numpy"], "modules": ["y", "x"], "impossible": True},
                "c": {"environment": None, "requirements": [], "modules": ["c"], "impossible": False},
            }
        }
    )
    (spec,) = found.values()
    assert (spec.requirements, spec.modules, spec.backends, spec.impossible) == (("x", "numpy", "y"), ("x", "y"), ("a", "b"), False)


def test_a_file_in_the_current_folder_does_not_stand_in_for_a_framework(tmp_path):
    (tmp_path / "numpy.py").write_text("raise SystemExit('not numpy')\n")
    (tmp_path / "microbench").mkdir()
    (tmp_path / "microbench" / "__init__.py").write_text("raise SystemExit('not microbench')\n")
    done = subprocess.run(
        [sys.executable, "-m", "microbench", "--catalogue"],
        cwd=tmp_path,
        env=child_variables(None),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "gemm" in json.loads(done.stdout)["benchmarks"]


def test_frameworks_of_managed_environments_have_the_version_they_were_built_with(toys, monkeypatch):
    monkeypatch.setenv("ADVISOR_HOME", str(toys / "home"))
    file = base_folder() / "toys" / environments.MANIFEST
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "packages": {**document["packages"], "Apache_TVM": "0.99", "tensorflow_cpu": "2.98"}}))
    try:
        versions = usecase.managed_versions()
    finally:
        file.write_text(json.dumps(document))
    assert (versions["tvm"], versions["tensorflow"]) == ("0.99", "2.98")
    assert environments.normal({"Apache__TVM.ffi": "1"}) == {"apache-tvm-ffi": "1"}
