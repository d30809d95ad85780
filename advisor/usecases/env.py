"""Managed environments: create, list and remove them, and tell which interpreter measures which backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.bench.environments import Environment, EnvironmentSpec
from advisor.errors import AdvisorError, EnvironmentLacks, UnknownName, UsageError

SCHEMA_VERSION = 1
LISTING = "advisor env list"

Say = Callable[[str], None]
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,60}")


def create(
    names: Sequence[str],
    say: Say,
    *,
    again: bool = False,
    constraints: Sequence[str] = (),
    index_url: str | None = None,
    find_links: str | None = None,
    python: str | None = None,
) -> dict[str, Any]:
    """Create the environments ``names`` (of an environment, a backend, or a backend's file) and return their document.

    ``constraints`` are pip constraint files. Raises UnknownName, UsageError, or EnvironmentLacks where one could not be built; those
    before it are kept.
    """
    from advisor.bench.environment_build import create as build

    wanted = [_spec(name) for name in names]
    for file in constraints:
        if not Path(file).is_file():
            raise UsageError(f"no such file: {file}", "give a pip constraints file", code="CANNOT-READ")
    options = [part for flag, value in (("--extra-index-url", index_url), ("--find-links", find_links)) if value for part in (flag, value)]
    made = []
    for spec in dict.fromkeys(wanted):
        if spec.impossible:
            raise EnvironmentLacks("NO-DEVICE", _missing(spec), LISTING)
        made.append(build(spec, say, again=again, constraints=constraints, pip_options=options, python=python))
    return {"schema_version": SCHEMA_VERSION, "environments": [environment.to_dict() for environment in made]}


def listing() -> dict[str, Any]:
    """Return every environment that is there or could be created: state, size, python, versions, and what would create it."""
    from advisor.bench.environment_build import unfinished
    from advisor.bench.environments import base_folder, find

    known = _specs(())
    folder = base_folder()
    there = {path.name for path in folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)} if folder.is_dir() else set()
    rows = []
    for name in sorted({*known, *there}):
        spec = known.get(name)
        found = find(name, spec)
        row = {**found.to_dict(), "backends": list(spec.backends) if spec else [], "command": f"advisor env create {name}"}
        state = unfinished(name) if found.state == "absent" else None
        if state is not None:
            row |= {"state": state, "reason": "a process is at it" if state == "building" else "its creation was interrupted"}
        if found.state == "absent" and spec is not None:
            row["requirements"] = spec.requirements
            if spec.impossible:
                row |= {"state": "impossible", "reason": _missing(spec), "command": None}
        rows.append(row)
    return {"schema_version": SCHEMA_VERSION, "folder": str(folder), "environments": rows}


def remove(name: str, say: Say) -> dict[str, Any]:
    """Remove environment ``name`` and what an interrupted creation left of it; UnknownName if there is nothing."""
    from advisor.bench.environment_build import remove as delete

    _check_name(name)
    if not delete(name, say):
        rows = listing()["environments"]
        raise UnknownName("environment", name, [row["name"] for row in rows if row["state"] not in ("absent", "impossible")], LISTING)
    return {"schema_version": SCHEMA_VERSION, "removed": name}


def interpreters(catalogue: Mapping[str, Any], named: Sequence[str] | None) -> dict[str, str]:
    """Return the interpreter of each backend that our own environment lacks and a managed one has; ``named`` None means all backends."""
    from advisor.bench.environments import base_folder, usable_python

    if not base_folder().is_dir():
        return {}
    found: dict[str, str] = {}
    files = [name for name in named or () if name.endswith(".py")]
    known = {**catalogue["backends"], **{file: described for file in files if (described := _described(file))}}
    for label in named if named is not None else known:
        backend = known.get(label) or {}
        name = backend.get("environment")
        if name and not backend["present"] and not backend["impossible"] and (python := usable_python(name)):
            found[label] = python
    return found


def software_of(pythons: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return python and packages of each managed environment that measures something, by name."""
    from advisor.bench.environments import find

    names = sorted({Path(python).parent.parent.name for python in pythons.values()})
    return {name: {"python": found.python_version, "packages": dict(found.packages)} for name in names for found in (find(name),)}


def managed_versions() -> dict[str, str]:
    """Return the version of each framework that a managed environment was built with, under the name of its backend; starts nothing."""
    from advisor.bench.environments import base_folder, manifest
    from advisor.frameworks import all_frameworks

    folder, found = base_folder(), {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        packages = (manifest(path) or {}).get("packages") or {}
        for spec in all_frameworks() if packages else ():
            version = next((packages[name] for name in spec.distributions if name in packages), None)
            # An environment that is named after the framework is where its backend runs; elsewhere it only came along.
            if version and (path.name == spec.name or spec.name not in found):
                found[spec.bench_backend or spec.name] = version
    return found


def _specs(files: Sequence[str]) -> dict[str, EnvironmentSpec]:
    from advisor.bench.children import ask
    from advisor.bench.environments import specs

    return specs(ask("--catalogue", *files))


def _spec(name: str) -> EnvironmentSpec:
    """Return the environment called ``name``, or the one of the backend of that name or in that file."""
    if name.endswith(".py") and not Path(name).is_file():
        raise UsageError(f"no such file: {name}", "give the file of a backend, or a name", code="CANNOT-READ")
    known = _specs((name,) if name.endswith(".py") else ())
    spec = known.get(name) or next((spec for spec in known.values() if name in spec.backends), None)
    if spec is None and name.endswith(".py"):
        raise UsageError(
            f"{name} states no requirements, so it needs no environment of its own", "docs/how-to-add-a-backend.md", code="NO-ENV"
        )
    if spec is None:
        raise UnknownName("environment", name, [*known, *(label for spec in known.values() for label in spec.backends)], LISTING)
    _check_name(spec.name)
    return spec


def _described(file: str) -> dict[str, Any] | None:
    """Return what a backend's file says of itself; None where it cannot be loaded, which the measuring child will report."""
    from advisor.bench.children import ask

    try:
        backend: dict[str, Any] = ask("--catalogue", file)["backends"][file]
    except (AdvisorError, KeyError):
        return None
    return backend


def _missing(spec: EnvironmentSpec) -> str:
    from advisor.bench.children import ask

    files = [label for label in spec.backends if label.endswith(".py")]
    backends = ask("--catalogue", *files)["backends"]
    return "; ".join(str(backends[label]["missing"]) for label in spec.backends)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of an environment", "small letters, digits, - and _", code="BAD-NAME")


__all__ = ["Environment", "create", "interpreters", "listing", "managed_versions", "remove", "software_of"]
