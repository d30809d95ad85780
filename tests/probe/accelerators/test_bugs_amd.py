"""AMD cases that tools got wrong, by their number in the list of such cases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from accelerator_machines import join, kfd, pci

from advisor.probe.accelerators import find_devices
from advisor.probe.accelerators.kfd import gfx_name
from advisor.probe.accelerators.rocm_smi import parse_amd_smi, parse_rocm_smi
from advisor.probe.accelerators.visible import select_rocm
from advisor.probe.findings.gpu_setup import parse_override
from advisor.probe.records import Device
from advisor.probe.root import Root

Machine = Callable[[dict[str, str]], Root]
GIB = 1 << 30
CPU = {"cpu_cores_count": 16, "simd_count": 0}
CARD = {"simd_count": 192, "simd_per_cu": 2, "gfx_target_version": 110000, "vendor_id": 0x1002, "device_id": 0x744C, "location_id": 0x0300}


def by_arch(root: Root) -> dict[str | None, Device]:
    return {device.arch: device for device in find_devices(root).devices}


def drm(card: str, bdf: str, vram: int, gtt: int, vendor: int = 0x1002, device: int = 0x1586) -> dict[str, str]:
    folder = f"/sys/class/drm/{card}/device"
    return {
        f"{folder}/vendor": f"0x{vendor:04x}",
        f"{folder}/device": f"0x{device:04x}",
        f"{folder}/uevent": f"PCI_SLOT_NAME={bdf}\nDRIVER=amdgpu\n",
        f"{folder}/mem_info_vram_total": str(vram),
        f"{folder}/mem_info_gtt_total": str(gtt),
    }


def test_b27_integrated_gpu_is_kept_and_marked(machine: Machine) -> None:
    apu = {"simd_count": 4, "simd_per_cu": 2, "gfx_target_version": 100306, "vendor_id": 0x1002, "device_id": 0x164E, "location_id": 0x1000}
    tree = join([kfd(0, **CPU), kfd(1, **CARD, bank=24 * GIB), kfd(2, **apu, bank=GIB // 2)])
    tree |= drm("card1", "0000:10:00.0", GIB // 2, 16 * GIB, device=0x164E)
    found = by_arch(machine(tree))
    assert (found["gfx1100"].memory_bytes, found["gfx1100"].memory_kind) == (24 * GIB, "dedicated")
    assert found["gfx1036"].memory_kind == "unified"
    assert found["gfx1036"].details["integrated"] is True


@pytest.mark.parametrize(
    ("vram", "gtt", "total_kb"), [(GIB // 2, 116266774528, 131_000_000_000 // 1024), (8 * GIB, 133143986176, 120 * GIB // 1024)]
)
def test_b28_unified_memory_is_carve_out_and_gtt_never_more_than_there_is(machine: Machine, vram: int, gtt: int, total_kb: int) -> None:
    tree = drm("card0", "0000:c3:00.0", vram, gtt) | {"/proc/meminfo": f"MemTotal:       {total_kb} kB\n"}
    (device,) = find_devices(machine(tree)).devices
    assert (device.memory_kind, device.arch) == ("unified", "gfx1151")
    assert device.memory_bytes == min(vram + gtt, total_kb * 1024 + vram)


def test_b92_ttm_limit_counts_whatever_the_gtt_says(machine: Machine) -> None:
    pages = (62 * GIB) // 4096
    tree = drm("card0", "0000:c3:00.0", GIB // 2, 96 * GIB) | {"/sys/module/ttm/parameters/pages_limit": f"{pages}\n"}
    (device,) = find_devices(machine(tree)).devices
    assert device.memory_bytes == GIB // 2 + pages * 4096
    assert (device.details["vram_bytes"], device.details["gtt_bytes"]) == (GIB // 2, 96 * GIB)


def test_b28_a_card_with_a_large_gtt_is_not_unified(machine: Machine) -> None:
    tree = drm("card0", "0000:1e:00.0", 34342961152, 135048462336, device=0x738C)
    (device,) = find_devices(machine(tree)).devices
    assert (device.memory_kind, device.memory_bytes) == ("dedicated", 34342961152)


def test_b29_driver_of_the_kernel_has_no_version_file(machine: Machine) -> None:
    tree = kfd(1, **CARD) | {"/proc/sys/kernel/osrelease": "6.8.0-test\n"}
    (device,) = find_devices(machine(tree)).devices
    assert device.details["driver_version"] == "in-tree driver of kernel 6.8.0-test"


class Refusing(Root):
    """A machine on which the process may open no device node: what os.access tells a user outside the render group."""

    def access(self, name: str) -> bool | None:
        return False if self.exists(name) else None


def test_b30_kfd_without_permission_is_not_no_gpu(machine: Machine) -> None:
    tree = kfd(1, **CARD, drm_render_minor=128) | {"/dev/kfd": "", "/dev/dri/renderD128": ""}
    (device,) = find_devices(Refusing(machine(tree).base)).devices
    assert (device.state, device.checks.driver, device.checks.node) == ("permission_denied", True, False)
    assert "/dev/kfd" in (device.reason or "")
    assert "group" in (device.reason or "")
    assert "usermod" in (device.fix or "")


@pytest.mark.parametrize(
    ("text", "gfx"), [("10.3.0", "gfx1030"), ("9.0.10", "gfx90a"), ("11.5.1", "gfx1151"), ("11.0", None), ("gfx1100", None)]
)
def test_b31_override_is_read_or_refused(text: str, gfx: str | None) -> None:
    assert parse_override(text) == gfx


@pytest.mark.parametrize(
    ("version", "name"), [(90010, "gfx90a"), (90402, "gfx942"), (110501, "gfx1151"), (90500, "gfx950"), (0, None), (None, None)]
)
def test_gfx_minor_and_step_are_hexadecimal(version: int | None, name: str | None) -> None:
    assert gfx_name(version) == name


def test_b32_rocr_is_applied_before_hip() -> None:
    four = ["aa", "bb", "cc", "dd"]
    assert select_rocm({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, four) == [2]
    assert select_rocm({"ROCR_VISIBLE_DEVICES": "1,2", "CUDA_VISIBLE_DEVICES": "0"}, four) == [1]
    assert select_rocm({"ROCR_VISIBLE_DEVICES": "GPU-cc", "HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "3"}, four) == [2]
    assert select_rocm({}, four) == [0, 1, 2, 3]


def test_b33_b34_partitions_are_devices_of_one_package(machine: Machine) -> None:
    nodes = [
        kfd(
            1 + package * 8 + part,
            simd_count=152,
            simd_per_cu=4,
            array_count=4,
            cu_per_simd_array=10,
            gfx_target_version=90402,
            unique_id=7000 + package,
            location_id=((5 + package) << 8) + part,
            num_xcc=1,
        )
        for package in range(8)
        for part in range(8)
    ]
    tree = join(nodes)
    # Partitions also appear as platform devices, whose name changed between kernels: they are no further GPUs.
    for place, spelling in enumerate(("amdgpu_xcp_1", "amdgpu_xcp.2")):
        tree[f"/sys/class/drm/card{40 + place}/device"] = f"-> ../../../{spelling}"
        tree[f"/sys/class/drm/{spelling}/uevent"] = "DRIVER=amdgpu_xcp_drv\n"
    found = find_devices(machine(tree)).devices
    assert len(found) == 64
    assert len({device.package for device in found}) == 8
    assert {device.compute_units for device in found} == {38}
    assert found[0].details["partitions_of_package"] == 8


def test_b34_whole_package_counts_all_its_units(machine: Machine) -> None:
    (device,) = find_devices(machine(kfd(1, simd_count=1216, simd_per_cu=4, num_xcc=8, gfx_target_version=90402))).devices
    assert (device.compute_units, device.details["num_xcc"]) == (304, 8)


def test_b35_units_are_told_as_read_with_their_source(machine: Machine) -> None:
    (device,) = find_devices(machine(kfd(1, simd_count=28, simd_per_cu=4, gfx_target_version=90012))).devices
    assert (device.compute_units, device.arch, device.details["sources"]) == (7, "gfx90c", ["kfd"])


def test_b36_arrays_and_local_mem_size_mislead(machine: Machine) -> None:
    node = kfd(
        1, simd_count=416, simd_per_cu=4, array_count=8, cu_per_simd_array=14, gfx_target_version=90010, local_mem_size=0, bank=64 * GIB
    )
    (device,) = find_devices(machine(node)).devices
    assert (device.compute_units, device.memory_bytes) == (104, 64 * GIB)


def test_b37_b38_sentinels_and_absent_modes_are_unknown() -> None:
    gpu = {
        "gpu": 0,
        "asic": {"market_name": "Test MI300A", "device_id": "0x74a0", "num_compute_units": 4294967295, "target_graphics_version": "gfx942"},
        "bus": {"bdf": "0000:01:00.0"},
        "vram": {"size": {"value": "N/A", "unit": "MB"}},
        "limit": {"max_power": {"value": 4294967295, "unit": "W"}},
        "partition": {"compute_partition": "N/A", "memory_partition": "N/A"},
    }
    (item,) = parse_amd_smi(json.dumps([gpu])).sightings
    assert (item.compute_units, item.memory_bytes, item.arch, item.bus_id) == (None, None, "gfx942", "0000:01:00.0")
    assert not {"power", "compute_partition", "memory_partition"} & set(item.details)


@pytest.mark.parametrize(
    ("series", "memory", "amount"),
    [("Card series", "VRAM Total Memory (B)", 12868124672), ("Card Series", "VRAM Total Memory (MB)", 12868124672 >> 20)],
)
def test_b39_b93_keys_of_every_release_and_text_around_the_json(series: str, memory: str, amount: int) -> None:
    card = {series: "Test Navi", "Device ID": "0x73df", "PCI Bus": "0000:07:00.0", memory: str(amount), "GFX Version": "gfx1031"}
    text = f"ERROR: RSMI_STATUS_NOT_SUPPORTED\n{json.dumps({'card0': card, 'system': {'Driver version': '6.3'}})}\nWARNING: one more line\n"
    (item,) = parse_rocm_smi(text).sightings
    assert (item.name, item.pci_id, item.arch, item.bus_id) == ("Test Navi", "1002:73df", "gfx1031", "0000:07:00.0")
    assert item.memory_bytes == amount * (1 if "(B)" in memory else 1 << 20)


def test_sources_are_joined_and_compared(machine: Machine) -> None:
    card = {"GPU ID": "0x744c", "PCI Bus": "0000:03:00.0", "VRAM Total Memory (B)": str(12 * GIB), "Card series": "Test Card"}
    tree = pci("0000:03:00.0", 0x1002, 0x744C, 0x030000, "amdgpu") | kfd(1, **CARD, bank=24 * GIB)
    report = find_devices(machine(tree | {"/tools/rocm-smi.json": json.dumps({"card0": card})}))
    (device,) = report.devices
    assert (device.memory_bytes, device.name) == (24 * GIB, "Test Card")
    assert [finding.code for finding in report.findings] == ["SOURCES_DISAGREE"]


def test_kfd_node_that_may_not_be_read_is_not_granted(machine: Machine, tmp_path: Path) -> None:
    class Denying(Root):
        def denied(self, name: str) -> bool:
            return "/nodes/2/" in name

    tree = kfd(1, **CARD) | kfd(2, **{**CARD, "location_id": 0x0400}) | pci("0000:03:00.0", 0x1002, 0x744C, 0x030000, "amdgpu")
    tree |= pci("0000:04:00.0", 0x1002, 0x744C, 0x030000, "amdgpu")
    found = {device.bus_id: device.state for device in find_devices(Denying(machine(tree).base)).devices}
    assert found == {"0000:03:00.0": "usable", "0000:04:00.0": "permission_denied"}


def test_two_dies_of_one_mi250_share_a_package(machine: Machine) -> None:
    tree: dict[str, str] = {}
    for node in range(1, 5):
        tree |= kfd(
            node,
            simd_count=416,
            simd_per_cu=4,
            gfx_target_version=90010,
            vendor_id=0x1002,
            device_id=0x7408,
            location_id=node << 8,
            unique_id=node,
        )
        for place, other in enumerate(other for other in range(1, 5) if other != node):
            width = 200000 if {node, other} in ({1, 2}, {3, 4}) else 50000
            folder = f"/sys/class/kfd/kfd/topology/nodes/{node}/io_links/{place}"
            tree[f"{folder}/properties"] = f"type 11\nnode_from {node}\nnode_to {other}\nmin_bandwidth {width}\nmax_bandwidth {width}\n"
    found = find_devices(machine(tree)).devices
    packages = [device.package for device in found]
    assert packages[0] == packages[1] != packages[2] == packages[3]
    assert max(link.bandwidth_bytes_per_s or 0 for link in found[0].links) == 200e9
