"""Run one Request in this process: set the environment, open the backend, measure case by case, emit each result as it comes.

One process is one round. What kills it costs only the case it was at: the parent reads the results so far and asks a new child for
the cases after it. Standard error carries ``microbench: ready`` when the backend is open and ``microbench: case N`` before each.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from microbench import conditions
from microbench.lines import measurement_of, state_of
from microbench.plugin import Backend, Benchmark, Kernel, Problem, Session, Unsupported, benchmarks, load_backend
from microbench.power import THERMAL, meter
from microbench.protocol import Case, Measurement, Request
from microbench.reference import WrongResult
from microbench.sampling import CONTENDED_S, MAX_SAMPLES, Sampler, TooSlow, alternate

#: Takes a case's number and its Measurement, a better one of the same case once more.
Emit = Callable[[int, Measurement], None]
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
        for index, case in enumerate(request.cases):
            emit(index, measurement_of(request, case, None, status=status, reason=reason))
        return
    print("microbench: ready", file=sys.stderr, flush=True)
    Round(request, backend, session, start, emit).run()


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


@dataclass(slots=True)
class _Attempt:
    """One case made ready and looked at: what its Measurement is made from, now and after more samples."""

    index: int
    case: Case
    benchmark: Benchmark
    work: float
    kernel: Kernel
    sampler: Sampler
    error: float
    begin: float
    power: dict[str, Any]
    waits: bool
    """Only looked at so far: it is to take turns with its variants."""


class Round:
    """The state of one pass over the cases: time left, the last inputs, the best rates so far."""

    def __init__(self, request: Request, backend: Backend, session: Session, start: float, emit: Emit) -> None:
        self.request, self.backend, self.session, self.emit = request, backend, session, emit
        self.end = start + request.budget_s
        self.known = benchmarks()
        self.best_rate: dict[tuple[Any, ...], float] = {}
        self.problem: tuple[Any, Problem] | None = None
        self.throttles = conditions.clocks()["throttle_count"]
        self.meter = meter(request.device)
        # Looking for clean samples on a crowded machine must not cost the cases behind it their turn.
        self.patience = PATIENCE * request.budget_s

    def run(self) -> None:
        """Measure all cases. Variants of one case take turns once each has been looked at."""
        indexed = enumerate(self.request.cases)
        for _, members in itertools.groupby(indexed, key=lambda item: self._shape(item[1])):
            group = list(members)
            begin = time.perf_counter()
            share = self.share(group[0][0], self.end - begin)
            waiting = [found for index, case in group if (found := self._one(index, case, share, len(group) > 1)) is not None]
            if len(waiting) > 1:
                self._take_turns(waiting, begin + len(group) * share)
            elif waiting:
                self._alone(waiting[0], share)
            if time.perf_counter() - begin > 0.5:
                gc.collect()

    def share(self, index: int, left: float) -> float:
        """Return the seconds that a case may take of those ``left`` for it and all behind it."""
        claims = [self.known[case.benchmark].shares if case.benchmark in self.known else 1.0 for case in self.request.cases[index:]]
        return max(0.05, left * claims[0] / sum(claims))

    def _one(self, index: int, case: Case, share: float, compared: bool) -> _Attempt | None:
        """Measure a case and emit what came of it; return it instead where it is to take turns, having emitted a first look."""
        print(f"microbench: case {index}", file=sys.stderr, flush=True)
        self._deadline(share)
        found = self._case(index, case, share, compared)
        faulthandler.cancel_dump_traceback_later()
        if isinstance(found, Measurement):
            self.emit(index, found)
            return None
        self.emit(index, self._done(found))
        return found if found.waits and not found.sampler.done else None

    def _deadline(self, seconds: float) -> None:
        """End the process where what comes now takes far longer than ``seconds``."""
        faulthandler.dump_traceback_later(float(self.request.options.get("case_limit_s", max(HANG_S, 6 * seconds))), exit=True)

    def _take_turns(self, attempts: list[_Attempt], end: float) -> None:
        """Sample the variants of one case in turns until ``end``, and emit each again: what they share, they share."""
        now = time.perf_counter()
        end = max(end, now + 0.05 * len(attempts))
        patience = min(CONTENDED_S, self.patience)
        self._deadline(end - now + patience)
        alternate([attempt.sampler for attempt in attempts], end, end + patience)
        faulthandler.cancel_dump_traceback_later()
        self.patience = max(0.0, self.patience - max(0.0, time.perf_counter() - end))
        for attempt in attempts:
            self.emit(attempt.index, self._done(attempt))

    def _alone(self, attempt: _Attempt, share: float) -> None:
        """Sample on: the variants that it was to take turns with gave no number."""
        self._deadline(share)
        attempt.sampler.sample(time.perf_counter() + share / 2)
        faulthandler.cancel_dump_traceback_later()
        self.emit(attempt.index, self._done(attempt))

    def _case(self, index: int, case: Case, share: float, compared: bool) -> Measurement | _Attempt:
        begin, opened = time.perf_counter(), conditions.read()
        left = self.end - begin
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
            budget = max(0.25 * share, share - (time.perf_counter() - begin))
            sampler = self._sampler(kernel, opened)
            sampler.prepare(budget, limit, lambda: errors.append(problem.check(kernel.result())))
            waits = self._sample(sampler, budget, limit, compared)
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
        self.best_rate[key] = max(rate or 0.0, benchmark.work(case.params) / sampler.timing.estimate()[0])
        return _Attempt(index, case, benchmark, problem.work, kernel, sampler, errors[0], begin, self.meter.stop(), waits)

    def _sampler(self, kernel: Kernel, opened: conditions.Reading) -> Sampler:
        return Sampler(
            kernel.run,
            threads=self.request.threads,
            min_samples=4 if self.request.quick else 5,
            max_samples=max(3, int(self.request.options.get("max_samples", MAX_SAMPLES))),
            since=opened,
        )

    def _sample(self, sampler: Sampler, budget: float, limit: float, compared: bool) -> bool:
        """Take the samples of a case, or a first look and return True where it is fast enough to take turns with its variants."""
        begin = time.perf_counter()
        if compared and sampler.call_s < budget / 8:
            sampler.sample(begin)
            return True
        end = begin + budget
        sampler.sample(end, end + min(CONTENDED_S, limit / 3, self.patience))
        if not sampler.timing.settled:
            self.patience = max(0.0, self.patience - max(0.0, time.perf_counter() - end))
        return False

    def _shape(self, case: Case) -> str:
        """Return what a case shares with its variants."""
        benchmark = self.known.get(case.benchmark)
        shape = {name: value for name, value in case.params.items() if benchmark is None or name != benchmark.variant}
        return repr((case.benchmark, case.dtype, shape))

    def _inputs(self, benchmark: Benchmark, case: Case) -> Problem:
        """Return the problem, kept from the case before where only the variant differs."""
        key = self._shape(case)
        if self.problem is None or self.problem[0] != key:
            self.problem = None
            self.problem = (key, benchmark.problem(case, self.request.seed))
        return self.problem[1]

    def _done(self, attempt: _Attempt) -> Measurement:
        """Return the Measurement of what has been sampled so far."""
        timing = attempt.sampler.finish()
        middle, low, high = timing.estimate()
        status, reason = "ok", None
        if timing.contended:
            status, reason = "contended", "others used the CPUs; no time was left to measure it undisturbed"
        state = state_of(attempt.case)
        if (state["throttle_count"] or 0) > (self.throttles or 0):
            status, reason = "throttled", "the CPU lowered its clock because of heat"
        if set(attempt.power.get("device_throttle") or ()) & set(THERMAL):
            status, reason = "throttled", "the device lowered its clock because of heat"
        self.throttles = state["throttle_count"]
        value, run_low, run_high = middle, low, high
        if attempt.benchmark.metric != "seconds":
            value, run_low, run_high = attempt.work / middle, attempt.work / high, attempt.work / low
        return measurement_of(
            self.request,
            attempt.case,
            self.session.version,
            attempt.benchmark,
            value=value,
            low=run_low,
            high=run_high,
            run_low=run_low,
            run_high=run_high,
            samples=len(timing.samples),
            seconds=time.perf_counter() - attempt.begin,
            status=status,
            reason=reason,
            max_error=attempt.error,
            sample_seconds=tuple(float(f"{s.seconds:.5g}") for s in timing.samples),
            conditions={**timing.conditions(), **attempt.power, **state, **attempt.kernel.notes},
        )

    def _failed(self, case: Case, status: Any, reason: str, begin: float, max_error: float | None = None) -> Measurement:
        if max_error is not None and max_error == float("inf"):
            max_error = None
        return measurement_of(
            self.request,
            case,
            self.session.version,
            self.known.get(case.benchmark),
            status=status,
            reason=reason,
            max_error=max_error,
            seconds=time.perf_counter() - begin,
        )
