"""Scores as the validate document states them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.accuracy.ranking import kendall_tau
from advisor.accuracy.records import Prediction
from advisor.accuracy.score import score


def told(identity: str, measured: float, predicted: float, **fields: object) -> Prediction:
    base: dict[str, object] = {"group": "g", "hardware": "A100-80", "low": predicted * 0.8, "high": predicted * 1.25}
    return Prediction(id=identity, measured=measured, predicted=predicted, **{**base, **fields})  # type: ignore[arg-type]


def test_errors_coverage_and_assumed_rows_are_kept_apart() -> None:
    rows = [told("a", 1.0, 1.1), told("b", 1.0, 0.9), told("c", 1.0, 1.6), told("d", 1.0, 5.0, assumed=True)]
    document = score("training", rows)
    assert document["overall"]["n"] == 3
    assert document["overall"]["median_abs_pct_error"] == pytest.approx(10.0)
    assert document["overall"]["coverage_80"] == pytest.approx(2 / 3)
    assert document["assumed"]["n"] == 1
    assert document["scored"] == 4
    assert set(document["by"]) == {"g"}


def test_skipped_rows_are_counted_by_reason() -> None:
    nothing = Prediction(id="x", group="g", hardware="", measured=None, predicted=None, skipped="no batch")
    document = score("training", [nothing, told("a", 1.0, 1.0)], rows=True)
    assert document["skipped"] == {"no batch": 1}
    assert document["rows"] == 2
    assert document["predictions"][0]["skipped"] == "no batch"


def test_memory_is_scored_by_definition() -> None:
    rows = [told("a", 10.0, 11.0, quantity="memory", mem_kind="allocated"), told("b", 10.0, 13.0, quantity="memory", mem_kind="device")]
    memory = score("training", rows)["memory"]
    assert memory["by"]["allocated"]["median_abs_pct_error"] == pytest.approx(10.0)
    assert memory["overall"] == {"n": 2, "median_abs_pct_error": pytest.approx(20.0), "max_abs_pct_error": pytest.approx(30.0)}


def test_out_of_memory_counts() -> None:
    rows = [
        Prediction(id="o1", group="g", hardware="", quantity="memory", measured=None, predicted=9.0, status="oom", fits=False),
        Prediction(id="o2", group="g", hardware="", quantity="memory", measured=None, predicted=1.0, status="oom", fits=True),
        told("a", 1.0, 1.0, fits=True),
        told("b", 1.0, 1.0, fits=False),
    ]
    assert score("training", rows)["oom"] == {"true_oom": 2, "caught": 1, "false_alarms": 1, "fits": 2}


def test_ranking_needs_four_plans_and_merges_repeats() -> None:
    family = ("g", "m", "h", "8", "2048", "64")
    times = {"p1": 1.0, "p2": 1.2, "p3": 1.5, "p4": 2.0}
    rows = [told(f"{plan}-{i}", t * (1 + 0.01 * i), t, family=family, plan=plan) for plan, t in times.items() for i in range(2)]
    ranking = score("training", rows)["ranking"]
    assert ranking["families"] == 1
    assert ranking["kendall_tau_median"] == pytest.approx(1.0)
    assert ranking["top1_regret_mean"] == pytest.approx(0.0)
    assert score("training", rows[:6])["ranking"]["families"] == 0
    wrong = [told(p.id, p.measured or 0.0, 3.0 - (p.predicted or 0.0), family=family, plan=p.plan) for p in rows]
    worst = score("training", wrong)["ranking"]["by"]["g"]
    assert worst["kendall_tau_median"] == pytest.approx(-1.0)
    assert worst["top1_regret_mean"] == pytest.approx(1.0)


def test_nothing_at_all_is_a_document_too() -> None:
    document = score("training", [])
    assert document["overall"]["n"] == 0
    assert document["overall"]["median_abs_pct_error"] is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=4, max_size=12))
def test_kendall_tau_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    a, b = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    ours, theirs = kendall_tau(a, b), stats.kendalltau(a, b).statistic
    assert ours == pytest.approx(theirs, nan_ok=True)
