"""Fit the parameters of the training model to measured rows.

Minimises, over the logarithms of the parameters within their bounds, a robust (Cauchy) loss of log(predicted / measured), plus the
distance of each parameter from its prior in units of its prior's spread. Rows count ``n ** -0.5`` of their group, so that a large table
does not outvote the small ones. Deterministic: no random start, one solver. Needs scipy (extra ``calibrate``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.parameter import Parameter
from advisor.errors import EnvironmentLacks

Floats = npt.NDArray[np.float64]

#: Predicts all rows under a calibration, float64[n].
Predictor = Callable[[Calibration], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Values and spreads (standard deviation of the logarithm) of the fitted parameters, and how often the model was evaluated."""

    values: Mapping[str, float]
    spreads: Mapping[str, float]
    evaluations: int


def weights_of(groups: Sequence[str]) -> Floats:
    """Return the weight of each row: rows of a group of n count n ** -0.5 each, normalised to a mean square of one."""
    counts = {name: groups.count(name) for name in set(groups)}
    weights = np.array([counts[name] ** -0.25 for name in groups])
    return weights / np.sqrt(np.mean(weights**2)) if len(weights) else weights


def fit(
    parameters: Sequence[Parameter],
    predict: Predictor,
    measured: Floats,
    weights: Floats,
    calibration: Calibration,
    *,
    scale: float = 0.04,
    prior_weight: float = 1.0,
    max_evaluations: int = 60,
) -> Fitted:
    """Return the parameters that explain ``measured`` (all positive) best, starting from the values in ``calibration``.

    ``scale`` is the size of log residual beyond which a row counts as an outlier. EnvironmentLacks without scipy.
    """
    try:
        from scipy.optimize import least_squares
    except ImportError as error:
        raise EnvironmentLacks("NO-SCIPY", "calibration needs scipy", "pip install 'hw-advisor[calibrate]'") from error
    names = [p.name for p in parameters]
    current = np.log([calibration.parameters[name].value for name in names])
    low, high = np.log([p.low for p in parameters]), np.log([p.high for p in parameters])
    prior, spread = np.log([p.prior for p in parameters]), np.array([p.prior_log_sigma for p in parameters])
    target = np.log(measured)

    def residuals(theta: Floats) -> Floats:
        trial = calibration.with_values(dict(zip(names, np.exp(theta), strict=True)))
        error = (np.log(np.maximum(predict(trial), 1e-30)) - target) / scale
        # A row's loss grows like the logarithm of its squared error (Cauchy): a run that went wrong loses its pull.
        # The priors stay quadratic.
        soft = np.sign(error) * np.sqrt(np.log1p(error**2)) * weights
        return np.concatenate([soft, prior_weight * (theta - prior) / spread])

    start = np.clip(current, low + 1e-9, high - 1e-9)
    solution = least_squares(
        residuals, start, bounds=(low, high), x_scale=spread, max_nfev=max_evaluations, diff_step=1e-4, xtol=1e-5, ftol=1e-6
    )
    covariance = np.linalg.pinv(solution.jac.T @ solution.jac)
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return Fitted(
        values={name: float(np.exp(v)) for name, v in zip(names, solution.x, strict=True)},
        spreads={name: float(v) for name, v in zip(names, deviations, strict=True)},
        evaluations=int(solution.nfev),
    )
