"""Time one kernel: calibrate the inner loop, warm up until the medians agree, sample until the interval is narrow or time is out.

Every sample carries how much it was disturbed, so that the estimate can rest on the clean ones. Outliers are kept.

A sample is *clean* when others used less than 3 % of the machine around it, or when this process's threads waited for a CPU less
than 3 % of their time while others used less than 40 %. Either alone would mislead: worker threads of a framework queue on each
other on an idle machine, and the tick of /proc/stat can blame us for what others did on an idle core; but short samples between
two time slices never wait, however crowded the machine is. A sample is *quiet* by the first rule alone: a kernel bound by memory
feels what others do on another core. The estimate rests on the quiet samples if there are three, else on the clean ones, else on
the least disturbed third. A run is *contended* when fewer than three samples were clean, although sampling went on for up to three
seconds to find them, and others used more than 40 % of the machine (median over the windows), or the least disturbed samples still
were disturbed by more than 20 %; a combined measurement only when each of its rounds was.
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
CLEAN_SAMPLES = 3
CLEAN_WAIT_SHARE = 0.03
CLEAN_FOREIGN_SHARE = 0.03
CONTENDED_FOREIGN_SHARE = 0.40
CONTENDED_DISTURBANCE = 0.20
#: How long a crowded machine is waited for beyond the budget of a case, at most.
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
    def quiet(self) -> bool:
        """Tell whether others are known to have let the machine alone."""
        return self.foreign_share is not None and self.foreign_share < CLEAN_FOREIGN_SHARE

    @property
    def clean(self) -> bool:
        """Tell whether nothing is known to have disturbed it."""
        if self.quiet or (self.foreign_share is not None and self.foreign_share > CONTENDED_FOREIGN_SHARE):
            return self.quiet
        return self.wait_share is not None and self.wait_share < CLEAN_WAIT_SHARE

    @property
    def disturbance(self) -> float:
        """Order samples by how much they were disturbed."""
        return max(self.wait_share or 0.0, self.foreign_share or 0.0)

    @property
    def least_disturbance(self) -> float:
        """What is sure to have disturbed it: the smaller of what is known, since either can be our own doing."""
        return min((share for share in (self.wait_share, self.foreign_share) if share is not None), default=0.0)


@dataclass(slots=True)
class Timing:
    """All samples of one kernel in one process, and what was learnt before them."""

    samples: list[Sample]
    first_call_s: float
    inner_loop: int
    converged: bool
    window_foreign: list[float] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Tell whether enough samples are clean for the estimate to rest on them alone."""
        return sum(s.clean for s in self.samples) >= min(CLEAN_SAMPLES, len(self.samples))

    def _used(self) -> list[Sample]:
        quiet = [s for s in self.samples if s.quiet]
        if len(quiet) >= CLEAN_SAMPLES:
            return quiet
        if self.settled:
            return [s for s in self.samples if s.clean]
        keep = max(CLEAN_SAMPLES, len(self.samples) // 3)
        return sorted(self.samples, key=lambda s: s.disturbance)[:keep]

    def used(self) -> list[float]:
        """Return the seconds the estimate rests on: quiet samples, or clean ones, or the least disturbed third."""
        return [s.seconds for s in self._used()]

    @property
    def contended(self) -> bool:
        """Tell whether others used so much of the machine that the samples say nothing of the kernel."""
        if self.settled:
            return False
        if self.window_foreign and statistics.median(self.window_foreign) > CONTENDED_FOREIGN_SHARE:
            return True
        return statistics.median(s.least_disturbance for s in self._used()) > CONTENDED_DISTURBANCE

    def estimate(self) -> tuple[float, float, float]:
        """Return median, low and high seconds of one call within this run."""
        return median_interval(self.used())

    def conditions(self) -> dict[str, Any]:
        """Return what a measurement records of how it was taken; ``used`` has a digit a sample, 1 where the estimate rests on it."""
        waits = [s.wait_share for s in self.samples if s.wait_share is not None]
        used = {id(s) for s in self._used()}
        return {
            "first_call_s": self.first_call_s,
            "inner_loop": self.inner_loop,
            "converged": self.converged,
            "clean_samples": sum(s.clean for s in self.samples),
            "quiet_samples": sum(s.quiet for s in self.samples),
            "used": "".join("1" if id(s) in used else "0" for s in self.samples),
            "wait_share": round(statistics.median(waits), 4) if waits else None,
            "foreign_share": round(statistics.median(self.window_foreign), 4) if self.window_foreign else None,
        }


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
    since: conditions.Reading | None = None,
    patience_s: float = 0.0,
) -> Timing:
    """Time ``run``, which does one call and returns when it is done.

    ``budget_s`` is what sampling may take; a kernel too slow for ``min_samples`` samples in it gets at least three, provided
    three more calls fit ``limit_s``, else TooSlow is raised. Where too few samples are clean, sampling goes on for
    ``patience_s`` more. ``max_samples`` of 3 is for a look without a warm-up. ``after_first`` runs after the first call,
    outside the timing: the place to check the result before time is spent on it. ``since`` is a reading from before the kernel was
    made ready: what held since then stands for windows too short to read.
    """
    opened = since or conditions.read()
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
    end = begin + budget_s
    timing = Timing([], first, inner, False)
    _sample(run, timing, (end, end + patience_s), threads, (min_samples, max_samples), min_sample_s)
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
    """Return calls a sample and seconds a call, growing the loop until one sample is long enough.

    The faster of two blocks counts: one that others disturbed would end the growth too early.
    """
    inner = 1
    call = min(call, _block(run, 1)) if call < 10 * min_sample_s else call
    while call * inner < min_sample_s:
        inner = _grown(inner, call, min_sample_s)
        call = min(_block(run, inner), _block(run, inner)) / inner
    return inner, call


def _grown(inner: int, call: float, min_sample_s: float) -> int:
    return min(inner * 10, max(inner + 1, round(1.2 * min_sample_s / max(call, 1e-9))))


def _warm_up(run: Callable[[], Any], inner: int, budget_s: float) -> None:
    """Run until the medians of the last two groups of three agree within 2 %, or the budget ends."""
    end = time.perf_counter() + budget_s
    previous = statistics.median(_block(run, inner) for _ in range(3))
    while time.perf_counter() < end:
        latest = statistics.median(_block(run, inner) for _ in range(3))
        if abs(latest - previous) <= 0.02 * previous:
            return
        previous = latest


def _sample(
    run: Callable[[], Any], timing: Timing, ends: tuple[float, float], threads: int, counts: tuple[int, int], min_sample_s: float
) -> None:
    """Take samples into ``timing`` until the interval is narrow, or ``ends`` (for clean samples, for disturbed ones) have passed."""
    min_samples, max_samples = counts
    window = before = conditions.read()
    open_samples: list[Sample] = []
    while len(timing.samples) < max_samples:
        seconds = _block(run, timing.inner_loop)
        after = conditions.read()
        if seconds < min_sample_s / 2:
            # The loop was calibrated on disturbed blocks. What a few calls take between two readings is their cold caches.
            timing.inner_loop = _grown(timing.inner_loop, seconds / timing.inner_loop, min_sample_s)
            timing.samples.clear()
            open_samples.clear()
            before = after
            continue
        sample = Sample(seconds / timing.inner_loop, conditions.wait_share(before, after, threads))
        timing.samples.append(sample)
        open_samples.append(sample)
        before = after
        if after.wall_s - window.wall_s >= WINDOW_S:
            _close(timing, open_samples, window, after)
            window = after
        settled = timing.settled
        timing.converged = settled and len(timing.samples) >= max(6, min_samples) and half_width(timing.used()) <= TARGET_HALF_WIDTH
        out_of_time = after.wall_s >= (ends[0] if settled else ends[1])
        if len(timing.samples) >= 3 and (out_of_time or (timing.converged and len(timing.samples) >= min_samples)):
            break


def _close(timing: Timing, samples: list[Sample], start: conditions.Reading, end: conditions.Reading) -> None:
    share = conditions.foreign_share(start, end) if end.wall_s - start.wall_s >= WINDOW_S / 2 else None
    if share is not None:
        timing.window_foreign.append(share)
        for sample in samples:
            sample.foreign_share = share
    samples.clear()
