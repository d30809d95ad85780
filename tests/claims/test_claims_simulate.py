"""Laws of the simulated serving policies, and of the published comparison."""

from __future__ import annotations

import pytest

from advisor.claims.experiments.published import matches, pairs
from advisor.claims.simulate import best_utilisation, day_load, replica_hours, served


def test_batching_pays_only_where_a_batch_is_cheaper_than_its_parts() -> None:
    flat = {1: 0.1, 2: 0.1, 4: 0.1, 8: 0.1}
    linear = {size: 0.1 * size for size in flat}
    assert best_utilisation(flat, 8, 0.4, 1) > 3 * best_utilisation(flat, 1, 0.4, 1)
    assert best_utilisation(linear, 8, 0.4, 1) <= best_utilisation(linear, 1, 0.4, 1) + 0.05


def test_more_time_allows_more_load_and_too_little_none() -> None:
    latency = {1: 0.1, 4: 0.15}
    shares = [best_utilisation(latency, 4, limit, 3) for limit in (0.05, 0.2, 0.4, 2.0)]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[-1] <= 1.05


def test_a_light_load_is_served_as_it_comes() -> None:
    rate, delay = served({1: 0.001}, 10.0, 1, 5)
    assert rate == pytest.approx(10, rel=0.1)
    assert delay < 0.003


def test_scaling_saves_what_the_load_leaves_idle() -> None:
    assert replica_hours([1.0] * 288, 20, 0.7, 1, 1) == pytest.approx(1.0)
    shares = [replica_hours(day_load(floor, 1.0), 20, 0.7, 1, 1) for floor in (0.0, 0.3, 0.6, 1.0)]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.5, abs=0.04)


def test_rows_are_paired_by_their_columns() -> None:
    rows = [
        {"id": "1", "p": "fp16", "model": "a", "v": "30"},
        {"id": "2", "p": "fp32", "model": "a", "v": "10"},
        {"id": "3", "p": "fp16", "model": "b", "v": "8"},
        {"id": "4", "p": "fp32", "model": "c", "v": "9"},
        {"id": "5", "p": "fp32", "model": "b", "v": ""},
    ]
    found = pairs(rows, {"value": "v", "a": {"p": "fp16"}, "b": {"p": "fp32"}, "pair_by": ["model"]})
    assert [(a["id"], b["id"]) for a, b in found if b is not None] == [("1", "2")]
    assert matches(rows[0], {"p": {"contains": "FP1"}, "model": ["a", "b"]})
    assert not matches(rows[0], {"p": "fp1"})
