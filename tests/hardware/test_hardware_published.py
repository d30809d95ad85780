"""The sheets agree, value by value, with the table of data sheets that is published with the measurements."""

from __future__ import annotations

import csv

import pytest

from advisor.hardware import load
from advisor.resources import data_dir

#: Rows whose name is a description; None: a package, whose halves have the sheet.
NAMED = {
    "GB200 (per GPU)": "gb200",
    "GB10 (DGX Spark)": "gb10",
    "MI250X (whole card, 2 GCD)": None,
    "MI250X (per GCD)": "mi250x",
    "Ryzen AI Max+ 395 (Strix Halo iGPU 8060S)": "radeon-8060s",
    "Ascend 910A (910)": "ascend-910a",
    "Ascend 910B (64 GB class)": "ascend-910b",
    "Ascend 910C": None,
    "IPU GC200 (MK2)": "ipu-gc200",
    "NVIDIA Grace (one CPU of the Superchip)": "grace",
    "Intel Core Ultra 1xx NPU (Meteor Lake)": "intel-npu-meteor-lake",
    "Intel Core Ultra 2xxV NPU (Lunar Lake)": "intel-npu-lunar-lake",
    "AMD Ryzen AI 300 NPU (XDNA2)": "ryzen-ai-300-npu",
}
FIELDS = {
    "mem_gb": "memory_gib",
    "mem_bw_gbs": "memory_gb_per_s",
    "l2_mb": "l2_mib",
    "sm_cu": "compute_units",
    "boost_mhz": "boost_mhz",
    "tdp_w": "tdp_w",
    "year": "year",
}
PEAKS = {"fp64": "fp64_vector", "fp64_matrix": "fp64", "fp32": "fp32_vector"} | {
    t: t for t in ("tf32", "fp16", "bf16", "fp8", "int8", "fp4")
}

with (data_dir("db") / "published" / "hardware_specs.csv").open(encoding="utf-8") as table:
    ROWS = [row for row in csv.DictReader(table) if NAMED.get(row["device"], "") is not None]


def test_every_row_has_a_sheet() -> None:
    assert len(ROWS) >= 85
    assert [row["device"] for row in ROWS if load.find_profile(NAMED.get(row["device"]) or row["device"]) is None] == []


@pytest.mark.parametrize("row", ROWS, ids=[row["device"] for row in ROWS])
def test_a_sheet_says_what_the_table_says(row: dict[str, str]) -> None:
    sheet = load.profile(NAMED.get(row["device"]) or row["device"])
    for column, field in FIELDS.items():
        if row[column]:
            assert getattr(sheet, field) == pytest.approx(float(row[column])), field
        else:
            assert getattr(sheet, field) is None, f"{field}: the table does not know it"
    for column, dtype in PEAKS.items():
        if row[column]:
            assert sheet.dense_tflops[dtype] == pytest.approx(float(row[column])), dtype
    rate = row["interconnect_gbs_per_dir"]
    assert (sheet.link.gb_per_s_per_direction if sheet.link else None) == (float(rate) if rate else None)
