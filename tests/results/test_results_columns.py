"""The columns say what the rows say: after inserting, withdrawing, merging and importing, on both databases."""

from __future__ import annotations

import json
import math
import random
import statistics
import uuid
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from advisor.results import columns
from advisor.results.exchange import export_records
from advisor.results.filters import Filters
from advisor.results.frame import load
from advisor.results.groups import groups
from advisor.results.lines import write_lines
from advisor.results.schema import ColumnChunk, Measurement
from advisor.results.store import Store
from advisor.usecases import results

KEYS = ("benchmark", "backend", "version", "dtype", "device", "class", "machine", "month", "day", "origin", "status", "params.m")


def document(number: int) -> dict[str, Any]:
    devices = [{"id": f"cuda:{i}", "target": "cuda", "name": f"card {number % 2}", "profile": None, "state": "usable"} for i in range(2)]
    return {"schema_version": 1, "fingerprint": f"{number:032x}", "host": {}, "devices": devices}


def some(random_: random.Random, count: int) -> list[dict[str, Any]]:
    made = []
    for _ in range(count):
        value = random_.choice([None, 1.0, 2.0, random_.uniform(0.1, 9.0)])
        made.append(
            {
                "id": random_.choice([str(uuid.UUID(int=random_.getrandbits(128), version=4)), f"odd-{random_.getrandbits(40)}"]),
                "benchmark": random_.choice(["gemm", "attention", "bandwidth"]),
                "backend": random_.choice(["torch", "jax"]),
                "backend_version": random_.choice([None, "1", "2"]),
                "device": random_.choice(["cuda:0", "cuda:1"]),
                "dtype": random_.choice(["fp32", "bf16"]),
                "params": {"m": random_.choice([1, 2.0, "x", True, None]), "model": random_.choice([None, "ResNet-50", "gpt2"])},
                "metric": random_.choice(["seconds", "flops_per_s"]),
                "value": value,
                "status": "failed" if value is None else random_.choice(["ok", "ok", "suspect"]),
                "measured_at": random_.choice([None, f"2026-0{random_.randrange(1, 4)}-1{random_.randrange(3)}T00:00:00+00:00"]),
            }
        )
    return made


def by_hand(store: Store, filters: Filters, by: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Compute groups out of whole measurements, one at a time."""
    with store.reading() as connection:
        from advisor.results.queries import measurements

        rows = measurements(connection, Filters())
    held: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if filters.benchmark is not None and row["benchmark"] != filters.benchmark:
            continue
        if row["value"] is None or row["status"] != (filters.status or "ok"):
            continue
        held.setdefault((*(key_of(row, name) for name in by), row["metric"], row["unit"]), []).append(row)
    found = []
    for key, members in held.items():
        values = sorted(row["value"] for row in members)
        best = values[0] if key[-2] == "seconds" else values[-1]
        nearest = [values[math.ceil(len(values) * share) - 1] for share in (0.1, 0.9)]
        found.append((*key, len(values), best, statistics.median(values), *nearest, values[0], values[-1]))
    return sorted(found, key=str)


def key_of(row: dict[str, Any], name: str) -> Any:
    if name == "version":
        return row["backend_version"]
    if name == "device":
        return row["device_name"] or row["device"]
    if name == "class":
        return row["hw_class"] or row["device_profile"] or row["device_name"]
    if name in ("month", "day"):
        return row["measured_at"] and row["measured_at"][: {"month": 7, "day": 10}[name]]
    if name == "params.m":
        value = row["params"]["m"]
        return value if value is None or isinstance(value, str) else json.dumps(int(value) if isinstance(value, float) else value)
    return row[name]


@pytest.mark.parametrize("seed", range(3))
def test_columns_say_what_rows_say(database_url: str, tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    with Store.open(database_url) as store, Store.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        for number in range(6):
            one = store if number % 2 else other
            run = one.start_run(kind="bench", machine_id=one.save_machine(document(number % 3)))
            for size in (1, 1, random_.randrange(2, 40)):
                batch = some(random_, size)
                one.add_measurements(run, batch)
                one.add_measurements(run, batch[:1])  # A repetition changes nothing.
            taken = random_.choice(one.measurements())
            one.retract(taken["id"], "fan")
        with other.reading() as connection:
            write_lines(export_records(connection, Filters(retracted=True)), tmp_path / "other.jsonl")
    for _ in range(2):
        results.import_files(database_url, [str(tmp_path / "other.jsonl")])
        results.merge(database_url, str(tmp_path / "other.db"))
    with Store.open(database_url) as store:
        store.retract(store.measurements()[0]["run_id"], "another job ran")
        asked = [tuple(random_.sample(KEYS, random_.randrange(4))) for _ in range(6)]
        for by in asked:
            for filters in (Filters(), Filters(benchmark="gemm"), Filters(status="suspect")):
                with store.reading() as connection:
                    names, rows = groups(connection, filters, by)
                assert sorted((row[: len(names) - 2] for row in rows), key=str) == by_hand(store, filters, by), (by, filters)
                for row in rows:
                    best = {m["id"]: m for m in store.measurements()}[row[-1]]
                    assert best["value"] == row[names.index("best")]
        with store.writing() as connection:
            before = [exact(groups(connection, Filters(), by)) for by in asked]
            assert columns.are_whole(connection)
            columns.rebuild(connection)
            assert [exact(groups(connection, Filters(), by)) for by in asked] == before


def exact(answer: tuple[list[str], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """Return groups without what depends on the order of the measurements: the last digit of the mean, and which of two equals is best."""
    return sorted((row[:-2] for row in answer[1]), key=str)


@pytest.mark.parametrize(
    "wanted",
    [
        {"benchmark": "gemm"},
        {"backend": "torch,jax", "dtype": "bf16"},
        {"device": "card 1"},
        {"machine": "0" * 31 + "1"},
        {"model": "resnet50"},
        {"since": "2026-02-11", "benchmark": "attention"},
        {"status": "failed", "retracted": True},
        {"metric": "seconds", "origin": "local"},
    ],
)
def test_a_page_of_a_selection_is_the_beginning_of_all_of_it(sqlite_url: str, wanted: dict[str, Any]) -> None:
    random_ = random.Random(7)
    with Store.open(sqlite_url) as store:
        for number in range(3):
            run = store.start_run(kind="bench", machine_id=store.save_machine(document(number)))
            store.add_measurements(run, some(random_, 60))
        store.retract(store.measurements(**{**wanted, "retracted": False})[2]["id"], "fan")
        everything = store.measurements(**wanted)
        assert len(everything) > 3
        dates = [row["measured_at"] for row in store.measurements(**wanted, limit=len(everything) // 2)]
        assert dates == [row["measured_at"] for row in everything][: len(dates)]
        assert {row["id"] for row in store.measurements(**wanted, limit=1000)} == {row["id"] for row in everything}
        newest: dict[str, Any] = {}
        for row in sorted(everything, key=lambda row: (row["measured_at"] or "", row["id"])):
            newest[row["series"]] = row
        latest = store.measurements(**wanted, latest=True)
        assert {(row["series"], row["measured_at"]) for row in latest} == {(s, row["measured_at"]) for s, row in newest.items()}


def test_small_chunks_are_put_together(database_url: str) -> None:
    with Store.open(database_url) as store:
        run = store.start_run(kind="bench")
        for number in range(40):
            store.add_measurement(run, some(random.Random(number), 1)[0] | {"benchmark": "gemm", "value": float(number), "status": "ok"})
        with store.reading() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(ColumnChunk)).scalar() == 2 + 40 % columns.GROWTH
            assert sorted(load(connection, Filters(), ["readings"])["readings"].tolist()) == [float(number) for number in range(40)]


def test_a_failed_transaction_leaves_the_columns_alone(database_url: str) -> None:
    with Store.open(database_url) as store:
        run = store.start_run(kind="bench")
        with pytest.raises(RuntimeError):
            store_and_fail(store, run)
        with store.reading() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(Measurement)).scalar() == 0
            assert len(load(connection, Filters(), ["ids"])) == 0
            assert columns.are_whole(connection)


def store_and_fail(store: Store, run: str) -> None:
    with store.writing() as connection:
        store_one(connection, run)
        raise RuntimeError


def store_one(connection: sa.Connection, run: str) -> None:
    from advisor.results.rows import measurement_row
    from advisor.results.schema import Device
    from advisor.results.write import insert_measurements, insert_new

    insert_new(connection, Device, [{"id": "d", "key": "d"}])
    row = measurement_row(some(random.Random(1), 1)[0], run_id=run, machine=None, device_id="d", origin="local")
    assert insert_measurements(connection, [row]) == 1
    assert insert_measurements(connection, [row]) == 0
