"""Run one Request in this process: set the environment, open the backend, measure case by case, emit each result as it comes.

One process is one round. What kills it costs only the case it was at: the parent reads the results so far and asks a new child for
the cases after it. Standard error carries ``microbench: ready`` when the backend is open and ``microbench: case N`` before each.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from microbench import conditions
from microbench.plugin import Backend, Benchmark, Kernel, Problem, Session, Unsupported, benchmarks, load_backend
from microbench.power import meter
from microbench.protocol import Case, Measurement, Request
from microbench.reference import WrongResult
from microbench.timing import CONTENDED_S, MAX_SAMPLES, Timing, TooSlow, time_kernel

Emit = Callable[[Measurement], None]
#: A case is given this long at the least before it is taken to hang.
HANG_S = 40.0
#: Share of a child's budget that may go into waiting for others.
PATIENCE = 0.2
OUT_OF_TIME = "the time budget ended before its turn"


def run(request: Request, emit: Emit) -> None:
    """Measure every case of ``request`` in order and hand each Measurement to ``emit``."""
    start = time.perf_counter()
    try:
        backend = load_backend(request.backend)
        session = _open(backend, request)
    except Exception as error:  # noqa: BLE001 - whatever a framework raises on import is the answer for all its cases
        status = "unsupported" if isinstance(error, Unsupported | LookupError | ImportError) else "failed"
        reason = str(error) if status == "unsupported" else f"{type(error).__name__}: {error}"
        for case in request.cases:
            emit(_measurement(request, case, None, status=status, reason=reason))
        return
    print("microbench: ready", file=sys.stderr, flush=True)
    _Round(request, backend, session, start).run(emit)


def _open(backend: Backend, request: Request) -> Session:
    reason = backend.missing()
    if reason is not None:
        raise Unsupported(reason)
    # Before the import: thread pools and allocators read their variables once.
    os.environ.update(backend.env(request.threads))
    if request.threads == 1 and conditions.cpus_in_use() > 1 and request.device == "cpu":
        conditions.pin_to_one_cpu()
    faulthandler.dump_traceback_later(float(request.options.get("open_limit_s", 120.0)), exit=True)
    session = backend.open(request.device, request.threads, request.options)
    faulthandler.cancel_dump_traceback_later()
    return session


class _Round:
    """The state of one pass over the cases: time left, the last inputs, the best rates so far."""

    def __init__(self, request: Request, backend: Backend, session: Session, start: float) -> None:
        self.request, self.backend, self.session = request, backend, session
        self.end = start + request.budget_s
        self.known = benchmarks()
        self.best_rate: dict[tuple[Any, ...], float] = {}
        self.problem: tuple[Any, Problem] | None = None
        self.throttles = conditions.clocks()["throttle_count"]
        self.meter = meter(request.device)
        # Looking for clean samples on a crowded machine must not cost the cases behind it their turn.
        self.patience = PATIENCE * request.budget_s

    def run(self, emit: Emit) -> None:
        """Measure all cases."""
        for index, case in enumerate(self.request.cases):
            print(f"microbench: case {index}", file=sys.stderr, flush=True)
            left = self.end - time.perf_counter()
            share = max(0.05, left / (len(self.request.cases) - index))
            faulthandler.dump_traceback_later(float(self.request.options.get("case_limit_s", max(HANG_S, 6 * share))), exit=True)
            begin = time.perf_counter()
            measurement = self._case(case, share, left)
            faulthandler.cancel_dump_traceback_later()
            emit(measurement)
            if time.perf_counter() - begin > 0.5:
                gc.collect()

    def _case(self, case: Case, share: float, left: float) -> Measurement:
        begin, opened = time.perf_counter(), conditions.read()
        benchmark = self.known.get(case.benchmark)
        if benchmark is None:
            return self._failed(case, "unsupported", f"unknown benchmark {case.benchmark!r}", begin)
        if not self.backend.dtypes.get(case.benchmark):
            return self._failed(case, "unsupported", f"the {self.backend.name} backend has no {case.benchmark}", begin)
        if left <= 0:
            return self._failed(case, "timeout", OUT_OF_TIME, begin)
        # A slow case may take several shares: others are faster than theirs.
        limit = max(6 * share, 2.0)
        key = (case.benchmark, case.dtype, case.params.get(benchmark.variant or ""))
        rate = self.best_rate.get(key)
        seconds = benchmark.work(case.params) / rate if rate is not None else 0.0
        if 1.5 * seconds > min(limit, left):
            too_slow = f"one call would take about {seconds:.2g} s by the smaller sizes, too long for its share"
            return self._failed(case, "timeout", too_slow if 1.5 * seconds > limit else OUT_OF_TIME, begin)
        errors: list[float] = []
        try:
            problem = self._inputs(benchmark, case)
            kernel = self.session.build(case, problem.inputs)
            if kernel.poison is not None:
                kernel.poison()
            self.meter.start()
            budget, sampling = max(0.25 * share, share - (time.perf_counter() - begin)), time.perf_counter()
            timing = time_kernel(
                kernel.run,
                budget_s=budget,
                limit_s=limit,
                threads=self.request.threads,
                min_samples=4 if self.request.quick else 5,
                max_samples=max(3, int(self.request.options.get("max_samples", MAX_SAMPLES))),
                after_first=lambda: errors.append(problem.check(kernel.result())),
                since=opened,
                patience_s=min(CONTENDED_S, limit / 3, self.patience),
            )
            if not timing.settled:
                self.patience = max(0.0, self.patience - max(0.0, time.perf_counter() - sampling - budget))
        except Unsupported as error:
            return self._failed(case, "unsupported", str(error), begin)
        except WrongResult as error:
            return self._failed(case, "wrong_result", str(error), begin, max_error=error.error)
        except TooSlow as error:
            self.best_rate[key] = max(rate or 0.0, benchmark.work(case.params) / error.call_s)
            return self._failed(case, "timeout", str(error), begin, max_error=max(errors, default=None))
        except MemoryError:
            return self._failed(case, "failed", "out of memory", begin)
        except Exception as error:  # noqa: BLE001 - a framework's failure is a result, whatever its type
            text = str(error).strip().splitlines()
            return self._failed(case, "failed", f"{type(error).__name__}: {text[0][:300] if text else ''}", begin)
        self.best_rate[key] = max(rate or 0.0, benchmark.work(case.params) / timing.estimate()[0])
        return self._done(benchmark, case, problem, kernel, timing, errors[0], begin)

    def _inputs(self, benchmark: Benchmark, case: Case) -> Problem:
        """Return the problem, kept from the case before where only the variant differs."""
        shape = {name: value for name, value in case.params.items() if name != benchmark.variant}
        key = (case.benchmark, case.dtype, repr(shape))
        if self.problem is None or self.problem[0] != key:
            self.problem = None
            self.problem = (key, benchmark.problem(case, self.request.seed))
        return self.problem[1]

    def _done(
        self, benchmark: Benchmark, case: Case, problem: Problem, kernel: Kernel, timing: Timing, error: float, begin: float
    ) -> Measurement:
        middle, low, high = timing.estimate()
        detail = {**timing.conditions(), **self.meter.stop()}
        status, reason = "ok", None
        if timing.contended:
            status, reason = "contended", "others used the CPUs; no time was left to measure it undisturbed"
        state = _state(case)
        if (state["throttle_count"] or 0) > (self.throttles or 0):
            status, reason = "throttled", "the CPU lowered its clock because of heat"
        self.throttles = state["throttle_count"]
        value, run_low, run_high = (middle, low, high)
        if benchmark.metric != "seconds":
            value, run_low, run_high = problem.work / middle, problem.work / high, problem.work / low
        return _measurement(
            self.request,
            case,
            self.session.version,
            benchmark,
            value=value,
            low=run_low,
            high=run_high,
            run_low=run_low,
            run_high=run_high,
            samples=len(timing.samples),
            seconds=time.perf_counter() - begin,
            status=status,
            reason=reason,
            max_error=error,
            sample_seconds=tuple(float(f"{s.seconds:.5g}") for s in timing.samples),
            conditions={**detail, **state, **kernel.notes},
        )

    def _failed(self, case: Case, status: Any, reason: str, begin: float, max_error: float | None = None) -> Measurement:
        if max_error is not None and max_error == float("inf"):
            max_error = None
        return _measurement(
            self.request,
            case,
            self.session.version,
            self.known.get(case.benchmark),
            status=status,
            reason=reason,
            max_error=max_error,
            seconds=time.perf_counter() - begin,
        )


def _state(case: Case) -> dict[str, Any]:
    """Return the machine's state as a measurement records it; only what differs from case to case is in the timing."""
    return {
        "cache": "cold" if case.params.get("level") in ("memory", "disk") else "hot",
        "load_average": conditions.load_average(),
        **conditions.clocks(),
        "environment": conditions.environment(),
    }


def _measurement(request: Request, case: Case, version: str | None, benchmark: Benchmark | None = None, **values: Any) -> Measurement:
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
