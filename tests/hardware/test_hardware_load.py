"""Sheets are read strictly, found by any name people use, cached correctly, and a user's own come first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.errors import UnknownName, UsageError
from advisor.hardware import load

GOOD = """
id: my-gpu
name: My GPU 9000
vendor: acme
target: cuda
arch: sm_90
dense_tflops: {bf16: 100}
memory_gib: 48
short_names: [mine]
"""


@pytest.fixture(autouse=True)
def start_and_end_without_sheets_in_memory() -> Iterator[None]:
    """Sheets are held in memory by folder: these tests change files behind its back."""
    load.forget()
    yield
    load.forget()


@pytest.fixture
def sheets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of sheets of the user's own, in force."""
    folder = tmp_path / "sheets"
    (folder / "devices" / "acme").mkdir(parents=True)
    (folder / "systems").mkdir()
    monkeypatch.setenv(load.PROFILE_PATH, str(folder))
    load.forget()
    return folder


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("a100-sxm4-80gb", "a100-sxm4-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("a100", "a100-sxm4-80gb"),
        ("A100_80GB", "a100-sxm4-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("nvidia h200", "h200-sxm5-141gb"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("  rtx   4090 ", "rtx-4090"),
        ("GeForce RTX 4090", "rtx-4090"),
        ("RTX 4090", "rtx-4090"),
        ("AMD Instinct MI300X OAM", "mi300x"),
        ("Instinct MI250X", "mi250x"),
        ("max 1550", "max-1550"),
        ("Intel(R) Data Center GPU Max 1550", "max-1550"),
        ("gb200", "gb200"),
        ("v5p", "tpu-v5p"),
        ("910B", "ascend-910b"),
        ("trainium1", "trainium1"),
        ("Apple M3 Max", "apple-m3-max"),
        ("Intel(R) Xeon(R) Platinum 8480+", "xeon-platinum-8480plus"),
    ],
)
def test_names_people_use(name: str, identity: str) -> None:
    assert load.profile(name).id == identity


def test_an_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(UnknownName, match="h100") as caught:
        load.profile("h1000")
    assert "did you mean" in caught.value.line()


@pytest.mark.parametrize("name", ["", " ", "nvidia", "/", "\0", "a" * 10_000])
def test_odd_names_are_unknown(name: str) -> None:
    with pytest.raises(UnknownName):
        load.profile(name)


def test_a_users_sheet_is_found_and_replaces_a_shipped_one(sheets: Path) -> None:
    (sheets / "devices/acme/my-gpu.yaml").write_text(GOOD)
    (sheets / "devices/t4.yaml").write_text(
        GOOD.replace("id: my-gpu", "id: t4").replace("memory_gib: 48", "memory_gib: 15").replace("mine", "t4x")
    )
    load.forget()
    assert load.profile("mine").memory_gib == 48
    assert load.profile("My GPU 9000").id == "my-gpu"
    assert load.profile("t4").memory_gib == 15
    assert load.profile("a100").id == "a100-sxm4-80gb"


def test_changes_of_files_are_seen_by_the_cache(sheets: Path, advisor_home: Path) -> None:
    path = sheets / "devices/acme/my-gpu.yaml"
    path.write_text(GOOD)
    load.forget()
    assert load.profile("mine").memory_gib == 48
    assert list((advisor_home / "cache").glob("hardware-*.msgpack")), "the parsed sheets are kept"
    path.write_text(GOOD.replace("48", "96"))
    os.utime(path, ns=(1, 1))
    load.forget()
    assert load.profile("mine").memory_gib == 96
    path.unlink()
    load.forget()
    with pytest.raises(UnknownName):
        load.profile("mine")


def test_the_cache_gives_the_same_as_the_sheets(advisor_home: Path) -> None:
    load.forget()
    first = dict(load.all_profiles())
    load.forget()
    assert dict(load.all_profiles()) == first


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"\x93\x01\x02\x03"])
def test_a_broken_cache_only_costs_time(advisor_home: Path, content: bytes) -> None:
    load.forget()
    load.catalog()
    for path in (advisor_home / "cache").glob("hardware-*.msgpack"):
        path.write_bytes(content)
    load.forget()
    assert load.profile("a100").id == "a100-sxm4-80gb"


def test_a_home_that_cannot_be_written_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADVISOR_HOME", str(tmp_path / "file"))
    load.forget()
    assert load.profile("a100").id == "a100-sxm4-80gb"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("memory_gib: 48", "memory_gib: lots", "memory_gib"),
        ("memory_gib: 48", "memory_gib: '48'", "memory_gib"),
        ("memory_gib: 48", "memory_gib: 0", "memory_gib"),
        ("memory_gib: 48", "memory_gib: -1", "memory_gib"),
        ("memory_gib: 48", "memory_gib: 1e999", "memory_gib"),
        ("memory_gib: 48", "memory: 48", "memory"),
        ("memory_gib: 48", "memory_gib: 48\nmemory_gib: 96", "memory_gib"),
        ("{bf16: 100}", "{bf17: 100}", "bf17"),
        ("{bf16: 100}", "{bf16: -3}", "bf16"),
        ("{bf16: 100}", "[1, 2]", "dense_tflops"),
        ("id: my-gpu", "id: My GPU", "id"),
        ("id: my-gpu", "name2: x", "name2"),
        ("vendor: acme", "", "vendor"),
        ("short_names: [mine]", "pci_ids: ['0x10de']", "pci_ids"),
        ("short_names: [mine]", "short_names: ['']", "short_names"),
        ("arch: sm_90", "arch: [", "not valid YAML"),
        ("arch: sm_90", "arch: !!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_every_error_names_the_file_and_the_key(sheets: Path, old: str, new: str, says: str) -> None:
    path = sheets / "devices/acme/my-gpu.yaml"
    path.write_text(GOOD.replace(old, new))
    load.forget()
    with pytest.raises(UsageError) as caught:
        load.profile("a100")
    line = caught.value.line()
    assert str(path) in line
    assert says in line
    assert "\n" not in line


def test_two_sheets_of_one_id_are_refused(sheets: Path) -> None:
    (sheets / "devices/one.yaml").write_text(GOOD)
    (sheets / "devices/two.yaml").write_text(GOOD)
    load.forget()
    with pytest.raises(UsageError, match="also the id"):
        load.catalog()


def test_a_system_of_no_device_is_refused(sheets: Path) -> None:
    (sheets / "systems/box.yaml").write_text("id: box\nname: Box\ndevice: nothing\ndevices_per_node: 2\nintra_node: pcie\n")
    load.forget()
    with pytest.raises(UsageError, match="nothing"):
        load.catalog()


def test_an_oversized_sheet_is_refused(sheets: Path) -> None:
    (sheets / "devices/big.yaml").write_text(GOOD + "#" * (1 << 17))
    load.forget()
    with pytest.raises(UsageError, match="larger"):
        load.catalog()


def test_a_profile_path_that_is_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(load.PROFILE_PATH, str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="absent"):
        load.profile("a100")
