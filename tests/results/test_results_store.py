"""The store on both databases: what goes in comes out, once, and withdrawn things stay out of answers."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from advisor.errors import DatabaseError, UnknownName, UsageError
from advisor.results.store import Store
from microbench.protocol import Measurement


def machine(fingerprint: str = "f00d", *, available: int = 1, name: str = "Xeon Gold") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "fingerprint": fingerprint,
        "host": {"os": "Linux", "memory": {"total_bytes": 1 << 34, "available_bytes": available}},
        "devices": [
            {"id": "cpu0", "target": "cpu-x86", "vendor": "Intel", "name": name, "memory_bytes": 1 << 34, "state": "usable"},
            {
                "id": "cuda:1",
                "target": "cuda",
                "vendor": "NVIDIA",
                "name": "A100-SXM4-80GB",
                "profile": "a100-sxm4-80gb",
                "state": "usable",
            },
            {"id": "cuda:10", "target": "cuda", "vendor": "NVIDIA", "name": "H100", "profile": "h100-sxm5-80gb", "state": "usable"},
        ],
    }


def measurement(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "benchmark": "gemm", "backend": "torch", "backend_version": "2.13", "device": "cpu0", "dtype": "fp32",
        "params": {"m": 64, "n": 64, "k": 64, "threads": 2}, "metric": "flops_per_s", "unit": "FLOP/s", "value": 1.5e11, "low": 1.4e11,
        "high": 1.6e11, "run_low": None, "run_high": None, "samples": 3, "seconds": 0.25, "status": "ok",
        "sample_seconds": (1e-3, 2e-3, 3e-3),
    }  # fmt: skip
    return Measurement(**(fields | changes)).to_dict()


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def run_id(store: Store) -> str:
    return store.start_run(
        kind="bench", machine_id=store.save_machine(machine()), software={"torch": "2.13"}, command="advisor bench", settings={}
    )


def test_a_machine_is_stored_once_per_state(store: Store) -> None:
    first = store.save_machine(machine(available=1))
    assert store.save_machine(machine(available=2)) == first
    changed = store.save_machine(machine(name="Xeon Platinum"))
    assert changed != first
    latest = store.latest_machine()
    assert latest is not None
    assert latest["devices"][0]["name"] == "Xeon Platinum"
    store.save_machine(machine())
    assert store.latest_machine("f00d")["devices"][0]["name"] == "Xeon Gold"  # type: ignore[index]
    assert store.latest_machine("another") is None


def test_a_machine_without_fingerprint_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="fingerprint"):
        store.save_machine({"devices": []})


def test_a_measurement_comes_back_whole(store: Store, run_id: str) -> None:
    given = measurement(conditions={"load": 0.5, "env": {"OMP_NUM_THREADS": "2"}}, max_error=1e-6)
    before = datetime.now(UTC) - timedelta(seconds=1)
    assert store.add_measurement(run_id, given) == given["id"]
    (found,) = store.measurements(samples=True)
    for name, value in given.items():
        if name != "sample_seconds":
            assert found[name] == value, name
    assert found["sample_seconds"] == pytest.approx([1e-3, 2e-3, 3e-3], rel=1e-6)
    assert before <= datetime.fromisoformat(found["measured_at"]) <= datetime.now(UTC)
    assert (found["machine"], found["device_name"], found["origin"], found["retracted"]) == ("f00d", "Xeon Gold", "local", None)


def test_storing_twice_changes_nothing(store: Store, run_id: str) -> None:
    given = measurement()
    store.add_measurement(run_id, given)
    store.add_measurement(run_id, given | {"value": 1.0})
    (found,) = store.measurements()
    assert found["value"] == 1.5e11


def test_what_databases_cannot_hold_is_made_holdable(store: Store, run_id: str) -> None:
    store.add_measurement(
        run_id,
        measurement(
            value=math.nan,
            low=-math.inf,
            status="failed",
            reason="bad \x00 byte \ud800",
            params={"x": math.inf},
            sample_seconds=(1.0, math.nan),
        ),
    )
    (found,) = store.measurements(samples=True)
    assert (found["value"], found["low"], found["params"], found["sample_seconds"]) == (None, None, {"x": None}, [1.0])
    assert found["reason"] == "bad \ufffd byte ?"


@pytest.mark.parametrize("broken", [{"benchmark": None}, {"dtype": 7}, {"value": "fast"}, {"metric": None}])
def test_a_broken_measurement_is_refused(store: Store, run_id: str, broken: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        store.add_measurement(run_id, measurement() | broken)
    assert store.measurements() == []


def test_an_unknown_run_is_refused(store: Store) -> None:
    with pytest.raises(UnknownName):
        store.add_measurement(str(uuid.uuid4()), measurement())


def test_filters_choose(store: Store, run_id: str) -> None:
    store.add_measurements(
        run_id,
        [
            measurement(),
            measurement(benchmark="attention", backend="jax", dtype="bf16", device="cuda:1", params={"model": "ResNet50 v1.5"}),
            measurement(backend="onnxruntime", device="cuda:10", status="unsupported", value=None),
        ],
    )

    def count(**filters: Any) -> int:
        return len(store.measurements(**filters))

    assert count() == 3
    assert [count(benchmark="gemm"), count(benchmark="gemm,attention"), count(benchmark="conv")] == [2, 3, 0]
    assert [count(backend="jax"), count(dtype="bf16"), count(status="ok")] == [1, 1, 2]
    # An id means itself alone; a part of a name means all that have it.
    assert [count(device="cuda:1"), count(device="cuda:10"), count(device="A100-SXM4-80GB"), count(device="a100 sxm4")] == [1, 1, 1, 1]
    assert [count(device="h100-sxm5-80gb"), count(device="xeon"), count(device="%")] == [1, 1, 0]
    assert [count(machine="f00"), count(machine="f0_"), count(origin="local"), count(origin="published")] == [3, 0, 3, 0]
    assert [count(model="resnet-50"), count(since="1h"), count(since="2999-01-01"), count(limit=2)] == [1, 3, 0, 2]
    with pytest.raises(UsageError, match="yesterday"):
        count(since="yesterday")


def test_the_newest_of_a_series_supersedes(store: Store, run_id: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for day in range(3):
        store.add_measurement(run_id, measurement(value=float(day)) | {"measured_at": (start + timedelta(days=day)).isoformat()})
    store.add_measurement(run_id, measurement(value=9.0, params={"m": 128}) | {"measured_at": start.isoformat()})
    assert store.measurements(limit=1)[0]["value"] == 2.0
    assert sorted(m["value"] for m in store.measurements(latest=True)) == [2.0, 9.0]


def test_a_withdrawn_measurement_is_out_of_answers_but_not_gone(store: Store, run_id: str) -> None:
    good, bad = measurement(), measurement(value=1.0)
    store.add_measurements(run_id, [good, bad])
    assert store.retract(bad["id"][:13], " thermal trouble ") == [bad["id"]]
    assert [m["id"] for m in store.measurements()] == [good["id"]]
    marked = {m["id"]: m["retracted"] for m in store.measurements(retracted=True)}
    assert marked == {good["id"]: None, bad["id"]: "thermal trouble"}


def test_withdrawing_a_run_takes_all_of_it(store: Store, run_id: str) -> None:
    store.add_measurements(run_id, [measurement(), measurement()])
    store.add_trial(run_id, {"plan": {"framework": "torch"}, "step_time_s": 1.0})
    assert len(store.retract(run_id, "wrong clocks")) == 3
    assert store.measurements() == []
    assert store.trials() == []


def test_withdrawing_needs_a_reason_and_a_target(store: Store, run_id: str) -> None:
    with pytest.raises(UsageError, match="reason"):
        store.retract(run_id, "  ")
    with pytest.raises(UnknownName):
        store.retract("ffffffff", "why")
    with pytest.raises(UnknownName):
        store.retract("", "why")


def test_trials_come_back(store: Store, run_id: str) -> None:
    trial = {
        "plan_id": "p1",
        "plan": {"framework": "jax", "micro_batch": 4},
        "model": {"name": "gpt-125m"},
        "task": "train",
        "step_time_s": 0.5,
    }
    identifier = store.add_trial(run_id, trial)
    (found,) = store.trials(framework="jax", model="gpt-125m", task="train", plan_id="p1", machine="f00d", since="1h")
    assert found["id"] == identifier
    assert {name: found[name] for name in trial} == trial
    assert store.trials(framework="torch") == []


def test_plans_are_found_by_a_unique_beginning(store: Store) -> None:
    assert store.latest_recommendation() is None
    plans = [
        {"plan_id": "abc123", "plan": {"dp": 8}, "estimate": {"step_time_s": {"value": 1.0}}},
        {"plan_id": "abd456", "plan": {}, "estimate": {}},
    ]
    first = store.save_recommendation({"model": "gpt-13b"}, {"feasible": True}, plans)
    second = store.save_recommendation({"model": "gpt-13b"}, {"feasible": False}, [plans[0] | {"plan": {"dp": 4}}])
    found = store.find_plan("abc")
    assert found is not None
    assert (found["plan"], found["recommendation"]["id"], found["recommendation"]["question"]) == ({"dp": 4}, second, {"model": "gpt-13b"})
    latest = store.latest_recommendation()
    assert latest is not None
    assert (latest["id"], latest["document"], len(latest["plans"])) == (second, {"feasible": False}, 1)
    assert first != second
    with pytest.raises(UsageError, match="abc123, abd456"):
        store.find_plan("ab")
    assert store.find_plan("zzz") is None
    assert store.find_plan("") is None
    assert store.find_plan("a%") is None


def test_one_transaction_is_all_or_none(store: Store, run_id: str) -> None:
    with pytest.raises(UsageError):
        store.add_measurements(run_id, [measurement(), measurement() | {"benchmark": None}])
    assert store.measurements() == []

    def half() -> None:
        with store.writing() as connection:
            connection.exec_driver_sql("INSERT INTO retractions (target_id, reason, created_at) VALUES ('x', 'y', '2026-01-01')")
            connection.exec_driver_sql("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(DatabaseError):
        half()
    assert store.query("SELECT count(*) FROM retractions")[1] == [(0,)]
