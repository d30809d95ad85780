"""What measured plans teach about unmeasured ones: a Gaussian process over the residual log(measured / predicted).

Plans that share a framework, an execution and precision, or everything share error. The prior covariance of two plans is

    k(x, y) = sigma_x sigma_y (G + F [same framework] + A [same arm] + C [same plan]),      G + F + A + C = 1,

where sigma is the cost model's own spread for the plan and an *arm* is (framework, execution, precision, quantization,
and over several devices the kinds of parallelism). The
posterior is ordinary Gaussian conditioning (Rasmussen and Williams 2006, equations 2.23 and 2.24).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import erf, exp, pi, sqrt

import numpy as np
import numpy.typing as npt

from advisor.plan.records import Plan

Floats = npt.NDArray[np.float64]

#: Shares of the prior variance: what all plans have in common here (the machine is slower than its sheet), what the plans of a
#: framework share, those of one arm, and what is a plan's own.
SHARED, FRAMEWORK, ARM, OWN = 0.35, 0.30, 0.25, 0.10
#: Standard deviation of a repeated measurement in fresh processes, relative (see advisor/bench/combine.py).
NOISE = 0.05


def arm_of(plan: Plan) -> tuple[object, ...]:
    """Return what a plan runs through, batch and threads apart: the software, and over several devices how the work is dealt out."""
    split = (plan.dp > 1, plan.tp, plan.pp, plan.cp, plan.sharding) if plan.devices > 1 else ()
    return (plan.framework, plan.execution, plan.precision, plan.quantization, *split)


@dataclass(slots=True)
class Residuals:
    """The posterior of log(measured / predicted) for a fixed list of plans with prior spreads ``sigma``."""

    plans: Sequence[Plan]
    sigma: Floats
    _rows: list[int] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)

    def observe(self, row: int, log_ratio: float) -> None:
        """Take note that plan ``row`` came out at exp(log_ratio) times its prediction."""
        self._rows.append(row)
        self._values.append(log_ratio)

    def posterior(self) -> tuple[Floats, Floats]:
        """Return (mean, standard deviation) of the residual of every plan."""
        prior = self._kernel(range(len(self.plans)), range(len(self.plans)), diagonal=True)
        if not self._rows:
            return np.zeros(len(self.plans)), np.sqrt(prior)
        seen = self._kernel(self._rows, self._rows) + NOISE**2 * np.eye(len(self._rows))
        cross = self._kernel(range(len(self.plans)), self._rows)
        mean = cross @ np.linalg.solve(seen, np.array(self._values))
        variance = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(seen, cross.T))
        return mean, np.sqrt(np.maximum(variance, NOISE**2 * 0.01))

    def _kernel(self, left: Sequence[int], right: Sequence[int], *, diagonal: bool = False) -> Floats:
        if diagonal:
            return self.sigma**2
        result = np.empty((len(left), len(right)))
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                p, q = self.plans[a], self.plans[b]
                share = SHARED + FRAMEWORK * (p.framework == q.framework) + ARM * (arm_of(p) == arm_of(q)) + OWN * (a == b)
                result[i, j] = self.sigma[a] * self.sigma[b] * share
        return result


def expected_gain(best: float, mean: Floats, deviation: Floats) -> Floats:
    """Return the expected relative gain of measuring: E[max(0, best - X)] for X normal, all in logarithms of the score.

    Expected improvement (Jones, Schonlau and Welch 1998, equation 15).
    """
    z = (best - mean) / deviation
    density = np.array([exp(-0.5 * v * v) / sqrt(2 * pi) for v in z])
    below = np.array([0.5 * (1 + erf(v / sqrt(2))) for v in z])
    return np.asarray((best - mean) * below + deviation * density)
