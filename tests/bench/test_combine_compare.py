"""Rounds become one measurement with an honest interval; two sets are compared without being fooled by noise."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.bench.combine import DRIFT, combine, later_run, redo, student_t95
from advisor.bench.compare import compare
from microbench.protocol import Measurement


def line(value, status="ok", **changes):
    fields = {
        "benchmark": "gemm", "backend": "numpy", "backend_version": "2.0", "device": "cpu", "dtype": "fp32",
        "params": {"m": 8, "n": 8, "k": 8, "threads": 2}, "metric": "flops_per_s", "unit": "FLOP/s",
        "value": value, "low": value, "high": value,
        "run_low": value and value * 0.99, "run_high": value and value * 1.01, "samples": 5, "seconds": 0.1, "status": status,
        "max_error": 1e-7, "sample_seconds": (1e-3,) * 5,
        "conditions": {"clean_samples": 5, "quiet_samples": 5, "foreign_share": 0.0, "converged": True},
    }  # fmt: skip
    return Measurement(**{**fields, **changes}).to_dict()


@given(st.lists(st.floats(min_value=1e3, max_value=1e12), min_size=1, max_size=9))
def test_the_interval_holds_the_value(values):
    value, low, high = later_run(values, 0.04)
    assert low < value < high
    assert min(values) <= value <= max(values)


def test_the_interval_contains_a_later_run_when_rounds_drift_as_the_prior_says():
    rng = np.random.default_rng(11)
    for rounds in (2, 3):
        hits = 0
        for _ in range(3000):
            logs = rng.normal(0.0, DRIFT["flops_per_s"], rounds + 1)
            _, low, high = later_run(list(np.exp(logs[:rounds])), DRIFT["flops_per_s"])
            hits += low <= math.exp(logs[rounds]) <= high
        assert 0.93 <= hits / 3000 <= 0.985


def test_the_interval_widens_when_the_rounds_themselves_differ_more():
    _, low, high = later_run([1.0, 1.0, 1.0], 0.04)
    _, wide_low, wide_high = later_run([0.8, 1.0, 1.25], 0.04)
    assert wide_low < low
    assert wide_high > high
    assert high / 1.0 - 1 < 0.15


def test_student_quantiles():
    scipy_stats = pytest.importorskip("scipy.stats")
    for degrees in (1, 2, 7, 8, 30):
        assert student_t95(degrees) == pytest.approx(scipy_stats.t.ppf(0.975, degrees), abs=2e-3)


def test_one_wrong_round_spoils_the_measurement():
    combined = combine([line(1e9), line(None, "wrong_result", reason="off")], "cpu0")
    assert (combined.status, combined.value, combined.device) == ("wrong_result", None, "cpu0")


def test_contended_only_if_every_round_was():
    assert combine([line(1e9, "contended"), line(2e9)], "cpu0").status == "ok"
    assert combine([line(1e9, "contended"), line(2e9)], "cpu0").value == 2e9
    both = combine([line(1e9, "contended"), line(1e9, "contended")], "cpu0")
    assert (both.status, both.value) == ("contended", 1e9)


def test_samples_of_all_rounds_are_kept_and_disturbed_rounds_widen():
    clean = combine([line(1e9), line(1.02e9)], "cpu0")
    assert clean.samples == len(clean.sample_seconds) == 10
    assert clean.conditions["rounds"] == 2
    noisy = {"clean_samples": 0, "foreign_share": 0.3, "converged": False}
    disturbed = combine([line(1e9, conditions=noisy), line(1.02e9, conditions=noisy)], "cpu0")
    assert disturbed.high > clean.high
    busy = {"clean_samples": 5, "quiet_samples": 0, "foreign_share": 0.3, "converged": True}
    assert combine([line(1e9, conditions=busy)] * 2, "cpu0").high > combine([line(1e9)] * 2, "cpu0").high
    assert combine([line(1e9), line(0.3e9, conditions=noisy)], "cpu0").value == 1e9
    assert disturbed.conditions["foreign_share"] == 0.3


rounds_of_samples = st.lists(
    st.tuples(st.sampled_from(["ok", "contended"]), st.lists(st.tuples(st.floats(1e-6, 1e2), st.booleans()), min_size=3, max_size=12)),
    min_size=1,
    max_size=4,
)


@given(rounds_of_samples)
def test_statistics_can_be_redone_from_what_is_stored(drawn):
    lines = []
    for status, samples in drawn:
        seconds = [s for s, _ in samples]
        used = "".join("1" if use else "0" for _, use in samples) if any(use for _, use in samples) else "1" * len(samples)
        value = 1e9 / statistics.median(s for s, digit in zip(seconds, used, strict=True) if digit == "1")
        clean = {"clean_samples": used.count("1"), "used": used, "converged": True}
        lines.append(line(value, status, samples=len(seconds), sample_seconds=tuple(seconds), conditions=clean))
    combined = combine(lines, "cpu0")
    assert combined.samples == len(combined.sample_seconds) == sum(len(samples) for _, samples in drawn)
    again = redo(combined.sample_seconds, combined.conditions)
    assert [1e9 / seconds for seconds in again] == pytest.approx(combined.conditions["round_values"])
    assert statistics.median(1e9 / seconds for seconds in again) == pytest.approx(combined.value)


def test_stored_samples_give_the_value_again(tmp_path):
    from advisor.bench.records import BenchSpec
    from advisor.bench.run import run_bench
    from advisor.results.store import Store

    spec = BenchSpec(
        benchmarks=("gemm",), backends=("numpy",), dtypes=("fp32",), shapes=((64, 64, 64),), quick=True, budget_s=6.0, threads=1
    )
    (measured,) = run_bench(spec)
    with Store.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
        run = store.start_run(kind="bench", machine_id=None, software={}, command=None, settings={})
        store.add_measurement(run, measured.to_dict())
        (row,) = store.measurements(samples=True)
    again = [2 * 64**3 / seconds for seconds in redo(row["sample_seconds"], row["conditions"])]
    assert statistics.median(again) == pytest.approx(measured.value, rel=1e-4)
    assert len(row["sample_seconds"]) == measured.samples


def stored(value, width, metric="flops_per_s", **params):
    return line(value, low=value * (1 - width), high=value * (1 + width), metric=metric, params={"m": 8, "threads": 2, **params})


def test_verdicts():
    cases = {"same": 1.05, "faster": 1.5, "slower": 0.6}
    rows = compare([stored(1e9, 0.1, n=i) for i in range(3)], [stored(1e9 * r, 0.1, n=i) for i, r in enumerate(cases.values())])
    assert [row.verdict for row in rows] == list(cases)
    assert all(row.low < row.ratio < row.high for row in rows)
    assert rows[1].ratio == pytest.approx(1.5)


def test_seconds_are_inverted_small_gaps_are_ties_and_unmatched_cases_left_out():
    (row,) = compare([stored(2.0, 0.01, "seconds")], [stored(1.0, 0.01, "seconds"), stored(1.0, 0.01, "seconds", n=9)])
    assert (row.ratio, row.verdict) == (2.0, "faster")
    (row,) = compare([stored(1e9, 0.001)], [stored(1.02e9, 0.001)])
    assert row.verdict == "same"
    assert compare([line(None, "failed")], [line(None, "failed")]) == []


def test_the_newest_of_a_case_counts():
    (row,) = compare([stored(1e9, 0.1)], [stored(2e9, 0.1), stored(1e9, 0.1)])
    assert row.b == 2e9
