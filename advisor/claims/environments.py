"""Environments that experiments run in: what each holds, where it is, and what is installed there.

An environment of its own keeps frameworks apart that cannot, or should not, share an interpreter. Where every module that an environment
stands for is importable here, this interpreter serves.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from advisor.claims.records import Claim
from advisor.errors import UnknownName

SHEET = Path(__file__).parent / "environments.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A managed environment: distributions to install, modules that must be importable there, and what it is for."""

    name: str
    packages: tuple[str, ...]
    modules: tuple[str, ...]
    purpose: str


@cache
def environments() -> Mapping[str, Environment]:
    """Return every environment by name."""
    from advisor.yamlio import read_yaml

    return {
        name: Environment(name=name, packages=tuple(sheet["packages"]), modules=tuple(sheet["modules"]), purpose=sheet["for"])
        for name, sheet in read_yaml(SHEET).items()
    }


def environment(name: str) -> Environment:
    """Return the environment ``name``; UnknownName if there is none."""
    known = environments()
    if name not in known:
        raise UnknownName("environment", name, known, "advisor claims prepare --json")
    return known[name]


def environments_of(claim: Claim) -> tuple[str, ...]:
    """Return the environments that a claim's tests name, each once."""
    found: list[str] = []
    for test in claim.tests:
        sides: list[Any] = [test.parameters, *(test.parameters.get(name) for name in ("a", "b"))]
        found += [str(side["environment"]) for side in sides if isinstance(side, Mapping) and side.get("environment")]
    return tuple(dict.fromkeys(found))


def interpreter(name: str) -> str | None:
    """Return the Python that runs the experiments of environment ``name``: its own, this one where it has every module, else None."""
    from advisor.bench.environments import usable_python

    own = usable_python(environment(name).name)
    if own is not None:
        return own
    return sys.executable if all(_importable(module) for module in environment(name).modules) else None


def spec_of(name: str, backends: Mapping[str, Any]) -> Any:
    """Return what environment ``name`` is built from: what claims need, and what the backends that run in it ask for.

    ``backends`` are the specifications of ``advisor.bench.environments.specs``.
    """
    from advisor.bench.environments import EnvironmentSpec

    own, other = environment(name), backends.get(name)
    return EnvironmentSpec(
        name=name,
        requirements=tuple(dict.fromkeys((*(other.requirements if other else ()), *own.packages))),
        modules=tuple(dict.fromkeys((*(other.modules if other else ()), *own.modules))),
        backends=other.backends if other else (),
    )


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def lacks(name: str) -> str:
    """Return the sentence that says how to get environment ``name``."""
    return f"the environment {name} ({', '.join(environment(name).packages)}) is not built: `advisor claims prepare --only {name}`"


def installed_in(name: str) -> dict[str, str]:
    """Return the versions of what is installed in environment ``name``; nothing where it is not built."""
    from advisor.bench.environments import base_folder
    from advisor.probe.packages import packages_on

    folder = base_folder() / name
    places = [*folder.glob("lib/python*/site-packages"), folder / "Lib" / "site-packages"]
    return packages_on(tuple(str(place) for place in places if place.is_dir()))
