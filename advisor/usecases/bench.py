"""Measure what this machine really does, and compare measurements. ``bench`` runs and stores; ``compare`` reads back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from advisor.bench.records import BenchSpec, Progress
from advisor.errors import UnknownName, UsageError
from microbench.protocol import Measurement

SCHEMA_VERSION = 1
#: Of the memory that is available a child may take this part: what it takes beyond is its own failure, not the machine's.
MEMORY_SHARE = 0.9
MIN_BUDGET_S = 5.0


def catalogue() -> dict[str, Any]:
    """Return what can be measured here: benchmarks and backends, present or with the command that brings them."""
    from advisor.bench.children import ask
    from advisor.bench.environments import usable_python

    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, **ask("--catalogue")}
    for backend in document["backends"].values():
        name = backend["environment"]
        backend["managed"] = name if name and not backend["present"] and usable_python(name) else None
    return document


def bench(
    benchmarks: Sequence[str] = (),
    *,
    backends: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    device: str | None = None,
    shapes: str | None = None,
    networks: Sequence[Mapping[str, Any]] | None = None,
    quick: bool = False,
    budget_s: float | None = None,
    save: bool = True,
    database_url: str | None = None,
    command: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    on_measurement: Callable[[Measurement], None] | None = None,
) -> list[Measurement]:
    """Measure and return the measurements; with ``save`` each is in the database at ``database_url`` before the next is reported.

    ``benchmarks``: names, or ``all``; none means GEMM, attention and bandwidth. ``device``: an id of the probe, by default the first
    usable accelerator, else the CPU. ``shapes``: ``model:NAME`` or a file; ``networks``: cases of the model benchmark.
    Raises UnknownName, UsageError, EnvironmentLacks or DatabaseError.
    """
    from advisor.bench.run import run_bench
    from advisor.usecases.devices import device_to_measure
    from advisor.usecases.env import interpreters
    from advisor.usecases.probe import probe

    known = catalogue()
    machine = probe(save=False)
    device_id, framework_device = device_to_measure(machine, device)
    named = _backends(backends, known)
    pythons = interpreters(known, named)
    spec = BenchSpec(
        benchmarks=_benchmarks(benchmarks, known),
        backends=named,
        interpreters=pythons,
        elsewhere=tuple(pythons),
        dtypes=_dtypes(dtypes),
        device=framework_device,
        device_id=device_id,
        driver=next((d.details.get("driver_version") for d in machine.devices if d.id == device_id), None),
        threads=_threads(machine),
        shapes=_shapes(shapes, quick),
        networks=None if networks is None else tuple(networks),
        quick=quick,
        budget_s=_budget(budget_s),
        memory_limit_bytes=_memory_limit(machine) if framework_device == "cpu" else None,
    )
    with ExitStack() as stack:
        keep = on_measurement
        if save:
            store, run_id = _begin(stack, machine, spec, database_url, command)

            def keep(measurement: Measurement) -> None:
                store.add_measurement(run_id, measurement.to_dict())
                if on_measurement is not None:
                    on_measurement(measurement)

        result = run_bench(spec, keep, on_progress)
        if save:
            store.finish_run(run_id)
    return result


def document(measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Return the document of ``advisor bench --json``; the samples themselves stay in the database."""
    rows = []
    for measurement in measurements:
        row = measurement.to_dict()
        del row["sample_seconds"]
        rows.append(row)
    return {"schema_version": SCHEMA_VERSION, "measurements": rows}


def compare(a: str, b: str, *, database_url: str) -> dict[str, Any]:
    """Return the comparison of two runs or two machines, by id or the beginning of one; UnknownName if nothing was measured there."""
    from advisor.bench.compare import compare as compare_sets
    from advisor.bench.compare import left_out
    from advisor.results.store import Store

    with Store.open(database_url) as store:
        sets = [store.measurements(run=name) or store.measurements(machine=name) for name in (a, b)]
        if not all(sets):
            missing = a if not sets[0] else b
            recent = store.query("SELECT id FROM runs WHERE kind = 'bench' ORDER BY started_at DESC", limit=50)[1]
            raise UnknownName("run", missing, [str(row[0]) for row in recent], "advisor results list")
    rows = compare_sets(*sets)
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in ("same", "faster", "slower")}
    return {
        "schema_version": SCHEMA_VERSION,
        "a": a,
        "b": b,
        "verdicts": counts,
        "left_out": left_out(*sets),
        "comparisons": [row.to_dict() for row in rows],
    }


def _begin(stack: ExitStack, machine: Any, spec: BenchSpec, database_url: str | None, command: str | None) -> tuple[Any, str]:
    from importlib.metadata import PackageNotFoundError, version

    from advisor.results.store import Store
    from advisor.settings import load_settings
    from advisor.usecases.env import software_of

    software: dict[str, Any] = {"python": sys.version.split()[0], "os": machine.host.os, "kernel": machine.host.kernel}
    for name in ("numpy", "torch", "jax", "onnxruntime", "openvino", "tensorflow"):
        try:
            software[name] = version(name)
        except PackageNotFoundError:
            continue
    managed = software_of(spec.interpreters)
    if managed:
        software["environments"] = managed
    store = stack.enter_context(Store.open(load_settings(database_url).database_url))
    machine_id = store.save_machine(machine.to_dict())
    settings = {**spec.plan_document(), "rounds": spec.round_count, "budget_s": spec.total_s}
    return store, store.start_run(kind="bench", machine_id=machine_id, software=software, command=command, settings=settings)


def _benchmarks(names: Sequence[str], known: dict[str, Any]) -> tuple[str, ...]:
    if not names:
        return ("gemm", "attention", "bandwidth")
    if "all" in names:
        return tuple(known["benchmarks"])
    for name in names:
        if name not in known["benchmarks"]:
            raise UnknownName("benchmark", name, [*known["benchmarks"], "all", "compare"], "advisor bench --list")
    return tuple(dict.fromkeys(names))


def _backends(names: Sequence[str] | None, known: dict[str, Any]) -> tuple[str, ...] | None:
    if names is None:
        return None
    for name in names:
        if name.endswith(".py"):
            if not Path(name).is_file():
                raise UsageError(f"no such file: {name}", "give the file of a backend, or a name", code="CANNOT-READ")
        elif name not in known["backends"]:
            raise UnknownName("backend", name, known["backends"], "advisor bench --list")
    if not names:
        raise UsageError("no backend is named", "`advisor bench --list` shows them")
    return tuple(dict.fromkeys(names))


def _dtypes(names: Sequence[str] | None) -> tuple[str, ...] | None:
    from advisor.units import DTYPE_BITS

    if names is None:
        return None
    for name in names:
        if name not in DTYPE_BITS:
            raise UnknownName("dtype", name, DTYPE_BITS)
    return tuple(dict.fromkeys(names)) or None


def _shapes(text: str | None, quick: bool) -> tuple[tuple[int, int, int], ...] | None:
    from advisor.bench.shapes import read_shapes, shapes_of

    if text is None:
        return None
    if text.startswith("model:"):
        from advisor.model.registry import model

        found = shapes_of(model(text.removeprefix("model:")), quick=quick)
        if not found:
            raise UsageError(f"{text} has no matrix products that fit here", code="BAD-SHAPES")
        return found
    return read_shapes(Path(text))


def _budget(seconds: float | None) -> float | None:
    if seconds is not None and not MIN_BUDGET_S <= seconds < 1e6:
        raise UsageError(f"a budget of {seconds:g} s measures nothing", f"give at least {MIN_BUDGET_S:g} seconds", code="BAD-BUDGET")
    return seconds


def _threads(machine: Any) -> int | None:
    usable = machine.host.cpu.usable_cpus
    return max(1, int(usable)) if usable else None


def _memory_limit(machine: Any) -> int | None:
    available = machine.host.memory.available_bytes or machine.host.memory.usable_bytes
    return int(available * MEMORY_SHARE) if available else None


__all__ = ["bench", "catalogue", "compare", "document"]
