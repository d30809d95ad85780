"""Which frameworks are installed and what they can use: metadata and a cache in a plain probe, a child for each when asked.

A framework is never imported into the command line: importing one may take seconds, hang or abort. ``python -m advisor.probe.ask NAME``
is the child. Its answer is kept under the framework's name and the fingerprint of its environment (interpreter, versions, devices,
drivers, variables), so that an answer given before a package, a driver or a device changed is not given again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from advisor.frameworks._spec import FrameworkSpec
from advisor.plugins import discover
from advisor.probe.packages import installed_packages, normalize
from advisor.probe.records import Device, Framework
from advisor.probe.root import Root
from advisor.resources import user_data_dir
from microbench.child import ChildResult, python_child, run_child

DEADLINE_S = 60.0
NOT_ASKED = "not queried yet"
ASK_COMMAND = "advisor probe --frameworks"

_MARK = "advisor-framework-answer "
_CACHE_VERSION = 1

#: Distributions whose version decides what any framework can do here; a framework's own come on top.
_RUNTIME_PREFIXES = (
    "nvidia-",
    "rocm",
    "triton",
    "pytorch-triton",
    "intel-",
    "oneccl",
    "mkl",
    "numpy",
    "libtpu",
    "amd",
    "torch",
    "jax",
    "tensorrt",
    "cuda-",
)

#: Variables that change which devices a framework sees.
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION",
    "ZE_AFFINITY_MASK", "ASCEND_RT_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS", "JAX_PLATFORMS", "JAX_PLATFORM_NAME", "PJRT_DEVICE",
    "LD_LIBRARY_PATH", "PYTHONPATH",
)  # fmt: skip


def known_frameworks(
    root: Root, devices: Sequence[Device], *, ask: bool, say: Callable[[str], None] | None = None
) -> tuple[Framework, ...]:
    """Return every framework the project knows, installed or not; ``ask`` queries each installed one in turn and keeps the answers."""
    packages = installed_packages()
    cache = Cache.load()
    found: list[Framework] = []
    for spec in discover("advisor.frameworks", "FRAMEWORK"):
        distribution = installed_as(spec, packages)
        if distribution is None:
            found.append(_absent(spec))
            continue
        version = packages[distribution]
        if spec.query is None:
            found.append(Framework(name=spec.name, version=version, state="unknown", reason="its descriptor has no query"))
            continue
        key = environment_key(spec, packages, devices, root)
        answer = cache.get(spec.name, key)
        if ask:
            if say is not None:
                say(f"asking {spec.title} {version}")
            answer = ask_framework(spec)
            cache.put(spec.name, key, answer)
        found.append(_from_answer(spec, version, answer) if answer is not None else _not_asked(spec, version))
    if ask:
        cache.save()
    return tuple(found)


def installed_as(spec: FrameworkSpec, packages: dict[str, str]) -> str | None:
    """Return the installed distribution that brings the framework, or None."""
    return next((name for name in map(normalize, spec.distributions) if name in packages), None)


def ask_framework(spec: FrameworkSpec, timeout_s: float = DEADLINE_S) -> dict[str, Any]:
    """Ask a framework in a child what it can use: ``{"state", "reason", "version", "build", "targets", "detail"}``."""
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore", "GLOG_minloglevel": "3"}
    return read_answer(run_child(python_child("advisor.probe.ask", spec.name), timeout_s=timeout_s, env=env))


def read_answer(result: ChildResult) -> dict[str, Any]:
    """Return what a child said, or why it said nothing; a framework may print anything around it."""
    for line in reversed(result.stdout.splitlines()):
        if line.startswith(_MARK):
            with contextlib.suppress(ValueError):
                answer = json.loads(line[len(_MARK) :])
                if isinstance(answer, dict) and isinstance(answer.get("state"), str):
                    return answer
    state = {"timeout": "timeout", "crashed": "crashed"}.get(result.status, "crashed")
    return {"state": state, "reason": f"while it was imported and asked: {result.reason}", "targets": []}


def environment_key(spec: FrameworkSpec, packages: dict[str, str], devices: Sequence[Device], root: Root) -> str:
    """Return the fingerprint of all that decides a framework's answer."""
    own = {normalize(name) for name in spec.distributions}
    facts = {
        "cache": _CACHE_VERSION,
        "python": [sys.executable, sys.version],
        "packages": sorted(f"{n}={v}" for n, v in packages.items() if n in own or n.startswith((*_RUNTIME_PREFIXES, spec.name))),
        "devices": sorted(f"{device.target} {device.id} {device.state}" for device in devices),
        "drivers": [
            root.line("/sys/module/nvidia/version"),
            root.line("/sys/module/amdgpu/version"),
            root.line("/proc/sys/kernel/osrelease"),
        ],
        "environ": {name: root.environ.get(name) for name in _VARIABLES},
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


class Cache:
    """The answers, one JSON file in the user's data folder. A file that cannot be read or written costs the cache, nothing else."""

    def __init__(self, path: Path, answers: dict[str, Any]) -> None:
        self.path = path
        self.answers = answers

    @classmethod
    def load(cls) -> Cache:
        """Return the cache of this user; empty where there is none or it is damaged."""
        path = user_data_dir() / "cache" / "frameworks.json"
        try:
            answers = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            answers = {}
        return cls(path, answers if isinstance(answers, dict) else {})

    def get(self, name: str, key: str) -> dict[str, Any] | None:
        """Return the answer of framework ``name`` in the environment ``key``, or None."""
        entry = self.answers.get(name)
        answer = entry.get(key) if isinstance(entry, dict) else None
        return answer if isinstance(answer, dict) and isinstance(answer.get("state"), str) else None

    def put(self, name: str, key: str, answer: dict[str, Any]) -> None:
        """Keep an answer; of older environments the last few stay, since people switch between them."""
        entry = self.answers.get(name)
        kept = [item for item in (entry.items() if isinstance(entry, dict) else ()) if item[0] != key][-7:]
        self.answers[name] = {**dict(kept), key: answer}

    def save(self) -> None:
        """Write the file in one step, so that a reader never sees half of it."""
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(self.answers, indent=1), encoding="utf-8")
            os.replace(temporary, self.path)
        except OSError as error:
            sys.stderr.write(f"warning[CACHE]: the frameworks' answers could not be kept in {self.path}: {error.strerror or error}\n")


def _absent(spec: FrameworkSpec) -> Framework:
    return Framework(name=spec.name, version=None, state="no_library", reason="not installed", fix=spec.install)


def _not_asked(spec: FrameworkSpec, version: str) -> Framework:
    return Framework(name=spec.name, version=version, state="unknown", reason=NOT_ASKED, fix=ASK_COMMAND)


def _from_answer(spec: FrameworkSpec, version: str, answer: dict[str, Any]) -> Framework:
    state = answer["state"]
    targets = answer.get("targets")
    detail = answer.get("detail")
    return Framework(
        name=spec.name,
        version=str(answer.get("version") or version),
        state=state,
        reason=answer.get("reason"),
        targets=tuple(str(target) for target in targets) if isinstance(targets, list) else (),
        build=answer.get("build"),
        fix=None if state == "usable" else spec.install,
        details=detail if isinstance(detail, dict) else {},
    )


def answer_of(spec: FrameworkSpec) -> dict[str, Any]:
    """Run a framework's query in this process and turn what it raises into a state; only the child calls this."""
    try:
        if spec.query is None:
            raise RuntimeError("its descriptor has no query")
        return {"state": "usable", "reason": None, **spec.query()}
    except ImportError as error:
        # A missing symbol or a version it refuses is two libraries that do not fit; a missing file is a library that is not there.
        text = str(error)
        mismatch = any(
            word in text for word in ("undefined symbol", "version `", "numpy", "incompatible", "cannot import name", "DLL load failed")
        )
        return {"state": "version_mismatch" if mismatch else "no_library", "reason": text[:300], "targets": []}
    except Exception as error:  # noqa: BLE001 - foreign code; whatever it raises is the reason
        return {"state": "crashed", "reason": f"{type(error).__name__}: {error}"[:300], "targets": []}


def main(name: str) -> None:
    """Answer for one framework on standard output; what it prints itself goes to standard error."""
    spec = next(spec for spec in discover("advisor.frameworks", "FRAMEWORK") if spec.name == name)
    with contextlib.redirect_stdout(io.TextIOWrapper(sys.stderr.buffer, write_through=True)):
        answer = answer_of(spec)
    sys.stdout.write(f"\n{_MARK}{json.dumps(answer, default=str)}\n")
    sys.stdout.flush()
    # Some runtimes abort or hang while they are torn down; the answer is out.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
