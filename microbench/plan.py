"""From what is wanted to Requests: which backend runs which cases with how many threads.

A specification is a JSON object::

    {"benchmarks": ["gemm"], "backends": ["torch"], "dtypes": null, "shapes": null, "quick": false, "threads": 2, "device": "cpu",
     "networks": null, "elsewhere": []}

``backends`` and ``dtypes`` null: all that are present here or, by name, ``elsewhere`` (in an environment of their own), all that each
backend supports. ``shapes`` (lists of m, n, k) replaces the default GEMM shapes; ``networks`` (see the model benchmark) the default
networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from microbench import conditions
from microbench.plugin import Backend, Benchmark, backends, benchmarks, load_backend
from microbench.protocol import Case, Request


def catalogue(files: Sequence[str] = ()) -> dict[str, Any]:
    """Return what can be measured here: benchmarks, and backends with their presence, dtypes and the command that brings them.

    ``files`` are Python files that bind a backend each; they are listed under their path. LookupError where one binds none.
    """
    known = {**backends(), **{file: load_backend(file) for file in files}}
    return {
        "benchmarks": {b.name: {"title": b.title, "metric": b.metric, "unit": b.unit} for b in benchmarks().values()},
        "backends": {
            label: {
                "present": b.present,
                "missing": b.missing(),
                "impossible": b.impossible() is not None,
                "install": b.install,
                "environment": (b.environment or b.name) if b.requirements else None,
                "requirements": list(b.requirements),
                "modules": [b.module, *b.needs],
                "devices": list(b.devices),
                "dtypes": {name: list(kinds) for name, kinds in b.dtypes.items()},
            }
            for label, b in known.items()
        },
    }


def requests(specification: Mapping[str, Any]) -> list[Request]:
    """Return one Request for each (backend, thread setting), cases cheapest first, those of one shape together.

    LookupError names an unknown benchmark or backend.
    """
    known = benchmarks()
    wanted = list(specification.get("benchmarks") or known)
    for name in wanted:
        if name not in known:
            raise LookupError(f"unknown benchmark {name!r}")
    names, elsewhere = specification.get("backends"), specification.get("elsewhere") or ()
    chosen = [load_backend(n) for n in names] if names else [b for b in backends().values() if b.present or b.name in elsewhere]
    labels = list(names) if names else [b.name for b in chosen]
    facts = {"caches": conditions.cache_bytes(), "memory_bytes": conditions.available_memory_bytes(), **specification}
    facts["threads"] = specification.get("threads") or conditions.cpus_in_use()
    threads = int(facts["threads"])
    result = []
    for label, backend in zip(labels, chosen, strict=True):
        for count in thread_counts(threads, quick=bool(facts.get("quick"))):
            cases = [
                case
                for name in wanted
                if _measured_with(known[name].threads.split(","), count, threads, quick=bool(facts.get("quick")))
                for case in _cases(known[name], backend, facts)
            ]
            cases.sort(key=lambda case: known[case.benchmark].work(case.params) / known[case.benchmark].nominal_rate)
            if cases:
                result.append(
                    Request(
                        backend=label,
                        device=str(specification.get("device") or "cpu"),
                        threads=count,
                        cases=tuple(cases),
                        budget_s=0.0,
                        quick=bool(facts.get("quick")),
                    )
                )
    return result


def thread_counts(threads: int, *, quick: bool) -> list[int]:
    """Return the thread settings of a plan: all, then one, and without ``quick`` the powers of two between."""
    between = [] if quick else [1 << power for power in range(1, threads.bit_length()) if 1 << power < threads]
    return list(dict.fromkeys((threads, 1, *between)))


def _measured_with(rule: list[str], count: int, threads: int, *, quick: bool) -> bool:
    """Tell whether a benchmark with this rule (see ``Benchmark.threads``) is measured with ``count`` of ``threads`` threads."""
    if "never-one" in rule:
        return count == threads > 1
    if count == threads:
        return True
    return ("one" in rule or not quick) if count == 1 else "sweep" in rule


def _cases(benchmark: Benchmark, backend: Backend, facts: Mapping[str, Any]) -> list[Case]:
    """Return the cases of one benchmark on one backend; those of one shape lie together, so that they share their inputs."""
    supported = backend.dtypes.get(benchmark.name, ())
    dtypes = facts.get("dtypes") or supported
    if not supported and facts.get("backends") is None:
        return []
    operations = backend.operations.get(benchmark.name, benchmark.operations)
    rows: list[tuple[float, int, Case]] = []
    for order, dtype in enumerate(dtypes):
        variants = backend.variants.get(f"{benchmark.name}:{dtype}", backend.variants.get(benchmark.name, ())) if benchmark.variant else ()
        if facts.get("quick"):
            # The usual variant of a narrow dtype; two in fp32, which leaves out what takes long to compile.
            variants = backend.variants.get(f"{benchmark.name}:quick", variants[: 2 if dtype == "fp32" else 1])
        for params in benchmark.cases({**facts, "dtype": dtype}):
            if operations is not None and params.get("operation") not in operations:
                continue
            for variant in variants or (None,):
                if variant is None or benchmark.variant in params:
                    full = dict(params)
                else:
                    full = {**params, str(benchmark.variant): variant}
                rows.append((benchmark.work(params), order, Case(benchmark=benchmark.name, dtype=dtype, params=full)))
    rows.sort(key=lambda row: row[:2])
    return [case for _, _, case in rows]
