"""The published rows that ship with the product, and their way into a database."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.errors import UnknownName
from advisor.results import published, seed
from advisor.results.store import Store
from advisor.usecases import database, results

ROWS = {"training": 1420, "inference": 3914, "classic": 1854, "microbench": 14110}


@pytest.mark.parametrize("kind", published.KINDS)
def test_every_row_is_there_with_its_source(kind: str) -> None:
    rows = list(published.read_published(kind))
    assert len(rows) == ROWS[kind]
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["source"] and row["group"] and row["hardware"] for row in rows)
    assert "notes" not in rows[0]
    assert all(None not in row and None not in row.values() for row in rows)


def test_every_group_has_its_licence_note() -> None:
    text = (published.published_path("training").parent / "SOURCES.md").read_text(encoding="utf-8")
    for kind in published.KINDS:
        for group in {row["group"] for row in published.read_published(kind)}:
            assert f"`{group}`" in text, group


def test_every_data_sheet_names_known_sources() -> None:
    path = published.hardware_specs_path()
    tags = {line.split(",", 1)[0] for line in (path.parent / "hardware_sources.csv").read_text(encoding="utf-8").splitlines()[1:]}
    sheets = list(published.read_hardware_specs())
    assert len(sheets) >= 90
    assert len({sheet["vendor"] for sheet in sheets}) >= 6
    for sheet in sheets:
        assert sheet["sources"].split(), sheet["device"]
        assert set(sheet["sources"].split()) <= tags, sheet["device"]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UnknownName, match="trainings"):
        published.published_path("trainings")


def test_reading_the_tables_loads_no_database_code() -> None:
    script = "import sys, advisor.results.published as p; next(p.read_published('training')); print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("text", "name"),
    [("bf16", "bf16"), ("bfloat16", "bf16"), ("mixed/fp16", "fp16"), ("half", "fp16"), ("amp_bf16", "bf16"), ("fp8_block", "fp8"),
     ("nvfp4", "fp4"),     ("fp16 (paper default; llama.cpp runs may differ)", "fp16"), ("16-bit (fp16 or bf16, not stated)", "unstated"),
     ("", "unstated"), ("FP32", "fp32")],
)  # fmt: skip
def test_precisions_get_the_contracts_names(text: str, name: str) -> None:
    assert seed.dtype(text) == name


@pytest.mark.parametrize(
    ("text", "value"), [("1.5", 1.5), ("12", 12.0), ("", None), ("79872 , 90112", None), ("inf", None), ("nan", None), ("~3", None)]
)
def test_only_whole_numbers_texts_are_numbers(text: str, value: float | None) -> None:
    assert seed.number(text) == value


def test_seeding_is_complete_and_repeatable(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed, "KINDS", ("training", "classic"))
    first = database.seed(database_url)["tables"]
    assert {kind: table["added"] for kind, table in first.items()} == {"training": 1420, "classic": 1854, "hardware_specs": 92}
    assert all(table["added"] == 0 for table in database.seed(database_url)["tables"].values())
    resnet = results.query_groups(database_url, results.Filters(benchmark="training", model="resnet-50", device="V100"), ["backend"])
    assert {"PyTorch", "TensorFlow"} <= {row["backend"] for row in resnet["rows"]}


def test_the_best_of_the_table_is_the_best_of_the_database(seeded_url: str) -> None:
    with Store.open(seeded_url) as store:
        stored = store.measurements(origin="published", status="ok,failed,suspect")
        assert len(stored) == sum(ROWS.values())
        assert all(m["source"] and m["measured_at"] is None for m in stored)
    rows = [row for row in published.read_published("microbench") if row["kind"] == "gemm" and row["dtype"] == "bfloat16"]
    best: dict[str, float] = {}
    for row in rows:
        if row["tflops"]:
            best[row["hardware"]] = max(best.get(row["hardware"], 0.0), float(row["tflops"]) * 1e12)
    answer = results.query_groups(seeded_url, results.Filters(benchmark="gemm", dtype="bf16", metric="flops_per_s"), ["device"])
    found = {row["device"]: row["best"] for row in answer["rows"]}
    assert {name: found[name] for name in best if name.startswith("NVIDIA")} == pytest.approx(
        {n: v for n, v in best.items() if n.startswith("NVIDIA")}
    )


def test_a_row_dropped_by_a_later_edition_is_withdrawn(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = published.published_path("training").read_text(encoding="utf-8").splitlines(keepends=True)
    folder = tmp_path / "edition"
    folder.mkdir()
    monkeypatch.setattr(published, "published_path", lambda kind: folder / f"{kind}.csv")
    monkeypatch.setattr(seed, "published_path", published.published_path)
    monkeypatch.setattr(seed, "KINDS", ("training",))
    (folder / "training.csv").write_text("".join(lines[:11]), encoding="utf-8")
    assert seed_into(sqlite_url)["training"] == {"rows": 10, "added": 10}
    (folder / "training.csv").write_text("".join([lines[0], *lines[2:14]]), encoding="utf-8")
    assert seed_into(sqlite_url)["training"] == {"rows": 12, "added": 3}
    with Store.open(sqlite_url) as store:
        assert len(store.measurements()) == 12
        (gone,) = [m for m in store.measurements(retracted=True) if m["retracted"]]
    assert re.search("later edition", gone["retracted"])


def seed_into(url: str) -> dict[str, dict[str, int]]:
    with Store.open(url) as store:
        return seed.seed(store)
