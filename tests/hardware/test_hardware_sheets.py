"""What the shipped sheets say: sources for every number, dense peaks only, one logical device, values that agree with themselves."""

from __future__ import annotations

import pytest

from advisor.hardware import load
from advisor.hardware.names import normalise
from advisor.hardware.records import HardwareProfile, System

DEVICES = list(load.all_profiles().values())
SYSTEMS = list(load.all_systems().values())
NUMBERS = ("year", "memory_gib", "memory_gb_per_s", "l2_mib", "compute_units", "boost_mhz", "tdp_w")

#: 2:4 sparse peaks that vendors print beside or instead of the dense ones, in TFLOP/s or TOP/s.
SPARSE = {
    "a100": {"tf32": 312, "fp16": 624, "bf16": 624, "int8": 1248},
    "a10": {"tf32": 125, "fp16": 250, "bf16": 250, "int8": 500},
    "a30": {"bf16": 330},
    "a40": {"tf32": 149.6, "fp16": 299.4, "bf16": 299.4, "int8": 598.6},
    "l40s": {"tf32": 366, "fp16": 733, "bf16": 733, "fp8": 1466, "int8": 1466},
    "l40": {"fp16": 362, "bf16": 362, "int8": 724},
    "l4": {"tf32": 120, "fp16": 242, "bf16": 242, "fp8": 485, "int8": 485},
    "h100-sxm5": {"tf32": 989, "fp16": 1979, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "h100-pcie": {"tf32": 756, "fp16": 1513, "bf16": 1513, "fp8": 3026, "int8": 3026},
    "h100-nvl": {"fp16": 1671, "bf16": 1671, "fp8": 3341},
    "h200-sxm5": {"tf32": 989, "fp16": 1979, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "h200-nvl": {"fp16": 1671, "bf16": 1671},
    "b200": {"tf32": 2250, "fp16": 4500, "bf16": 4500, "fp8": 9000, "fp4": 18000},
    "rtx-3090": {"fp16": 142, "bf16": 142, "int8": 569},
    "rtx-4090": {"fp16": 330.3, "bf16": 330.3, "fp8": 1321, "int8": 1321},
    "rtx-5090": {"fp16": 419, "bf16": 419, "int8": 1676, "fp4": 3352},
    "mi300x": {"tf32": 1307, "fp16": 2614, "bf16": 2614, "fp8": 5229, "int8": 5229},
    "mi325x": {"fp16": 2614, "bf16": 2614, "fp8": 5229},
    "trainium2": {"bf16": 2563, "fp8": 2563},
}


def by_id(sheets: list[HardwareProfile] | list[System]) -> list[str]:
    return [sheet.id for sheet in sheets]


def test_there_are_sheets_of_many_vendors() -> None:
    assert len(DEVICES) >= 90
    assert len(SYSTEMS) >= 20
    assert len({sheet.vendor for sheet in DEVICES}) >= 10


@pytest.mark.parametrize("sheet", DEVICES, ids=by_id(DEVICES))
def test_every_number_of_a_device_names_a_defined_source(sheet: HardwareProfile) -> None:
    stated = [name for name in NUMBERS if getattr(sheet, name) is not None]
    stated += [f"dense_tflops.{dtype}" for dtype in sheet.dense_tflops]
    stated += [name for name in ("link", "host_link") if getattr(sheet, name) is not None]
    stated += ["pci_ids"] if sheet.pci_ids else []
    stated += ["logical_devices_per_package"] if sheet.logical_devices_per_package > 1 else []
    assert [name for name in stated if not sheet.sources.get(name)] == []
    assert {tag for tags in sheet.sources.values() for tag in tags} <= set(load.catalog().sources)
    assert set(sheet.sources) <= {*stated, "peer_to_peer"}, "a source of nothing"


@pytest.mark.parametrize("sheet", SYSTEMS, ids=by_id(SYSTEMS))
def test_every_number_of_a_system_names_a_defined_source(sheet: System) -> None:
    stated = [name for name in ("host_memory_gib", "host_cpu", "intra_node_gb_per_s_per_direction") if getattr(sheet, name) is not None]
    assert [name for name in stated if not sheet.sources.get(name)] == []
    tags = {tag for tags in sheet.sources.values() for tag in tags}
    for part in (sheet.network, sheet.torus):
        assert part is None or part.sources
        tags |= set(part.sources) if part else set()
    assert tags <= set(load.catalog().sources)
    assert tags or "generic" in (sheet.notes or ""), "neither a source nor said to be generic"


@pytest.mark.parametrize("sheet", DEVICES, ids=by_id(DEVICES))
def test_peaks_are_dense(sheet: HardwareProfile) -> None:
    for prefix, sparse in SPARSE.items():
        if sheet.id == prefix or sheet.id.startswith(f"{prefix}-"):
            for dtype, forbidden in sparse.items():
                peak = sheet.dense_tflops.get(dtype)
                assert peak is None or peak < 0.9 * forbidden, f"{sheet.id} {dtype} {peak} is the sparse peak {forbidden}"


#: Devices whose 8-bit peak is more than twice the 16-bit one, and why.
WIDER_STEP = {
    "rtx-3090": "16 bit with fp32 accumulation is halved on GeForce",
    "rtx-4090": "16 bit with fp32 accumulation is halved on GeForce",
    "rtx-5090": "16 bit with fp32 accumulation is halved on GeForce",
    "jetson-agx-orin-64gb": "fp16 is the vector rate",
    "trainium3": "AWS states 2517 MXFP8 beside 671 bf16",
}


@pytest.mark.parametrize("sheet", DEVICES, ids=by_id(DEVICES))
def test_peaks_double_from_type_to_type(sheet: HardwareProfile) -> None:
    """A sparse peak among dense ones, or a package among devices, shows as a step of more than two between neighbouring types."""
    peaks = sheet.dense_tflops
    if "fp16" in peaks and "bf16" in peaks and sheet.id not in ("mi100", "gaudi3"):  # both state a bf16 rate of its own
        assert peaks["fp16"] == pytest.approx(peaks["bf16"], rel=0.01)
    half = max(peaks.get("fp16", 0), peaks.get("bf16", 0))
    if half and "tf32" in peaks:
        assert peaks["tf32"] <= 1.01 * half
    for dtype in ("fp8", "int8"):
        if half and dtype in peaks and sheet.id not in WIDER_STEP:
            assert peaks[dtype] <= 2.05 * half, dtype
    if "fp4" in peaks and "fp8" in peaks:
        assert peaks["fp4"] <= 2.85 * peaks["fp8"]


@pytest.mark.parametrize(
    ("name", "field", "whole", "parts"),
    [
        ("mi250x", "memory_gib", 128, 2),
        ("mi250x", "memory_gb_per_s", 3280, 2),
        ("mi250x", "compute_units", 220, 2),
        ("mi250", "memory_gib", 128, 2),
        ("mi250", "compute_units", 208, 2),
        ("ascend-910c", "memory_gib", 128, 2),
        ("ascend-910c", "memory_gb_per_s", 3200, 2),
        ("h100-nvl-94gb", "memory_gib", 188, 2),
        ("grace", "memory_gb_per_s", 1000, 2),
        ("grace", "compute_units", 144, 2),
        ("a16", "memory_gib", 64, 4),
        ("a16", "compute_units", 40, 4),
    ],
)
def test_a_sheet_is_of_one_logical_device_not_of_its_package(name: str, field: str, whole: float, parts: int) -> None:
    assert getattr(load.profile(name), field) == pytest.approx(whole / parts)


def test_gcd_peaks_are_half_of_the_card() -> None:
    assert load.profile("mi250x").dense_tflops["bf16"] == pytest.approx(383 / 2)
    assert load.profile("mi250").dense_tflops["bf16"] == pytest.approx(362.1 / 2, rel=1e-3)
    assert load.profile("b200").memory_gib == 180, "both dies are one device"


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("v100-sxm2-32gb", "fp16", 125),
        ("a100-sxm4-80gb", "bf16", 312),
        ("h100-sxm5-80gb", "bf16", 989.4),
        ("h200", "fp8", 1979),
        ("b200", "bf16", 2250),
        ("mi300x", "bf16", 1307),
        ("tpu-v4", "bf16", 275),
        ("tpu-v5p", "bf16", 459),
        ("rtx-4090", "fp16", 165.2),
        ("t4", "int8", 130),
    ],
)
def test_well_known_peaks(name: str, dtype: str, tflops: float) -> None:
    assert load.profile(name).dense_tflops[dtype] == pytest.approx(tflops)


@pytest.mark.parametrize("name", ["v100-sxm2-16gb", "v100-sxm2-32gb", "t4", "p100-sxm2-16gb", "rtx-2080-ti"])
def test_no_bf16_before_ampere(name: str) -> None:
    assert not {"bf16", "tf32"} & set(load.profile(name).dense_tflops)


def test_names_lead_to_one_sheet_each() -> None:
    claims: dict[str, set[str]] = {}
    for sheet in DEVICES:
        for name in (sheet.id, sheet.name, *sheet.aliases, *sheet.short_names):
            claims.setdefault(normalise(name), set()).add(sheet.id)
    for item in SYSTEMS:
        for name in (item.id, item.name, *item.aliases):
            claims.setdefault(normalise(name), set()).add(item.id)
    assert {name: ids for name, ids in claims.items() if len(ids) > 1} == {}


def test_pci_ids_are_shared_only_by_parts_that_other_facts_tell_apart() -> None:
    owners: dict[str, list[HardwareProfile]] = {}
    for sheet in DEVICES:
        for identity in sheet.pci_ids:
            owners.setdefault(identity, []).append(sheet)
    shared = {identity: sheets for identity, sheets in owners.items() if len(sheets) > 1}
    assert set(shared) <= {"1002:740c"}
    for sheets in shared.values():
        assert len({(sheet.memory_gib, sheet.compute_units) for sheet in sheets}) == len(sheets)


def test_default_systems_exist_and_hold_the_device() -> None:
    for sheet in DEVICES:
        if sheet.default_system is not None:
            assert load.all_systems()[sheet.default_system].device == sheet.id


@pytest.mark.parametrize(
    ("name", "per_node", "gbit_per_node"),
    [
        ("dgx-1-v100-32gb", 8, 400),
        ("dgx-2", 16, 800),
        ("dgx-a100-80gb", 8, 1600),
        ("dgx-h100", 8, 3200),
        ("gb200-nvl72", 4, 1600),
        ("p4d", 8, 400),
    ],
)
def test_networks_of_well_known_nodes(name: str, per_node: int, gbit_per_node: float) -> None:
    node = load.system(name)
    assert node.devices_per_node == per_node
    assert node.network is not None
    assert node.network.ports * node.network.gbit_per_s_per_port == gbit_per_node


def test_torus_links_add_up_to_the_chips_own_figure() -> None:
    for item in SYSTEMS:
        link = load.all_profiles()[item.device].link
        if item.torus is not None and link is not None and link.gb_per_s_per_direction is not None:
            assert 2 * item.torus.dims * item.torus.gb_per_s_per_link_direction == pytest.approx(link.gb_per_s_per_direction)
