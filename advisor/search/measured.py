"""The measured search: the cost model proposes, the machine decides.

Each turn measures the plan whose expected gain per second of measuring is largest, learns from the result (``residual``), and
stops when the gain no longer pays or the budget is spent. At the end the leaders run again, interleaved, in fresh processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.plan.records import Plan
from advisor.search.residual import Residuals, expected_gain

#: Measuring stops when no plan is expected to improve the answer by more than this (relative).
LEAST_GAIN = 0.01
#: Share of the budget kept back to run the leaders again, interleaved.
CONFIRM_SHARE = 0.3
#: How many leaders are run again, and within which distance of the best a plan is one.
LEADERS, LEADER_DISTANCE = 3, 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A plan worth measuring. ``predicted_s`` is one batch; ``samples`` what a batch counts; ``cost_s`` what a trial would take."""

    plan: Plan
    predicted_s: float
    sigma: float
    samples: int
    cost_s: float

    def score(self, seconds: float, *, latency: bool) -> float:
        """Return the logarithm of what is minimised: seconds a batch for latency, seconds a sample otherwise."""
        return math.log(seconds if latency else seconds / self.samples)


@dataclass(slots=True)
class MeasuredSearch:
    """The state of one measured search; ``propose`` and ``tell`` alternate."""

    contenders: Sequence[Contender]
    latency: bool
    residuals: Residuals = field(init=False)
    seconds: dict[int, float] = field(default_factory=dict)
    tried: set[int] = field(default_factory=set)
    last_gain: float = math.inf

    def __post_init__(self) -> None:
        self.residuals = Residuals([c.plan for c in self.contenders], np.array([c.sigma for c in self.contenders]))

    def best(self) -> int | None:
        """Return the index of the best measured plan."""
        return min(self.seconds, key=lambda i: (self.contenders[i].score(self.seconds[i], latency=self.latency), i), default=None)

    def propose(self, seconds_left: float) -> int | None:
        """Return the plan to measure next, or None when no gain pays or no trial fits the time left."""
        open_rows = [i for i, c in enumerate(self.contenders) if i not in self.tried and c.cost_s <= seconds_left]
        if not open_rows:
            return None
        mean, deviation = self.residuals.posterior()
        predicted = np.array([c.score(c.predicted_s, latency=self.latency) for c in self.contenders]) + mean
        best = self.best()
        if best is None:
            # Nothing measured yet: begin with the best prediction, in units of what it costs to learn it.
            return min(open_rows, key=lambda i: (predicted[i] + math.log1p(self.contenders[i].cost_s) * 0.1, i))
        now = self.contenders[best].score(self.seconds[best], latency=self.latency)
        gain = expected_gain(now, predicted[open_rows], deviation[open_rows])
        self.last_gain = float(gain.max())
        if self.last_gain < LEAST_GAIN:
            return None
        rate = gain / np.array([self.contenders[i].cost_s for i in open_rows])
        return open_rows[int(np.argmax(np.where(gain >= LEAST_GAIN, rate, -1.0)))]

    def tell(self, row: int, seconds: float | None) -> None:
        """Take a result; None for a plan that failed, which is not proposed again."""
        self.tried.add(row)
        if seconds is not None:
            if row not in self.seconds:
                self.residuals.observe(row, math.log(seconds / self.contenders[row].predicted_s))
            self.seconds[row] = seconds

    def leaders(self) -> list[int]:
        """Return the measured plans close to the best, best first."""
        scored = sorted((self.contenders[i].score(s, latency=self.latency), i) for i, s in self.seconds.items())
        return [i for score, i in scored if score <= scored[0][0] + LEADER_DISTANCE][:LEADERS]
