"""Build an environment: whole or not at all, so that one that was interrupted is begun anew."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.claims.environments import Environment, folder, interpreter
from advisor.claims.records import Say
from advisor.probe.packages import installed_packages
from microbench.child import ChildResult, run_child

#: Creating an empty one, and installing into it.
CREATE_S, INSTALL_S, CHECK_S = 300.0, 3600.0, 300.0
#: Frameworks that an environment takes in the version of this interpreter, so that numbers compare.
SAME = ("torch", "numpy", "onnxruntime")

_CHECK = """
import importlib, json, sys
missing = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        missing[name] = f"{type(error).__name__}: {error}"
print(json.dumps(missing))
"""


def build(environment: Environment, say: Say) -> dict[str, Any]:
    """Build ``environment`` unless it is there; return ``name``, ``state`` (present, built, failed), ``reason`` and ``seconds``."""
    start = time.monotonic()
    own = folder(environment.name)
    if interpreter(environment.name) is not None:
        return _row(environment, "present", None, start)
    say(f"building the environment {environment.name}: {', '.join(environment.packages)}")
    part = own.with_name(f".{environment.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    reason = _made(part, environment)
    if reason is not None:
        shutil.rmtree(part, ignore_errors=True)
        return _row(environment, "failed", reason, start)
    shutil.rmtree(own, ignore_errors=True)
    part.rename(own)
    return _row(environment, "built", None, start)


def missing_row(environment: Environment) -> dict[str, Any]:
    """Return the row of an environment that is not built."""
    return _row(environment, "missing", None, time.monotonic())


def _made(part: Path, environment: Environment) -> str | None:
    """Create, install, import; return why it failed, or None."""
    created = run_child([sys.executable, "-m", "venv", str(part)], timeout_s=CREATE_S)
    if created.status != "ok":
        return f"python -m venv: {created.reason}"
    python = str(part / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    here = installed_packages()
    wanted = [f"{name}=={here[name].split('+')[0]}" if name in SAME and name in here else name for name in environment.packages]
    installed = run_child(
        [python, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check", *wanted], timeout_s=INSTALL_S, env=_clean()
    )
    if installed.status != "ok":
        return f"pip install: {_error(installed)}"
    checked = run_child([python, "-c", _CHECK, *environment.modules], timeout_s=CHECK_S)
    if checked.status != "ok":
        return f"importing its modules: {checked.reason}"
    missing = json.loads(checked.stdout.strip().splitlines()[-1])
    return "; ".join(f"{name}: {why}"[:200] for name, why in missing.items()) or None


def _clean() -> Mapping[str, str]:
    """Return this process's variables without those that would lead pip or Python to another place."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET")}


def _error(child: ChildResult) -> str:
    errors = [line.strip() for line in child.stderr.splitlines() if line.startswith("ERROR:")]
    return (errors[-1] if errors else child.reason)[:300]


def _row(environment: Environment, state: str, reason: str | None, start: float) -> dict[str, Any]:
    return {
        "name": environment.name,
        "state": state,
        "reason": reason,
        "for": environment.purpose,
        "packages": list(environment.packages),
        "seconds": time.monotonic() - start,
    }
