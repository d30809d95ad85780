"""The fit finds what made the data, stays within its bounds, and does not depend on the run."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.accuracy.fit import fit, weights_of
from advisor.accuracy.training_fit import leave_out, spread, time_sample, without
from advisor.accuracy.training_rows import prepare
from advisor.cost.calibration import Calibration
from advisor.cost.parameter import Parameter
from advisor.cost.parameters import TIME_PARAMETERS
from advisor.results.published import read_published
from advisor.usecases.calibration import load_calibration

pytest.importorskip("scipy")

A = Parameter(name="a", meaning="slope", unit="s", value=1.0, prior=1.0, low=0.1, high=10.0, prior_log_sigma=1.0)
B = Parameter(name="b", meaning="offset", unit="s", value=1.0, prior=1.0, low=0.1, high=2.0, prior_log_sigma=1.0)
X = np.linspace(1.0, 20.0, 60)


def line(k: Calibration) -> np.ndarray:
    return k["a"] * X + k["b"]


def test_recovers_parameters_in_spite_of_outliers() -> None:
    start = Calibration(parameters={"a": A, "b": B})
    measured = 3.0 * X + 0.5
    measured[::10] *= 4.0
    found = fit((A, B), line, measured, np.ones(len(X)), start)
    assert found.values["a"] == pytest.approx(3.0, rel=0.02)
    assert found.values["b"] == pytest.approx(0.5, rel=0.3)
    assert found.spreads["a"] < 0.1
    assert fit((A, B), line, measured, np.ones(len(X)), start) == found


def test_bounds_hold() -> None:
    found = fit((A, B), line, 3.0 * X + 50.0, np.ones(len(X)), Calibration(parameters={"a": A, "b": B}))
    assert found.values["b"] <= B.high


def test_a_large_group_does_not_outvote_a_small_one() -> None:
    weights = weights_of(["big"] * 100 + ["small"] * 4)
    assert (weights[:100] ** 2).sum() / (weights[100:] ** 2).sum() == pytest.approx((100 / 4) ** 0.5)


def test_parameters_are_few_named_once_and_explained() -> None:
    names = [p.name for p in TIME_PARAMETERS]
    assert len(set(names)) == len(names) <= 45
    assert all(p.meaning and p.unit and p.source for p in TIME_PARAMETERS)


def test_leaving_out_a_group_predicts_all_of_it_from_the_others() -> None:
    rows = [row for row in read_published("training") if row["group"] in ("megatron_sc21", "internevo_flops")]
    k = load_calibration()
    prepared = prepare(rows, k)
    sample = time_sample(prepared)
    assert set(without(prepared, sample, "group", "megatron_sc21").groups) == {"internevo_flops"}
    unseen = [p for p in leave_out(prepared, k, "group") if p.error is not None]
    assert {p.group for p in unseen} == {"megatron_sc21", "internevo_flops"}
    assert spread(unseen, "time") is not None
