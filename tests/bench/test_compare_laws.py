"""Laws of a comparison: symmetric, blind to units, not swayed by noise, sure of what is far apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.bench.combine import DRIFT, combine
from advisor.bench.compare import LEAST_GAP, compare, left_out
from microbench.protocol import Measurement

OPPOSITE = {"faster": "slower", "slower": "faster", "same": "same"}
METRICS = {"flops_per_s": "FLOP/s", "bytes_per_s": "B/s", "seconds": "s", "samples_per_s": "samples/s"}
values = st.floats(1e-6, 1e15)
widths = st.floats(0.001, 0.5)
metrics = st.sampled_from(sorted(METRICS))


def row(value, width=0.1, metric="flops_per_s", **params):
    return Measurement(
        benchmark="any", backend="numpy", backend_version="2", device="cpu0", dtype="fp32", params={"threads": 2, **params}, metric=metric,
        unit=METRICS[metric], value=value, low=value / (1 + width), high=value * (1 + width), run_low=value, run_high=value, samples=9,
        seconds=0.1, status="ok", sample_seconds=(1e-3,) * 9, conditions={"clean_samples": 9, "converged": True},
    ).to_dict()  # fmt: skip


@given(values, values, widths, widths, metrics)
def test_the_other_way_round_is_the_inverse(a, b, wide_a, wide_b, metric):
    (there,), (back,) = (
        compare([row(a, wide_a, metric)], [row(b, wide_b, metric)]),
        compare([row(b, wide_b, metric)], [row(a, wide_a, metric)]),
    )
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert (back.low, back.high) == (pytest.approx(1 / there.high), pytest.approx(1 / there.low))
    # At the very edge of a bar one side may round across it.
    if (
        abs(there.ratio - 1 - LEAST_GAP) > 1e-9
        and abs(1 / there.ratio - 1 - LEAST_GAP) > 1e-9
        and min(abs(there.low - 1), abs(there.high - 1)) > 1e-9
    ):
        assert back.verdict == OPPOSITE[there.verdict]


@given(values, widths, metrics)
def test_a_run_is_the_same_as_itself(value, width, metric):
    (found,) = compare([row(value, width, metric)], [row(value, width, metric)])
    assert (found.ratio, found.verdict) == (1.0, "same")
    assert found.low <= 1 <= found.high


@given(values, values, widths, widths)
def test_more_seconds_is_slower_and_more_per_second_is_faster(a, b, wide_a, wide_b):
    (rate,) = compare([row(a, wide_a)], [row(b, wide_b)])
    (time,) = compare([row(a, wide_a, "seconds")], [row(b, wide_b, "seconds")])
    assert time.ratio == pytest.approx(1 / rate.ratio)
    assert (rate.ratio > 1) == (b > a)
    for found in (rate, time):
        assert found.verdict != "faster" or found.low > 1
        assert found.verdict != "slower" or found.high < 1


@given(values, st.floats(1.0, 3.0), widths, widths)
def test_intervals_that_hold_each_others_value_are_the_same(value, factor, wide_a, wide_b):
    other = value * factor
    if other <= value * (1 + wide_a) and other / (1 + wide_b) <= value:
        (found,) = compare([row(value, wide_a)], [row(other, wide_b)])
        assert found.verdict == "same"


@given(values, widths, widths, st.floats(1e-3, 1e3))
def test_units_do_not_matter(value, wide_a, wide_b, scale):
    (one,) = compare([row(value, wide_a)], [row(2 * value, wide_b)])
    (two,) = compare([row(value * scale, wide_a)], [row(2 * value * scale, wide_b)])
    assert (two.ratio, two.low, two.high) == (pytest.approx(one.ratio), pytest.approx(one.low), pytest.approx(one.high))


def run_of(rng, cases, speed=1.0, drift=1.0):
    """One run as the product combines it: three rounds whose medians drift from process to process."""
    found = []
    for case in range(cases):
        rounds = []
        for _ in range(3):
            value = speed * 1e9 * float(np.exp(rng.normal(0.0, drift * DRIFT["flops_per_s"])))
            rounds.append(row(value, case=case))
        found.append(combine(rounds, "cpu0").to_dict())
    return found


@pytest.mark.parametrize("drift", [0.5, 1.0, 1.5])
def test_noise_alone_is_rarely_called_a_difference(drift):
    rng = np.random.default_rng(8)
    verdicts = [c.verdict for c in compare(run_of(rng, 800, drift=drift), run_of(rng, 800, drift=drift))]
    assert sum(v != "same" for v in verdicts) / len(verdicts) <= 0.05


def test_what_is_a_third_faster_is_found_and_in_the_right_direction():
    rng = np.random.default_rng(9)
    verdicts = [c.verdict for c in compare(run_of(rng, 400), run_of(rng, 400, speed=1.35))]
    assert verdicts.count("faster") / len(verdicts) >= 0.95
    assert "slower" not in verdicts


def test_a_contended_measurement_is_not_compared():
    busy = {**row(2e9), "status": "contended"}
    assert compare([row(1e9)], [busy]) == []
    assert left_out([row(1e9), row(1e9, n=2)], [busy, row(1e9, n=2), row(1e9, n=3)]) == {"a": 1, "b": 1}


def test_what_people_read_says_what_differs_first_with_both_values():
    from advisor.report.bench import comparison_lines

    ours = [row(1e9, 0.02, m=1, n=8, k=8), row(1e9, 0.02, m=2, n=8, k=8), row(1e-3, 0.02, "seconds", operators=1, size=8)]
    theirs = [row(1.01e9, 0.02, m=1, n=8, k=8), row(1.5e9, 0.02, m=2, n=8, k=8), row(3e-3, 0.02, "seconds", operators=1, size=8)]
    head, *lines = comparison_lines([found.to_dict() for found in compare(ours, theirs)])
    assert [line.split()[-1] for line in lines] == ["slower", "faster", "same"]
    assert all(part in lines[0] for part in (" 1 ms", " 3 ms", "0.33x"))
    assert all(part in lines[1] for part in ("1.5 GFLOP/s", "1.50x"))
    assert head.split()[:4] == ["case", "dtype", "backend", "threads"]


def test_the_least_gap_is_the_same_either_way():
    gap = 1 + LEAST_GAP + 0.0005
    (there,), (back,) = compare([row(1.0, 1e-6)], [row(gap, 1e-6)]), compare([row(gap, 1e-6)], [row(1.0, 1e-6)])
    assert (there.verdict, back.verdict) == ("faster", "slower")


def test_the_roof_names_every_level_and_meets_at_the_memorys():
    from advisor.report.bench import roof_lines

    def measured(benchmark, value, metric, backend="numpy", **params):
        return {**row(value, metric=metric, **params), "benchmark": benchmark, "backend": backend}

    rows = [
        measured("gemm", 200e9, "flops_per_s", m=8, n=8, k=8),
        *(
            measured("bandwidth", value, "bytes_per_s", operation="copy", level=level)
            for level, value in {"L2": 200e9, "memory": 20e9, "disk": 1e9}.items()
        ),
    ]
    lines = roof_lines(rows)
    assert [line.split()[0] for line in lines] == ["fp32", "L2", "memory", "disk", "fp32"]
    assert "under 10.0 FLOP/byte" in lines[-1]


def test_a_load_beside_us_is_told():
    from advisor.report.bench import others_lines

    def beside(share):
        return {**row(1e9), "conditions": {"foreign_share": share}}

    assert others_lines([beside(0.01), beside(None), beside(0.02)]) == []
    assert others_lines([row(1e9)]) == []
    (line,) = others_lines([beside(0.25), beside(0.3), beside(0.2)])
    assert "25%" in line
    assert "30%" in line
