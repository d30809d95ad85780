"""advisor hardware list, show and schema."""

from __future__ import annotations

import json

import pytest

from advisor.cli.main import run


def answer(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, object]:
    assert run(["hardware", *args]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    return document


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "list", "--json")
    devices = {row["id"]: row for row in document["devices"]}  # type: ignore[attr-defined]
    assert len(devices) >= 90
    assert len(document["systems"]) >= 20  # type: ignore[arg-type]
    assert devices["a100-sxm4-80gb"]["dense_tflops"]["bf16"] == 312
    assert devices["tpu-v3"]["memory_gb_per_s"] == 825
    assert devices["a30"]["tdp_w"] == 165


def test_list_of_one_vendor_and_target(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "list", "--vendor", "AMD", "--target", "rocm", "--json")
    assert {row["vendor"] for row in document["devices"]} == {"amd"}  # type: ignore[attr-defined]
    assert {row["target"] for row in document["devices"]} == {"rocm"}  # type: ignore[attr-defined]


def test_tables_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", "list", "--vendor", "google"]) == 0
    text = capsys.readouterr().out
    assert "tpu-v5p" in text
    assert "459" in text
    assert run(["hardware", "list", "--systems"]) == 0
    assert "8 x 200 Gbit/s ib-hdr" in capsys.readouterr().out


def test_show_names_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", "show", "NVIDIA A100-SXM4-80GB"]) == 0
    text = capsys.readouterr().out
    assert "312 TFLOP/s" in text
    assert "624 TOP/s" in text
    assert "[stas]" in text
    assert "TechPowerUp" in text
    assert "dgx-a100-80gb" in text


def test_show_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "show", "wse-3", "--json")
    assert document["sheet"]["dense_tflops"] == {}  # type: ignore[index]
    assert document["sheet"]["l2_mib"] is None  # type: ignore[index]
    assert run(["hardware", "show", "wse-3"]) == 0
    assert "not known" in capsys.readouterr().out


def test_show_a_system(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "show", "dgx-h100", "--json")
    assert document["kind"] == "system"
    assert document["sheet"]["network"]["ports"] == 8  # type: ignore[index]
    assert "dgxpod" in document["sources"]  # type: ignore[operator]


@pytest.mark.parametrize(
    "args", [["show", "h1000"], ["show", ""], ["show"], ["list", "--vendor", "nvida"], ["list", "--target", "gpu"], ["shw"]]
)
def test_what_is_wrong_gives_one_line(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", *args]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error[")
    assert error.count("\n") == 1


def test_the_schema_describes_the_sheets(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "schema")
    properties = document["$defs"]["HardwareProfile"]["properties"]  # type: ignore[index]
    assert properties["memory_gib"]["anyOf"]
    assert document["$defs"]["HardwareProfile"]["additionalProperties"] is False  # type: ignore[index]
