"""Managed environments: where they lie, what state each is in, and how a child of ours runs in one.

``<data folder>/environments/NAME`` is a virtual environment that was built whole (see ``environment_build``), with a manifest beside its
packages: what was asked for and what was installed. Hidden folders next to it are being built, or what an interrupted build left.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from advisor.resources import user_data_dir
from microbench.child import run_child

MANIFEST = "environment.json"
#: Starting an interpreter takes some tens of milliseconds; on a machine that swaps, seconds.
START_S = 30.0
#: Variables that would lead Python or pip to another place than the environment.
LEADING = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")

State = Literal["ready", "outdated", "broken", "building", "interrupted", "absent"]

#: Prints the version of Python and of every distribution.
VERSIONS = """
import json, platform
from importlib.metadata import distributions
print(json.dumps([platform.python_version(), {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSpec:
    """What an environment is to hold: requirement lines for pip, and the modules that must then be found. ``backends`` run in it."""

    name: str
    requirements: tuple[str, ...]
    modules: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    impossible: bool = False
    """Nothing that is installed would let its backends run on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment as it is found: its state with the reason, and what it holds. ``packages`` maps distributions to versions."""

    name: str
    state: State
    path: Path
    reason: str | None = None
    python: str | None = None
    python_version: str | None = None
    size_bytes: int | None = None
    created_at: str | None = None
    requirements: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON holds it."""
        return {**asdict(self), "path": str(self.path)}


def specs(catalogue: Mapping[str, Any]) -> dict[str, EnvironmentSpec]:
    """Return the environments that the backends of a catalogue ask for, by name; backends that name the same one share it."""
    rows: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for label, backend in catalogue["backends"].items():
        if backend.get("environment"):
            rows.setdefault(backend["environment"], []).append((label, backend))
    return {
        name: EnvironmentSpec(
            name=name,
            requirements=_each(line for _, backend in members for line in backend["requirements"]),
            modules=_each(module for _, backend in members for module in backend["modules"]),
            backends=tuple(label for label, _ in members),
            impossible=all(backend["impossible"] for _, backend in members),
        )
        for name, members in sorted(rows.items())
    }


def _each(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def base_folder() -> Path:
    """Return the folder of all environments (it need not exist)."""
    return user_data_dir() / "environments"


def python_in(folder: Path) -> Path:
    """Return the interpreter of the virtual environment in ``folder``."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def manifest(folder: Path) -> dict[str, Any] | None:
    """Return what was written when the environment was complete, or None."""
    try:
        document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("packages"), dict):
        return None
    return {**document, "packages": normal(document["packages"])}


def normal(packages: Mapping[str, str]) -> dict[str, str]:
    """Return versions by the normal form of each distribution's name (PEP 503): small letters, runs of ``-_.`` as one ``-``."""
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in packages.items()}


def find(name: str, spec: EnvironmentSpec | None = None) -> Environment:
    """Return the environment ``name`` as it is now; ``spec`` is what its backends ask for today.

    Its interpreter is started and asked for its packages: one whose Python is gone, or whose packages are, is ``broken``.
    """
    folder = base_folder() / name
    python = python_in(folder)
    if not folder.is_dir():
        return Environment(name=name, state="absent", path=folder, reason="it was never created, or removed")
    made = manifest(folder) or {}
    known: dict[str, Any] = {
        "name": name,
        "path": folder,
        "size_bytes": made.get("size_bytes"),
        "created_at": made.get("created_at"),
        "requirements": tuple(made.get("requirements") or ()),
    }
    answer = run_child([str(python), "-c", VERSIONS], timeout_s=START_S, env=clean_variables())
    if answer.status != "ok":
        return Environment(state="broken", reason=f"its python does not start: {answer.reason}", python=str(python), **known)
    version, found = json.loads(answer.stdout.strip().splitlines()[-1])
    packages = normal(found)
    known |= {"python": str(python), "python_version": version, "packages": packages}
    gone = [f"{package} {was}" for package, was in (made.get("packages") or {}).items() if packages.get(package) != was]
    if gone:
        return Environment(state="broken", reason=f"not as it was built: {', '.join(gone[:5])} changed or gone", **known)
    lacking = [line for line in spec.requirements if line not in known["requirements"]] if spec and made else []
    if lacking:
        return Environment(state="outdated", reason=f"built without {', '.join(lacking)}", **known)
    return Environment(state="ready", **known)


def usable_python(name: str) -> str | None:
    """Return the interpreter of environment ``name`` where it was built whole and is still there; it is not started."""
    folder = base_folder() / name
    python = python_in(folder)
    return str(python) if python.is_file() and os.access(python, os.X_OK) else None


def clean_variables() -> dict[str, str]:
    """Return this process's variables without those that lead Python or pip elsewhere."""
    return {name: value for name, value in os.environ.items() if name not in LEADING}


def child_variables(python: str | None) -> dict[str, str]:
    """Return the variables of a child under ``python`` (None: our own interpreter), which finds our own two packages and no others.

    The current folder is kept off the path: a ``torch.py`` that lies there is not the framework. Children of the child inherit all of it.
    """
    bridge = str(Path(__file__).parent / "bridge")
    paths = [bridge]
    if python is None:
        paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != bridge]
        variables = dict(os.environ)
    else:
        variables = {**clean_variables(), "PYTHONNOUSERSITE": "1"}
    return {
        **variables,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",
        "MICROBENCH_FOLDER": str(package_folder("microbench")),
        "ADVISOR_FOLDER": str(package_folder("advisor")),
    }


def package_folder(name: str) -> Path:
    """Return the folder of the package ``name`` of this product."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {name} is not there", name=name)
    return Path(next(iter(found.submodule_search_locations))).resolve()
