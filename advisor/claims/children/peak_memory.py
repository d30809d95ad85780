"""Bytes that one training step adds to a fresh process at its peak, framework included: the same network through one backend.

The peak is ``VmHWM`` of Linux, the largest resident size so far, less the resident size before the framework is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import Lacks, answer

STEPS = 2


def resident(field: str) -> int:
    """Return VmRSS or VmHWM of this process in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError as error:
        raise Lacks("this system does not tell the peak of a process (Linux does)") from error
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the peak of a step of ``network`` through ``backend``, by ``batch`` and ``seq``."""
    import os

    from microbench.benchmarks.model import BENCHMARK
    from microbench.plugin import load_backend
    from microbench.protocol import Case

    params = {"network": arguments["network"], "batch": int(arguments["batch"]), "seq": int(arguments["seq"]), "mode": "train",
              "execution": arguments["execution"], "quantization": "none"}  # fmt: skip
    case = Case(benchmark="model", dtype="fp32", params=params)
    problem = BENCHMARK.problem(case, int(arguments["seed"]))
    before, threads = resident("VmRSS"), int(arguments["threads"])
    backend = load_backend(str(arguments["backend"]))
    os.environ.update(backend.env(threads))
    kernel = backend.open("cpu", threads, {}).build(case, problem.inputs)
    for _ in range(STEPS):
        kernel.run()
    peak = resident("VmHWM") - before
    return [{"label": "a training step", "value": float(peak), "detail": {"backend": backend.name, "before_bytes": before}}]


if __name__ == "__main__":
    answer(measure)
