"""Time one kernel: calibrate the inner loop, warm up until the medians agree, sample until the interval is narrow or time is out.

Every sample carries how much it was disturbed, so that the estimate can rest on the clean ones. Outliers are kept.

A sample is *clean* when this process's threads waited for a CPU less than 3 % of their time or others used less than 3 % of the
machine around it; one of the two is enough, because worker threads of a framework may queue on each other on an idle machine,
and because the tick of /proc/stat can blame us for what others did on an idle core. The estimate rests on the clean samples if
there are three, else on the least disturbed third. A run is *contended* only when others used more than 40 % of the machine
through every window of the last three seconds and fewer than three samples were clean; a combined measurement only when each of
its rounds was: a machine that is merely busy still gives a number, with a wider interval.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from microbench import conditions
from microbench.stats import half_width, median_interval

#: A sample lasts at least this long: 10^4 times the timer's resolution, and above the jitter of one interrupt.
MIN_SAMPLE_S = 2e-3
TARGET_HALF_WIDTH = 0.01
MAX_SAMPLES = 400
CLEAN_WAIT_SHARE = 0.03
CLEAN_FOREIGN_SHARE = 0.03
CONTENDED_FOREIGN_SHARE = 0.40
CONTENDED_S = 3.0
#: Windows over which foreign CPU time is read: ten ticks of /proc/stat.
WINDOW_S = 0.1


class TooSlow(Exception):
    """One call takes more than its share of the budget; ``call_s`` is how long it took."""

    def __init__(self, call_s: float) -> None:
        super().__init__(f"one call takes {call_s:.3g} s, more than its share of the budget")
        self.call_s = call_s


@dataclass(slots=True)
class Sample:
    """Seconds of one call (the mean over one inner loop) and how disturbed it was."""

    seconds: float
    wait_share: float | None
    foreign_share: float | None = None

    @property
    def clean(self) -> bool:
        """Tell whether nothing is known to have disturbed it."""
        if self.wait_share is None or self.wait_share >= CLEAN_WAIT_SHARE:
            return self.foreign_share is not None and self.foreign_share < CLEAN_FOREIGN_SHARE
        return True

    @property
    def disturbance(self) -> float:
        """Order samples by how much they were disturbed."""
        return max(self.wait_share or 0.0, self.foreign_share or 0.0)


@dataclass(slots=True)
class Timing:
    """All samples of one kernel in one process, and what was learnt before them."""

    samples: list[Sample]
    first_call_s: float
    inner_loop: int
    converged: bool
    window_foreign: list[float] = field(default_factory=list)

    def used(self) -> list[float]:
        """Return the seconds the estimate rests on: the clean samples, or the least disturbed third where there are too few."""
        clean = [s.seconds for s in self.samples if s.clean]
        if len(clean) >= min(3, len(self.samples)):
            return clean
        keep = max(3, len(self.samples) // 3)
        return [s.seconds for s in sorted(self.samples, key=lambda s: s.disturbance)[:keep]]

    def estimate(self) -> tuple[float, float, float]:
        """Return median, low and high seconds of one call within this run."""
        return median_interval(self.used())

    def conditions(self) -> dict[str, Any]:
        """Return what a measurement records of how it was taken."""
        waits = [s.wait_share for s in self.samples if s.wait_share is not None]
        return {
            "first_call_s": self.first_call_s,
            "inner_loop": self.inner_loop,
            "converged": self.converged,
            "clean_samples": sum(s.clean for s in self.samples),
            "wait_share": round(statistics.median(waits), 4) if waits else None,
            "foreign_share": round(statistics.median(self.window_foreign), 4) if self.window_foreign else None,
        }


class LoadHistory:
    """What others used of our CPUs over the last seconds, from window to window."""

    def __init__(self) -> None:
        self.last = conditions.read()
        self.windows: list[tuple[float, float]] = []

    def update(self) -> bool:
        """Close the window since the last update; tell whether the load was above the bar through all of the last three seconds."""
        now = conditions.read()
        if now.wall_s - self.last.wall_s >= WINDOW_S:
            share = conditions.foreign_share(self.last, now)
            if share is not None:
                self.windows.append((now.wall_s, share))
            self.last = now
        recent = [(end, share) for end, share in self.windows if end > now.wall_s - CONTENDED_S]
        begin = self.windows[0][0] if self.windows else now.wall_s
        self.windows = recent or self.windows[-1:]
        return bool(recent) and now.wall_s - begin >= CONTENDED_S / 2 and min(share for _, share in recent) > CONTENDED_FOREIGN_SHARE


def time_kernel(
    run: Callable[[], Any],
    *,
    budget_s: float,
    limit_s: float,
    threads: int,
    min_samples: int = 5,
    min_sample_s: float = MIN_SAMPLE_S,
    max_samples: int = MAX_SAMPLES,
    after_first: Callable[[], None] | None = None,
) -> Timing:
    """Time ``run``, which does one call and returns when it is done.

    ``budget_s`` is what sampling may take; a kernel too slow for ``min_samples`` samples in it gets at least three, provided
    three more calls fit ``limit_s``, else TooSlow is raised. ``max_samples`` of 3 is for a look
    without a warm-up. ``after_first`` runs after the first call, outside the timing: the place to check the result before time is
    spent on it.
    """
    opened = conditions.read()
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    if after_first is not None:
        after_first()
    begin = time.perf_counter()
    run()
    call = time.perf_counter() - begin
    if 3 * call > limit_s:
        raise TooSlow(call)
    inner, call = _calibrate(run, call, min_sample_s)
    if call * inner < budget_s / 8 and max_samples > 3:
        _warm_up(run, inner, 0.3 * budget_s)
    timing = _sample(run, inner, first, budget_s - (time.perf_counter() - begin), threads, (min_samples, max_samples))
    late = [sample for sample in timing.samples if sample.foreign_share is None]
    if late:
        # The last window was too short for the tick of /proc/stat: what held since the first call stands for it.
        _close(timing, late, opened, conditions.read())
    return timing


def _block(run: Callable[[], Any], inner: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(inner):
        run()
    return (time.perf_counter_ns() - start) / 1e9


def _calibrate(run: Callable[[], Any], call: float, min_sample_s: float) -> tuple[int, float]:
    """Return calls a sample and seconds a call, growing the loop until one sample is long enough."""
    inner = 1
    while call * inner < min_sample_s:
        inner = min(inner * 10, max(inner + 1, round(1.2 * min_sample_s / max(call, 1e-9))))
        call = _block(run, inner) / inner
    return inner, call


def _warm_up(run: Callable[[], Any], inner: int, budget_s: float) -> None:
    """Run until the medians of the last two groups of three agree within 2 %, or the budget ends."""
    end = time.perf_counter() + budget_s
    previous = statistics.median(_block(run, inner) for _ in range(3))
    while time.perf_counter() < end:
        latest = statistics.median(_block(run, inner) for _ in range(3))
        if abs(latest - previous) <= 0.02 * previous:
            return
        previous = latest


def _sample(run: Callable[[], Any], inner: int, first: float, budget_s: float, threads: int, counts: tuple[int, int]) -> Timing:
    timing = Timing([], first, inner, False)
    min_samples, max_samples = counts
    end = time.perf_counter() + budget_s
    window = before = conditions.read()
    open_samples: list[Sample] = []
    while len(timing.samples) < max_samples:
        seconds = _block(run, inner)
        after = conditions.read()
        sample = Sample(seconds / inner, conditions.wait_share(before, after, threads))
        timing.samples.append(sample)
        open_samples.append(sample)
        before = after
        if after.wall_s - window.wall_s >= WINDOW_S:
            _close(timing, open_samples, window, after)
            window = after
        out_of_time = after.wall_s >= end
        timing.converged = len(timing.samples) >= max(6, min_samples) and half_width(timing.used()) <= TARGET_HALF_WIDTH
        if len(timing.samples) >= 3 and (out_of_time or (timing.converged and len(timing.samples) >= min_samples)):
            break
    return timing


def _close(timing: Timing, samples: list[Sample], start: conditions.Reading, end: conditions.Reading) -> None:
    share = conditions.foreign_share(start, end) if end.wall_s - start.wall_s >= WINDOW_S / 2 else None
    if share is not None:
        timing.window_foreign.append(share)
        for sample in samples:
            sample.foreign_share = share
    samples.clear()
