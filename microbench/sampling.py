"""Time kernels: calibrate the inner loop, warm up until the medians agree, sample until the interval is narrow or time is out.

One kernel is timed by ``time_kernel``. Kernels that are compared are made ready by a Sampler each and take turns (``alternate``), so that
the drift of the machine hits them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from microbench import conditions
from microbench.stats import half_width
from microbench.timing import Sample, Timing

#: A sample lasts at least this long: 10^4 times the timer's resolution, and above the jitter of one interrupt.
MIN_SAMPLE_S = 2e-3
TARGET_HALF_WIDTH = 0.01
MAX_SAMPLES = 400
#: How long a crowded machine is waited for beyond the budget of a case, at most.
CONTENDED_S = 3.0
#: Windows over which foreign CPU time is read: ten ticks of /proc/stat. Kernels that take turns have one each.
WINDOW_S = 0.1
LEAST_SAMPLES = 3


class TooSlow(Exception):
    """One call takes more than its share of the budget; ``call_s`` is how long it took."""

    def __init__(self, call_s: float) -> None:
        super().__init__(f"one call takes {call_s:.3g} s, more than its share of the budget")
        self.call_s = call_s


class Sampler:
    """One kernel made ready for sampling: ``run`` does one call and returns when it is done.

    ``threads`` is how many the kernel may use. ``since`` is a reading from before the kernel was made: what held since then stands for
    windows too short to read.
    """

    def __init__(
        self,
        run: Callable[[], Any],
        *,
        threads: int,
        min_samples: int = 5,
        max_samples: int = MAX_SAMPLES,
        min_sample_s: float = MIN_SAMPLE_S,
        since: conditions.Reading | None = None,
    ) -> None:
        self.run, self.threads = run, threads
        self.min_samples, self.max_samples, self.min_sample_s = min_samples, max_samples, min_sample_s
        self.opened = since or conditions.read()
        self.timing = Timing([], 0.0, 1, False)

    def prepare(self, budget_s: float, limit_s: float, after_first: Callable[[], None] | None = None) -> None:
        """Run the first call, ``after_first``, and calibrate; warm up where ``budget_s`` leaves time for it.

        TooSlow is raised where three more calls do not fit ``limit_s``. ``after_first`` is the place to check the result before time
        is spent on it; it runs outside the timing.
        """
        start = time.perf_counter()
        self.run()
        self.timing.first_call_s = time.perf_counter() - start
        if after_first is not None:
            after_first()
        call = self._block(1)
        if 3 * call > limit_s:
            raise TooSlow(call)
        call = self._calibrate(call)
        if call * self.timing.inner_loop < budget_s / 8 and self.max_samples > LEAST_SAMPLES:
            self._warm_up(0.3 * budget_s)
        self.call_s = call

    @property
    def done(self) -> bool:
        """Tell whether nothing is left to learn: the interval is narrow, or there are as many samples as are kept."""
        count = len(self.timing.samples)
        return count >= self.max_samples or (self.timing.converged and count >= self.min_samples)

    def sample(self, end: float, patience_end: float = 0.0, *, turn: bool = False) -> None:
        """Take samples until done, or until the clock is at ``end`` (``patience_end`` while too few are clean), three at least.

        A ``turn`` lasts until ``end`` even when done, as long as samples are kept, so that those who take turns have equally many.
        """
        least = 1 if turn else LEAST_SAMPLES
        timing, taken = self.timing, 0
        window = before = conditions.read()
        open_samples: list[Sample] = []
        while len(timing.samples) < self.max_samples and (turn or not self.done):
            seconds = self._block(timing.inner_loop)
            after = conditions.read()
            if seconds < self.min_sample_s / 2:
                # The loop was calibrated on disturbed blocks. What a few calls take between two readings is their cold caches.
                timing.inner_loop = self._grown(seconds / timing.inner_loop)
                timing.samples.clear()
                open_samples.clear()
                before = after
                continue
            sample = Sample(seconds / timing.inner_loop, conditions.wait_share(before, after, self.threads))
            timing.samples.append(sample)
            open_samples.append(sample)
            taken += 1
            before = after
            if after.wall_s - window.wall_s >= WINDOW_S:
                self._close(open_samples, window, after)
                window = after
            self._judge()
            if taken >= least and after.wall_s >= max(end, end if timing.settled else patience_end):
                break
        self._close(open_samples, window, before)

    def finish(self) -> Timing:
        """Return the timing; samples of windows too short for the tick of /proc/stat get what held since the beginning."""
        late = [sample for sample in self.timing.samples if sample.foreign_share is None]
        if late:
            self._close(late, self.opened, conditions.read())
        self._judge()
        return self.timing

    def _judge(self) -> None:
        timing = self.timing
        enough = timing.settled and len(timing.samples) >= max(6, self.min_samples)
        timing.converged = enough and half_width(timing.used()) <= TARGET_HALF_WIDTH

    def _block(self, calls: int) -> float:
        run = self.run
        start = time.perf_counter_ns()
        for _ in range(calls):
            run()
        return (time.perf_counter_ns() - start) / 1e9

    def _calibrate(self, call: float) -> float:
        """Grow the inner loop until one sample is long enough; return the seconds of a call.

        The faster of two blocks counts: one that others disturbed would end the growth too early.
        """
        timing = self.timing
        if call < 10 * self.min_sample_s:
            call = min(call, self._block(1))
        while call * timing.inner_loop < self.min_sample_s:
            timing.inner_loop = self._grown(call)
            call = min(self._block(timing.inner_loop), self._block(timing.inner_loop)) / timing.inner_loop
        return call

    def _grown(self, call: float) -> int:
        inner = self.timing.inner_loop
        return min(inner * 10, max(inner + 1, round(1.2 * self.min_sample_s / max(call, 1e-9))))

    def _warm_up(self, budget_s: float) -> None:
        """Run until the medians of the last two groups of three agree within 2 %, or the budget ends."""
        end = time.perf_counter() + budget_s
        inner = self.timing.inner_loop
        previous = statistics.median(self._block(inner) for _ in range(3))
        while time.perf_counter() < end:
            latest = statistics.median(self._block(inner) for _ in range(3))
            if abs(latest - previous) <= 0.02 * previous:
                return
            previous = latest

    def _close(self, samples: list[Sample], start: conditions.Reading, end: conditions.Reading) -> None:
        share = conditions.foreign_share(start, end) if end.wall_s - start.wall_s >= WINDOW_S / 2 else None
        if share is not None and samples:
            self.timing.window_foreign.append(share)
            for sample in samples:
                sample.foreign_share = share
        samples.clear()


def time_kernel(
    run: Callable[[], Any], *, budget_s: float, limit_s: float, threads: int, patience_s: float = 0.0, **options: Any
) -> Timing:
    """Time ``run`` for about ``budget_s``, its first call and warm-up apart; ``options`` are those of Sampler.

    A kernel too slow for the least number of samples in its budget gets three, provided three more calls fit ``limit_s``, else TooSlow
    is raised. Where too few samples are clean, sampling goes on for ``patience_s`` more.
    """
    sampler = Sampler(run, threads=threads, **options)
    sampler.prepare(budget_s, limit_s)
    end = time.perf_counter() + budget_s
    sampler.sample(end, end + patience_s)
    return sampler.finish()


def alternate(samplers: Sequence[Sampler], end: float, patience_end: float) -> None:
    """Let the samplers take turns of one window each until all are done, or the clock is at ``end`` (``patience_end``: see ``sample``).

    Each turn begins with a call that is not timed: the kernel before has emptied the caches.
    """
    while not all(sampler.done for sampler in samplers):
        for sampler in samplers:
            sampler.run()
            sampler.sample(time.perf_counter() + WINDOW_S, turn=True)
        if time.perf_counter() >= (end if all(sampler.timing.settled for sampler in samplers) else max(end, patience_end)):
            return
