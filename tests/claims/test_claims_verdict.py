"""Laws of verdicts: each side of the tolerance, exchange of sides, several settings."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.claims.records import Claim, Outcome, Setting
from advisor.claims.verdict import judge, judge_outcome, overall, sample_interval


def claim(**changes: Any) -> Claim:
    fields: dict[str, Any] = {
        "id": "x", "statement": "A is twice as fast", "metric": "throughput_ratio", "low": 2.0, "high": 2.0, "unit": "ratio",
        "holds": "at_least", "tolerance": 0.15, "conditions": "", "source": "test", "tests": (),
    }  # fmt: skip
    return Claim(**{**fields, **changes})


def verdict_of(samples: tuple[float, ...], *, drift: float = 0.04, **changes: Any) -> str:
    return judge_outcome(claim(**changes), Outcome(settings=(Setting(label="s", samples=samples),), drift=drift))[0]


@pytest.mark.parametrize(
    ("samples", "changes", "verdict"),
    [
        ((2.0, 2.05, 1.98), {}, "confirmed"),
        ((1.75, 1.8, 1.78), {}, "confirmed"),
        ((5.0, 5.1, 4.9), {}, "confirmed"),
        ((1.2, 1.22, 1.21), {}, "refuted"),
        ((0.5, 0.51, 0.5), {}, "refuted"),
        ((0.5, 6.0, 2.2), {}, "inconclusive"),
        ((1.66, 1.64, 1.68), {}, "inconclusive"),
        ((0.6, 0.61, 0.59), {"holds": "at_most", "low": 0.4, "high": 0.4}, "refuted"),
        ((0.41, 0.42, 0.4), {"holds": "at_most", "low": 0.4, "high": 0.4}, "confirmed"),
        ((0.1, 0.1, 0.1), {"holds": "at_most", "low": 0.4, "high": 0.4}, "confirmed"),
        ((2.9, 3.0, 3.1), {"low": 2.0, "high": 3.0, "holds": "about"}, "confirmed"),
        ((4.9, 5.0, 5.1), {"low": 2.0, "high": 3.0, "holds": "about"}, "refuted"),
    ],
)
def test_each_side_of_the_tolerance(samples: tuple[float, ...], changes: dict[str, Any], verdict: str) -> None:
    assert verdict_of(samples, **changes) == verdict


def test_no_difference_does_not_confirm_a_difference() -> None:
    assert judge(claim(low=1.1, high=1.1), 1.05, 0.97, 1.14) == "confirmed"  # its band reaches to 0.935: "no difference" is in it
    assert judge(claim(low=1.3, high=1.3), 1.15, 0.97, 1.36) == "inconclusive"


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=8), st.floats(0, 0.2))
def test_exchange_of_sides_inverts_number_and_interval(samples: list[float], drift: float) -> None:
    value, low, high = sample_interval(samples, drift)
    other, other_low, other_high = sample_interval([1 / sample for sample in samples], drift)
    assert low <= value * (1 + 1e-12)
    assert value <= high * (1 + 1e-12)
    assert other == pytest.approx(1 / value)
    assert other_low == pytest.approx(1 / high)
    assert other_high == pytest.approx(1 / low)


@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=6), st.floats(1.5, 30))
def test_scaling_the_samples_scales_the_interval(samples: list[float], factor: float) -> None:
    assert sample_interval([factor * s for s in samples], 0.04) == pytest.approx([factor * x for x in sample_interval(samples, 0.04)])


def test_the_interval_closes_with_more_samples_and_opens_with_drift() -> None:
    samples = [1.0, 1.2, 0.9, 1.1]

    def width(many: list[float], drift: float) -> float:
        _, low, high = sample_interval(many, drift)
        return math.log(high / low)

    assert width(samples * 25, 0.04) < 0.5 * width(samples, 0.04)
    assert width([1.0, 1.0], 0.04) < width([1.0, 1.0], 0.08)
    assert width([1.0], 0.04) > 0


def test_one_disturbed_round_of_six_does_not_decide() -> None:
    clean = [2.0, 2.04, 1.97, 2.02, 1.99]
    assert verdict_of((*clean, 20.0)) == "confirmed"
    assert sample_interval([*clean, 20.0], 0.06)[0] == pytest.approx(2.0, rel=0.03)


def test_the_interval_covers_the_true_ratio_as_often_as_it_says() -> None:
    """Three rounds of a true ratio of 1.5, drawn with the prior's drift: 95 % of the intervals hold it."""
    rng = random.Random(7)
    drift = 0.06
    held = 0
    for _ in range(2000):
        _, low, high = sample_interval([1.5 * math.exp(rng.gauss(0, drift)) for _ in range(3)], drift)
        held += low <= 1.5 <= high
    assert 0.93 <= held / 2000 <= 0.99


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["confirmed", "confirmed"], "confirmed"),
        (["refuted"], "refuted"),
        (["confirmed", "refuted"], "depends"),
        (["confirmed", "inconclusive", "refuted"], "depends"),
        (["confirmed", "inconclusive"], "inconclusive"),
        ([], "not_testable"),
    ],
)
def test_over_settings(verdicts: list[Any], expected: str) -> None:
    assert overall(verdicts) == expected
