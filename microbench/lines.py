"""What a child says of one case: a Measurement, with the machine's state among its conditions."""

from __future__ import annotations

import time
from typing import Any

from microbench import conditions
from microbench.plugin import Benchmark, benchmarks
from microbench.protocol import Case, Measurement, Request


def state_of(case: Case) -> dict[str, Any]:
    """Return the machine's state as a measurement records it; only what differs from case to case is in the timing."""
    return {
        "cache": "cold" if case.params.get("level") in ("memory", "disk") else "hot",
        "timer_resolution_s": time.get_clock_info("perf_counter").resolution,
        "load_average": conditions.load_average(),
        **conditions.clocks(),
        "environment": conditions.environment(),
    }


def measurement_of(request: Request, case: Case, version: str | None, benchmark: Benchmark | None = None, **values: Any) -> Measurement:
    """Return the Measurement of a case with ``values`` filled in, all that is not given being unknown."""
    fields: dict[str, Any] = {
        "value": None, "low": None, "high": None, "run_low": None, "run_high": None, "samples": 0, "seconds": 0.0,
    }  # fmt: skip
    benchmark = benchmark or benchmarks().get(case.benchmark)
    return Measurement(
        benchmark=case.benchmark,
        backend=request.backend,
        backend_version=version,
        device=request.device,
        dtype=case.dtype,
        params={**case.params, "threads": request.threads},
        metric=benchmark.metric if benchmark else "seconds",  # type: ignore[arg-type]
        unit=benchmark.unit if benchmark else "s",
        **{**fields, **values},
    )
