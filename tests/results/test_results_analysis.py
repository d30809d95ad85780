"""Outliers against a fleet, regressions between versions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.results import analysis


def measured(value: float, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": f"m{value}", "benchmark": "gemm", "backend": "torch", "backend_version": "2.12", "device": "cuda:0", "device_name": "A100",
        "device_profile": None, "dtype": "bf16", "params": {"m": 64}, "metric": "flops_per_s", "unit": "FLOP/s", "value": value,
        "low": None, "high": None, "status": "ok", "retracted": None, "machine": "f00d", "series": "s",
        "measured_at": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    return fields | changes


def test_the_slow_card_of_a_fleet_is_found() -> None:
    fleet = [measured(200.0 + index, machine=f"n{index}") for index in range(9)] + [measured(120.0, machine="n9")]
    (found,) = analysis.outliers(fleet)
    assert (found["machine"], found["value"], found["count"]) == ("n9", 120.0, 10)
    # median of the logarithms: between 203 and 204; MAD about 1.2 %.
    assert found["median"] == pytest.approx(203.5, abs=0.5)
    assert found["robust_z"] < -20


def test_few_values_and_other_work_say_nothing() -> None:
    assert analysis.outliers([measured(200.0)] * 3 + [measured(1.0)]) == []
    assert analysis.outliers([measured(200.0)] * 9 + [measured(1.0, params={"m": 1})]) == []
    assert analysis.outliers([measured(200.0)] * 9 + [measured(1.0, retracted="fan")]) == []
    assert analysis.outliers([measured(200.0)] * 9 + [measured(1.0, status="throttled")]) == []


@given(st.lists(st.floats(0.97, 1.03), min_size=5, max_size=20), st.floats(1e-6, 1e15))
def test_noise_of_three_percent_is_never_an_outlier(noise: list[float], scale: float) -> None:
    assert all(abs(row["value"] / row["median"] - 1) > 0.05 for row in analysis.outliers([measured(scale * value) for value in noise]))


def later(value: float, version: str = "2.13", **changes: Any) -> dict[str, Any]:
    return measured(value, backend_version=version, measured_at="2026-02-01T00:00:00+00:00", **changes)


def test_a_slower_version_is_found() -> None:
    (found,) = analysis.regressions([measured(200.0), measured(202.0), measured(198.0), later(160.0)])
    assert (found["from_version"], found["to_version"], found["before"], found["after"]) == ("2.12", "2.13", 200.0, 160.0)
    assert found["worse_pct"] == pytest.approx(25.0)


def test_time_counts_the_other_way() -> None:
    seconds = {"metric": "seconds", "unit": "s"}
    (found,) = analysis.regressions([measured(1.0, **seconds), later(1.5, **seconds)])
    assert found["worse_pct"] == pytest.approx(50.0)
    assert analysis.regressions([measured(1.0, **seconds), later(0.5, **seconds)]) == []


def test_what_may_be_chance_is_not_reported() -> None:
    assert analysis.regressions([measured(200.0), later(195.0)]) == []
    assert analysis.regressions([measured(200.0), later(150.0, low=100.0, high=210.0)]) == []
    assert analysis.regressions([measured(200.0), later(100.0, series="other machine")]) == []
    assert analysis.regressions([measured(200.0), later(260.0)]) == []
