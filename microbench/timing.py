"""The samples of one kernel, how much each was disturbed, and what the estimate rests on. Outliers are kept.

A sample is *clean* when others used less than 3 % of the machine around it, or when this process's threads waited for a CPU less
than 3 % of their time while others used less than 40 %. Either alone would mislead: worker threads of a framework queue on each
other on an idle machine, and the tick of /proc/stat can blame us for what others did on an idle core; but short samples between
two time slices never wait, however crowded the machine is. A sample is *quiet* by the first rule alone: a kernel bound by memory
feels what others do on another core. Where others used 10 % or more on the whole, no sample is quiet and one that waited is not clean,
since a window may only seem quiet. The estimate rests on the quiet samples if there are three, else on the clean ones, else on
the least disturbed tenth. A run is *contended* when fewer than three samples were clean, although sampling went on for a
while to find them, and others used more than 40 % of the machine (median over the windows), or the least disturbed samples still
were disturbed by more than 30 %; a combined measurement only when each of its rounds was.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from microbench.stats import median_interval

CLEAN_SAMPLES = 3
CLEAN_WAIT_SHARE = 0.03
CLEAN_FOREIGN_SHARE = 0.03
CALM_FOREIGN_SHARE = 0.10
CONTENDED_FOREIGN_SHARE = 0.40
CONTENDED_DISTURBANCE = 0.30


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
    def calm(self) -> bool:
        """Tell whether others left the machine alone on the whole: the tick of /proc/stat makes any one window uncertain by 10 %."""
        return not self.window_foreign or statistics.fmean(self.window_foreign) < CALM_FOREIGN_SHARE

    def quiet(self) -> list[Sample]:
        """Return the samples with nobody beside them; none where the machine was not calm, since then a window may only seem quiet."""
        return [s for s in self.samples if s.quiet] if self.calm else []

    def clean(self) -> list[Sample]:
        """Return the clean samples; where the machine was not calm, those that are known to have waited are not."""
        calm = self.calm
        return [s for s in self.samples if s.clean and (calm or s.wait_share is None or s.wait_share < CLEAN_WAIT_SHARE)]

    @property
    def settled(self) -> bool:
        """Tell whether enough samples are clean for the estimate to rest on them alone."""
        return len(self.clean()) >= min(CLEAN_SAMPLES, len(self.samples))

    def _used(self) -> list[Sample]:
        for kept in (self.quiet(), self.clean()):
            if len(kept) >= min(CLEAN_SAMPLES, len(self.samples)):
                return kept
        keep = max(CLEAN_SAMPLES, len(self.samples) // 10)
        return sorted(self.samples, key=lambda s: s.disturbance)[:keep]

    def used(self) -> list[float]:
        """Return the seconds the estimate rests on: quiet samples, or clean ones, or the least disturbed tenth."""
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
            "clean_samples": len(self.clean()),
            "quiet_samples": len(self.quiet()),
            "used": "".join("1" if id(s) in used else "0" for s in self.samples),
            "wait_share": round(statistics.median(waits), 4) if waits else None,
            "foreign_share": round(statistics.median(self.window_foreign), 4) if self.window_foreign else None,
        }
