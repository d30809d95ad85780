"""What a backend and a benchmark are, and how they are found.

A built-in one is a module of ``microbench.backends`` (``microbench.benchmarks``) that binds BACKEND (BENCHMARK); a third-party one
is an entry point in the group of that name, or a Python file given by its path. Importing such a module imports no framework.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from microbench.protocol import Case


class Unsupported(Exception):
    """The backend cannot run this case here; the message says why, and the command that would help where there is one."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One case made ready. ``run`` does one call and returns when the result is there.

    ``result`` returns the output of the latest call as a numpy array, or a tuple of them. ``poison`` overwrites the output
    with NaN where the kernel writes into memory of ours, so that a kernel that writes nothing cannot pass.
    """

    run: Callable[[], Any]
    result: Callable[[], Any]
    poison: Callable[[], None] | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Goes into the conditions: which kernel, flags, preparation seconds."""


class Session(Protocol):
    """A backend that has been opened in this process: framework imported, threads set."""

    version: str

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make ``case`` ready on ``inputs`` (numpy arrays, see the benchmark); raise Unsupported if it cannot run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A framework that kernels are measured through.

    ``open(device, threads, options)`` imports it. ``env(threads)`` gives the variables to set before that. ``dtypes`` and ``variants``
    say by benchmark what to plan by default, the usual variant first (``gemm:int8`` overrides ``gemm`` for one dtype, ``gemm:quick``
    for a quick plan); what is asked for beyond them is answered by the session itself.

    ``needs`` are modules it cannot do without beside ``module``. ``requirements`` are what pip installs into a managed environment for
    it, named ``environment`` (its own name where that is None): backends that name the same one share it. ``impossible()`` says why this
    machine cannot run it whatever is installed, None where nothing speaks against it.
    """

    name: str
    module: str
    install: str
    open: Callable[[str, int, Mapping[str, Any]], Session]
    dtypes: Mapping[str, Sequence[str]]
    variants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    operations: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By benchmark: the operations to plan, where they are not the benchmark's usual ones."""
    env: Callable[[int], Mapping[str, str]] = lambda threads: {}
    devices: Sequence[str] = ("cpu",)
    needs: Sequence[str] = ()
    environment: str | None = None
    requirements: Sequence[str] = ()
    impossible: Callable[[], str | None] = lambda: None

    @property
    def present(self) -> bool:
        """Tell whether it can run here: its modules can be found (they are not imported) and nothing of the machine speaks against it."""
        return self.missing() is None

    def missing(self) -> str | None:
        """Return why it cannot run here, with the command that would bring it where there is one; None where it can."""
        reason = self.impossible()
        if reason is not None:
            return f"{self.name} cannot run here: {reason}"
        absent = [module for module in (self.module, *self.needs) if not _found(module)]
        if not absent:
            return None
        what = (
            f"{self.name} is not installed"
            if absent[0] == self.module
            else f"{self.name} needs {', '.join(absent)}, which is not installed"
        )
        return f"{what}; `{self.install}` brings it"


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


class Problem(Protocol):
    """One case with its inputs, its work and its reference."""

    inputs: Mapping[str, Any]
    work: float
    """What ``value`` counts for one call: FLOPs, bytes, or 1 for seconds."""

    def check(self, result: Any) -> float:
        """Return the largest relative error of ``result``; raise WrongResult when it is over the tolerance."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A kind of measurement. ``cases(plan)`` gives the parameters to measure by default, least work first.

    ``work(params)`` is FLOPs or bytes of one call, for ordering and extrapolation before anything is allocated.
    """

    name: str
    title: str
    metric: str
    unit: str
    cases: Callable[[Mapping[str, Any]], list[dict[str, Any]]]
    work: Callable[[Mapping[str, Any]], float]
    problem: Callable[[Case, int], Problem]
    nominal_rate: float = 1.0
    """Work per second of a small machine, to the order of magnitude: cases are run cheapest first, so that a short budget costs the
    largest sizes of every benchmark and not all of the last one. Enters no result."""
    variant: str | None = None
    """Name of the parameter that tells kernels of one backend apart."""
    shares: float = 1.0
    """Shares of its child's time that a case is given; more than one for what takes long to make ready and to check. Cases that need less
    leave the rest to those behind them."""
    operations: Sequence[str] | None = None
    """The values of ``operation`` that every backend of this benchmark is asked for; the others only where a backend lists them."""
    threads: str = "all"
    """``all``; ``all,one`` for what a quick plan measures on one thread too; ``never-one`` for what takes several. ``sweep`` adds the
    powers of two between to a plan that is not quick."""


def _modules(package: str, attribute: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for info in sorted(pkgutil.iter_modules(importlib.import_module(package).__path__), key=lambda m: m.name):
        if not info.name.startswith("_"):
            part = getattr(importlib.import_module(f"{package}.{info.name}"), attribute, None)
            if part is not None:
                found[part.name] = part
    for entry in importlib.metadata.entry_points(group=package):
        try:
            part = entry.load()
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything; the built-in ones must still work
            print(f"microbench: plug-in {entry.name!r} of {package} could not be loaded: {error}", file=sys.stderr)
        else:
            found[part.name] = part
    return found


def backends() -> dict[str, Backend]:
    """Return every known backend by name."""
    return _modules("microbench.backends", "BACKEND")


def benchmarks() -> dict[str, Benchmark]:
    """Return every known benchmark by name."""
    return _modules("microbench.benchmarks", "BENCHMARK")


def load_backend(name: str) -> Backend:
    """Return the backend called ``name``, or the one in the Python file ``name``; LookupError if there is none."""
    if name.endswith(".py"):
        path = Path(name)
        spec = importlib.util.spec_from_file_location(f"microbench_plugin_{path.stem}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise LookupError(f"no such file: {name}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        backend: Backend | None = getattr(module, "BACKEND", None)
        if backend is None:
            raise LookupError(f"{name} binds no BACKEND")
        return backend
    try:
        return backends()[name]
    except KeyError:
        raise LookupError(f"unknown backend {name!r}") from None
