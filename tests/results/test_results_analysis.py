"""Outliers against a fleet, regressions between versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.results import analysis
from advisor.results.filters import Filters
from advisor.results.store import Store


class Fleet:
    """Stores what machines measured, and asks what stands out."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.runs: dict[str, str] = {}

    def measured(self, *values: float, machine: str = "f00d", version: str = "2.12", day: int = 1, **changes: Any) -> None:
        if machine not in self.runs:
            devices = [{"id": "cuda:0", "name": "A100", "target": "cuda", "state": "usable"}]
            document = {"schema_version": 1, "fingerprint": machine, "host": {}, "devices": devices}
            self.runs[machine] = self.store.start_run(kind="bench", machine_id=self.store.save_machine(document))
        same = {"benchmark": "gemm", "backend": "torch", "backend_version": version, "device": "cuda:0", "dtype": "bf16"}
        more = {"params": {"m": 64}, "metric": "flops_per_s", "measured_at": f"2026-01-{day:02d}T00:00:00+00:00"}
        self.store.add_measurements(self.runs[machine], [{**same, **more, "value": value, **changes} for value in values])

    def find(self, kind: str, **wanted: Any) -> list[dict[str, Any]]:
        with self.store.reading() as connection:
            return analysis.KINDS[kind][0](connection, Filters(**wanted)).rows


@pytest.fixture
def fleet(database_url: str) -> Iterator[Fleet]:
    with Store.open(database_url) as store:
        yield Fleet(store)


def test_the_slow_card_of_a_fleet_is_found(fleet: Fleet) -> None:
    for index in range(9):
        fleet.measured(200.0 + index, machine=f"n{index}")
    fleet.measured(120.0, machine="n9")
    (found,) = fleet.find("outliers")
    assert (found["machine"], found["value"], found["count"], found["device"]) == ("n9", 120.0, 10, "A100")
    # median of the logarithms: between 203 and 204; MAD about 1.2 %.
    assert found["median"] == pytest.approx(203.5, abs=0.5)
    assert found["robust_z"] < -20
    assert set(analysis.OUTLIER_COLUMNS) <= set(found)


def test_few_values_and_other_work_say_nothing(fleet: Fleet) -> None:
    fleet.measured(*[200.0] * 3, 1.0)
    assert fleet.find("outliers") == []
    fleet.measured(*[200.0] * 6)
    assert len(fleet.find("outliers")) == 1
    fleet.store.retract(fleet.find("outliers")[0]["id"], "fan")
    fleet.measured(1.0, params={"m": 1})
    fleet.measured(1.0, status="throttled")
    assert fleet.find("outliers") == []


@given(st.lists(st.floats(0.97, 1.03), min_size=5, max_size=20), st.floats(1e-6, 1e15))
def test_noise_of_three_percent_is_never_an_outlier(noise: list[float], scale: float) -> None:
    values = np.array(noise) * scale
    scores, medians, sizes = analysis.robust_z(np.zeros(len(values), dtype=np.int64), values)
    assert sizes.tolist() == [len(values)]
    assert np.all((np.abs(scores) < analysis.THRESHOLD) | (np.abs(values / medians[0] - 1) > 0.05))


def test_a_slower_version_is_found(fleet: Fleet) -> None:
    fleet.measured(200.0, 202.0, 198.0)
    fleet.measured(160.0, version="2.13", day=20)
    fleet.measured(210.0, version="2.14", day=25)
    (found,) = fleet.find("regressions")
    assert (found["from_version"], found["to_version"], found["before"], found["after"]) == ("2.12", "2.13", 200.0, 160.0)
    assert found["worse_pct"] == pytest.approx(25.0)
    assert set(analysis.REGRESSION_COLUMNS) <= set(found)


def test_time_counts_the_other_way(fleet: Fleet) -> None:
    fleet.measured(1.0, metric="seconds")
    fleet.measured(1.5, metric="seconds", version="2.13", day=2)
    fleet.measured(0.5, metric="seconds", version="2.14", day=3)
    (found,) = fleet.find("regressions")
    assert found["worse_pct"] == pytest.approx(50.0)


def test_what_may_be_chance_is_not_reported(fleet: Fleet) -> None:
    fleet.measured(200.0)
    fleet.measured(195.0, version="2.13", day=2)
    fleet.measured(150.0, version="2.14", day=3, low=100.0, high=210.0)
    fleet.measured(100.0, version="2.15", day=4, machine="another")
    fleet.measured(100.0, version="2.15", day=4, params={"m": 65})
    assert fleet.find("regressions") == []


def test_the_worst_come_first_and_a_limit_keeps_them(fleet: Fleet) -> None:
    for index in range(12):
        fleet.measured(200.0, machine=f"n{index}")
        # Every second one may be chance.
        fleet.measured(100.0 + index, machine=f"n{index}", version="2.13", day=2, low=1.0, high=300.0 if index % 2 else 150.0)
    everything = fleet.find("regressions")
    assert [row["after"] for row in everything] == [100.0, 102.0, 104.0, 106.0, 108.0, 110.0]
    assert fleet.find("regressions", limit=2) == everything[:2]
