"""Build a managed environment whole or not at all, and remove one.

It is built in a hidden folder beside its place and renamed when it is complete, so that what an interrupt, a full disk or a kill leaves is
never taken for an environment; the next build clears it away. A lock of the system's, which ends with the process that holds it, makes
one builder of a name at a time.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from advisor.bench.environments import (
    MANIFEST,
    START_S,
    VERSIONS,
    Environment,
    EnvironmentSpec,
    base_folder,
    child_variables,
    clean_variables,
    find,
    manifest,
    normal,
    python_in,
)
from advisor.errors import EnvironmentLacks
from microbench.child import ChildResult, run_child

CREATE_S, INSTALL_S, CHECK_S = 300.0, 3 * 3600.0, 300.0
#: Taken in the version of our own environment where that has them: numbers compare, and a registry that carries a build of torch for
#: processors alone carries it under certain versions.
SAME = ("torch", "numpy", "onnxruntime", "jax")

Say = Callable[[str], None]

_FOUND = """
import importlib.util, json, sys
print(json.dumps([name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]))
"""


def create(
    spec: EnvironmentSpec,
    say: Say,
    *,
    again: bool = False,
    constraints: Sequence[str] = (),
    pip_options: Sequence[str] = (),
    python: str | None = None,
) -> Environment:
    """Build ``spec`` and return the environment; one that is ready and holds all of it is returned as it is, unless ``again``.

    ``constraints`` are pip constraint files; without one, torch, numpy, onnxruntime and jax come in the versions of our own environment.
    ``pip_options`` go to ``pip install`` as they are; ``python`` is the interpreter to build on. Waits while another process builds the
    same name. EnvironmentLacks says why it could not be built; nothing is left then.
    """
    base_folder().mkdir(parents=True, exist_ok=True)
    with _locked(spec.name, say):
        _clear(spec.name)
        here = find(spec.name, spec)
        if here.state == "ready" and not again and manifest(here.path) is not None:
            return here
        # Others may have asked for more in an environment of this name: that stays.
        spec = replace(spec, requirements=tuple(dict.fromkeys((*spec.requirements, *here.requirements))))
        stage = base_folder() / f".{spec.name}.{uuid.uuid4().hex[:8]}"
        try:
            _make(stage, spec, say, constraints, pip_options, python or sys.executable)
            _settle(stage, here.path)
            if here.path.exists():
                old = base_folder() / f".{spec.name}.{uuid.uuid4().hex[:8]}"
                here.path.rename(old)
            stage.rename(here.path)
        finally:
            _clear(spec.name)
    return find(spec.name, spec)


def remove(name: str, say: Say) -> bool:
    """Remove environment ``name`` and what interrupted builds of it left; tell whether anything was there."""
    folder = base_folder() / name
    if not folder.exists() and not any(_hidden(name)):
        return False
    with _locked(name, say):
        if folder.exists():
            # Out of its place first: half an environment is never found under its name.
            folder.rename(base_folder() / f".{name}.{uuid.uuid4().hex[:8]}")
        _clear(name)
    return True


def unfinished(name: str) -> str | None:
    """Return ``building`` or ``interrupted`` where a hidden folder of ``name`` exists, else None."""
    if not any(_hidden(name)):
        return None
    with contextlib.suppress(BlockingIOError), _lock(base_folder() / f".{name}.lock", wait=False):
        return "interrupted"
    return "building"


def _make(stage: Path, spec: EnvironmentSpec, say: Say, constraints: Sequence[str], options: Sequence[str], python: str) -> None:
    say(f"creating {spec.name}: {', '.join(spec.requirements) or 'nothing to install'}")
    variables = clean_variables()
    bare = () if spec.requirements else ("--without-pip",)
    made = run_child([python, "-m", "venv", *bare, str(stage)], timeout_s=CREATE_S, env=variables)
    if made.status != "ok":
        mend = "install the venv module (Debian: apt install python3-venv), or name another interpreter with --python"
        raise EnvironmentLacks("NO-VENV", f"`{python} -m venv` failed: {_why(made)}", mend)
    own = str(python_in(stage))
    if spec.requirements:
        pins = [] if constraints else _pins(stage)
        files = [part for file in (*constraints, *pins) for part in ("--constraint", file)]
        command = [own, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
        install = [*command, *files, *options, *spec.requirements]
        done = run_child(install, timeout_s=INSTALL_S, env=variables, on_line=lambda line: say(line.strip()[:160]))
        if done.status != "ok":
            raise EnvironmentLacks(
                "PIP-FAILED",
                f"pip could not install {', '.join(spec.requirements)}: {_why(done)}",
                "mend that (network, disk, another interpreter with --python, versions with --constraint FILE) and repeat",
            )
    absent = _ask(own, _FOUND, [*spec.modules, "microbench"], child_variables(own))
    if absent:
        raise EnvironmentLacks(
            "PIP-FAILED", f"what was installed for {spec.name} has no module {', '.join(absent)}", "report it as a defect"
        )
    _write_manifest(stage, spec, constraints)


def _pins(stage: Path) -> list[str]:
    """Write the constraints that keep to the versions of our own environment; return the file's path, nothing where there are none."""
    lines = []
    for name in SAME:
        with contextlib.suppress(PackageNotFoundError):
            lines.append(f"{name}=={version(name).partition('+')[0]}")
    if not lines:
        return []
    file = stage / "constraints.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(file)]


def _write_manifest(stage: Path, spec: EnvironmentSpec, constraints: Sequence[str]) -> None:
    python_version, packages = _ask(str(python_in(stage)), VERSIONS, [], clean_variables())
    document: dict[str, Any] = {
        "name": spec.name,
        "requirements": list(spec.requirements),
        "constraints": [Path(file).read_text(encoding="utf-8") for file in constraints],
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": python_version,
        "packages": normal(packages),
        "size_bytes": sum(path.lstat().st_size for path in stage.rglob("*") if not path.is_dir()),
    }
    (stage / MANIFEST).write_text(json.dumps(document, indent=1), encoding="utf-8")


def _settle(stage: Path, target: Path) -> None:
    """Let the scripts of an environment name the place it is about to have."""
    for file in (stage / "pyvenv.cfg", *python_in(stage).parent.iterdir()):
        if file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 16:
            content = file.read_bytes()
            if os.fsencode(stage) in content and b"\0" not in content:
                file.write_bytes(content.replace(os.fsencode(stage), os.fsencode(target)))


def _ask(python: str, program: str, arguments: Sequence[str], variables: dict[str, str]) -> Any:
    answer = run_child([python, "-c", program, *arguments], timeout_s=max(START_S, CHECK_S), env=variables)
    if answer.status != "ok":
        raise EnvironmentLacks(
            "NO-VENV", f"the new environment's python does not start: {answer.reason}", "see why it does not, and repeat"
        )
    return json.loads(answer.stdout.strip().splitlines()[-1])


def _clear(name: str) -> None:
    """Delete hidden folders of ``name``; the caller holds its lock, so nobody works in them."""
    for path in _hidden(name):
        shutil.rmtree(path, ignore_errors=True)


def _hidden(name: str) -> list[Path]:
    """Return the folders of ``name`` that are being built, or that a build or a removal left."""
    return [path for path in base_folder().glob(f".{name}.*") if path.is_dir()]


@contextlib.contextmanager
def _locked(name: str, say: Say) -> Iterator[None]:
    """Hold the lock of ``name``, waiting for another builder."""
    file = base_folder() / f".{name}.lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_lock(file, wait=False))
        except BlockingIOError:
            say(f"another process is working on {name}; waiting for it")
            stack.enter_context(_lock(file, wait=True))
        yield


@contextlib.contextmanager
def _lock(file: Path, *, wait: bool) -> Iterator[None]:
    """Hold a lock that the system lets go when the process ends; BlockingIOError where it is taken and ``wait`` is false."""
    with open(file, "a+b") as handle:
        if os.name == "nt":
            import msvcrt

            try:
                msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            except OSError as error:
                raise BlockingIOError(*error.args) from error
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _why(child: ChildResult) -> str:
    errors = [line.strip() for line in child.stderr.splitlines() if line.startswith("ERROR:")]
    return (errors[-1].removeprefix("ERROR: ") if errors else child.reason)[:400]
