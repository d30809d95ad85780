"""TPU, NPU and further cases that tools got wrong, by their number in the list of such cases."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from accelerator_machines import accel, join, pci

from advisor.probe.accelerators import find_devices
from advisor.probe.accelerators.ascend import ascend_arch, parse_npu_smi
from advisor.probe.accelerators.gaudi import gaudi_arch, parse_hl_smi
from advisor.probe.accelerators.neuron import parse_neuron_ls
from advisor.probe.accelerators.npu import parse_rknpu_load, parse_xrt_smi
from advisor.probe.accelerators.tenstorrent import parse_tt_smi
from advisor.probe.records import Device
from advisor.probe.root import Root

Machine = Callable[[dict[str, str]], Root]


def group(number: int, name: str, vendor: int, device: int) -> dict[str, str]:
    """Return a VFIO group with one device behind it, and its node."""
    folder = f"/sys/kernel/iommu_groups/{number}/devices/{name}"
    return {f"{folder}/vendor": f"0x{vendor:04x}", f"{folder}/device": f"0x{device:04x}", f"/dev/vfio/{number}": "", "/dev/vfio/vfio": ""}


def targets(root: Root) -> list[str]:
    return [device.target for device in find_devices(root).devices]


def test_b40_only_vendor_1ae0_on_vfio_is_a_tpu(machine: Machine) -> None:
    chips = [group(place, f"0000:00:0{4 + place}.0", 0x1AE0, 0x006F) for place in range(4)]
    found = find_devices(machine(join([*chips, group(96, "0006:03:00.2", 0x15B3, 0xC2D5)]))).devices
    assert [(device.target, device.arch, device.state) for device in found] == [("tpu", "v6e", "usable")] * 4
    assert [device.bus_id for device in found] == [f"0000:00:0{4 + place}.0" for place in range(4)]


def test_b40_a_bluefield_alone_is_no_tpu(machine: Machine) -> None:
    assert targets(machine(group(96, "0006:03:00.2", 0x15B3, 0xC2D5))) == []


def test_b41_b42_accel_node_of_an_intel_npu_is_neither_tpu_nor_gaudi(machine: Machine) -> None:
    tree = accel("accel0", "0000:00:0b.0", "intel_vpu", 0x8086, 0x7D1D)
    (device,) = find_devices(machine(tree)).devices
    assert (device.target, device.arch, device.state, device.memory_kind) == ("npu", "37xx", "usable", "unified")


def test_b41_nvidia_accel_node_is_no_tpu(machine: Machine) -> None:
    assert targets(machine(accel("accel0", "0000:01:00.0", "nvidia", 0x10DE, 0x2330))) == []


def test_b43_tpu_without_accel_nodes_needs_no_metadata(machine: Machine) -> None:
    tree = join(group(place, f"0000:00:0{4 + place}.0", 0x1AE0, 0x0063) for place in range(8))
    assert targets(machine(tree)) == ["tpu"] * 8


def test_b44_tpu_without_a_driver(machine: Machine) -> None:
    (device,) = find_devices(machine(pci("0000:00:05.0", 0x1AE0, 0x0063, 0x120000))).devices
    assert (device.state, device.arch, device.checks.present, device.checks.driver) == ("no_driver", "v5e", True, False)
    assert device.fix


def test_b45_two_functions_make_one_chip(machine: Machine) -> None:
    tree = join(group(place, f"0000:00:{4 + place:02x}.0", 0x1AE0, 0x0076) for place in range(8))
    found = find_devices(machine(tree)).devices
    assert [device.arch for device in found] == ["v7x"] * 4
    assert len(found[0].details["functions"]) == 2


def test_tpu_v2_and_v3_are_told_by_their_subsystem(machine: Machine) -> None:
    parts = [pci(f"0000:00:0{place}.0", 0x1AE0, 0x27, 0xFF0000, subsystem_device=f"0x{sub:04x}") for place, sub in ((4, 0x4E), (5, 0x4F))]
    assert [device.arch for device in find_devices(machine(join(parts))).devices] == ["v2", "v3"]


def test_b46_coral_without_gasket(machine: Machine) -> None:
    text = "02:00.0 System peripheral [0880]: Global Unichip Corp. Coral Edge TPU [1ac1:089a]\n"
    (device,) = find_devices(machine({"/tools/lspci-nn.txt": text})).devices
    assert (device.target, device.state, device.bus_id) == ("npu", "no_driver", "0000:02:00.0")
    assert "gasket" in (device.fix or "")
    (device,) = find_devices(machine({"/tools/lspci-nn.txt": text, "/dev/apex_0": ""})).devices
    assert device.state == "usable"


class Refusing(Root):
    """A machine on which the process may open no device node."""

    def access(self, name: str) -> bool | None:
        return False if self.exists(name) else None


def test_b47_npu_node_without_permission(machine: Machine) -> None:
    root = machine(accel("accel0", "0000:00:0b.0", "intel_vpu", 0x8086, 0x643E))
    (device,) = find_devices(Refusing(root.base)).devices
    assert (device.state, device.checks.driver, device.checks.node) == ("permission_denied", True, False)
    assert "/dev/accel/accel0" in (device.reason or "")


def test_b48_npu_may_lie_at_any_address(machine: Machine) -> None:
    (device,) = find_devices(machine(accel("accel0", "0001:00:0b.0", "intel_vpu", 0x8086, 0xAD1D))).devices
    assert device.bus_id == "0001:00:0b.0"


def test_b49_npu_whose_kernel_has_no_driver(machine: Machine) -> None:
    (device,) = find_devices(machine(pci("0000:00:0b.0", 0x8086, 0xB03E, 0x120000))).devices
    assert (device.target, device.state, device.pci_id) == ("npu", "no_driver", "8086:b03e")
    assert device.reason
    assert device.fix


@pytest.mark.parametrize(
    ("device", "revision", "arch"), [(0x1502, 0x00, "npu1"), (0x17F0, 0x10, "npu4"), (0x17F0, 0x11, "npu5"), (0x17F0, 0x20, "npu6")]
)
def test_b50_xdna_is_told_by_id_and_revision(machine: Machine, device: int, revision: int, arch: str) -> None:
    tree = pci("0000:c7:00.1", 0x1022, device, 0x118000, "amdxdna", revision=f"0x{revision:02x}")
    (found,) = find_devices(machine(tree)).devices
    assert (found.target, found.arch, found.state) == ("npu", arch, "usable")


@pytest.mark.parametrize("line", ["[0000:67:00.1]  :  RyzenAI-npu4", "|[0000:67:00.1]  |RyzenAI-npu4  |", "|[67:00.1] |RyzenAI-npu4 |"])
def test_b50_xrt_smi_in_every_spelling(line: str) -> None:
    (found,) = parse_xrt_smi(f"XRT\n  NPU Firmware Version : 1.0.0.63\nWARNING: xclmgmt version is unknown.\nDevice(s) Present\n{line}\n")
    assert (found.bus_id, found.name, found.arch, found.details["firmware"]) == ("0000:67:00.1", "RyzenAI-npu4", "npu4", "1.0.0.63")


def test_b51_rockchip_npu_with_and_without_its_load(machine: Machine) -> None:
    assert parse_rknpu_load("NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,") == [63, 65, 64]
    assert parse_rknpu_load("NPU load:  12%") == [12]
    tree = {"/proc/device-tree/compatible": "maker,board\0rockchip,rk3588\0", "/sys/class/devfreq/fdab0000.npu/cur_freq": "1"}
    (device,) = find_devices(machine(tree)).devices
    assert (device.target, device.arch, device.compute_units, device.state) == ("npu", "rk3588", None, "usable")


TWO_CHIPS = """\
| npu-smi 24.1.rc2                                 Version: 24.1.rc2                                     |
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    {second}                | Bus-Id          | AICore(%)    {memory}                        |
+===============================+=================+======================================================+
| 2       {name}                 | OK              | NA           59                0     / 0             |
| 0       0                     | 0000:01:00.0    | 0            {first}                            |
+-------------------------------+-----------------+------------------------------------------------------+
| 2       {name}                 | {health}              | -            58                0     / 0             |
| 1       1                     | 0000:01:00.0    | 0            {first}                            |
+===============================+=================+======================================================+
| NPU     Chip                  | Process id      | Process name             | Process memory(MB)        |
+===============================+=================+======================================================+
| 2       0                     | 4242            | python                   | 1203                      |
"""


def test_b52_b88_two_chips_of_a_card_keep_all_their_numbers() -> None:
    text = TWO_CHIPS.format(
        second="Phy-ID", memory="Memory-Usage(MB) HBM-Usage(MB)", name="Ascend910", health="OK", first="0    / 0          3419 / 65536"
    )
    chips = parse_npu_smi(text)
    numbers = [tuple(chip.details[name] for name in ("npu_id", "chip_id", "phy_id", "logic_id")) for chip in chips]
    assert numbers == [(2, 0, 0, 0), (2, 1, 1, 1)]
    assert {chip.package for chip in chips} == {"npu:2"}
    assert {(chip.arch, chip.memory_bytes, chip.details["memory_type"]) for chip in chips} == {("910C", 65536 << 20, "hbm")}


def test_b54_b88_memory_is_in_the_column_that_is_not_zero(machine: Machine) -> None:
    layout = {"second": "Device", "name": "310P3", "health": "OK"}
    for memory, first in (("Memory-Usage(MB)", "1397 / 44280"), ("Memory-Usage(MB) HBM-Usage(MB)", "1397 / 44280    0    / 0")):
        chips = parse_npu_smi(TWO_CHIPS.format(memory=memory, first=first, **layout))
        assert [(chip.memory_bytes, chip.details["memory_type"]) for chip in chips] == [(44280 << 20, "ddr")] * 2
    found = find_devices(
        machine({"/tools/npu-smi-info.txt": TWO_CHIPS.format(memory="Memory-Usage(MB)", first="1397 / 44280", **layout)})
    ).devices
    assert len({device.id for device in found}) == 2  # both chips share one bus address


def test_a_name_that_is_a_number_and_an_absent_bus_address() -> None:
    text = TWO_CHIPS.format(second="Device", memory="Memory-Usage(MB)", name="310", health="OK", first="1 / 8192")
    for version in (text, text.replace("0000:01:00.0", "NA          ")):
        assert [(chip.name, chip.arch, chip.memory_bytes) for chip in parse_npu_smi(version)] == [("310", "310", 8192 << 20)] * 2


def test_b54_zero_everywhere_is_unknown_not_zero() -> None:
    text = TWO_CHIPS.format(second="Device", memory="Memory-Usage(MB)", name="310P3", health="OK", first="0 / 0")
    assert [chip.memory_bytes for chip in parse_npu_smi(text)] == [None, None]


def test_an_unhealthy_chip_is_told_and_the_other_kept() -> None:
    text = TWO_CHIPS.format(second="Device", memory="Memory-Usage(MB)", name="310P3", health="Alarm", first="1 / 44280")
    assert [chip.state for chip in parse_npu_smi(text)] == [None, "unsupported"]


def test_b53_missing_managers_are_named(machine: Machine) -> None:
    (device,) = find_devices(machine({"/dev/davinci0": "", "/dev/devmm_svm": ""})).devices
    assert (device.target, device.state, device.checks.node) == ("npu", "permission_denied", False)
    assert "/dev/davinci_manager" in (device.reason or "")
    assert "/dev/hisi_hdc" in (device.reason or "")
    assert "/dev/devmm_svm" not in (device.reason or "")


@pytest.mark.parametrize(
    ("name", "chips", "arch"),
    [("910B2C", 1, "910B"), ("910B", 1, "910B"), ("310P3", 2, "310P"), ("310B4", 1, "310B"), ("Ascend910", 2, "910C"), ("910A", 1, "910A"),
     ("Ascend910_9392", 1, "910C"), ("910ProB", 1, "910"), ("310", 4, "310"), (None, 1, None), ("Test", 1, None)],
)  # fmt: skip
def test_names_of_ascend_chips(name: str | None, chips: int, arch: str | None) -> None:
    assert ascend_arch(name, chips) == arch


def test_b55_cards_that_are_not_usable_are_told_apart(machine: Machine) -> None:
    parts = [accel(f"accel{place}", f"0000:{16 + place:02x}:00.0", "habanalabs", 0x1DA3, 0x1020) for place in range(8)]
    tree = join(parts)
    for place in range(8):
        tree[f"/sys/class/accel/accel{place}/device/status"] = "malfunction" if place in (2, 5) else "operational"
    found = find_devices(machine(tree)).devices
    assert [device.state for device in found] == ["lost" if place in (2, 5) else "usable" for place in range(8)]
    assert {(device.target, device.arch) for device in found} == {("gaudi", "gaudi2")}


@pytest.mark.parametrize("head", ["index, module_id, bus_id, name, memory.total [MiB]\n", ""])
def test_hl_smi_csv_with_and_without_its_head(head: str) -> None:
    (card,) = parse_hl_smi(f"{head}0, 3, 0000:4d:00.0, HL-225, 98304 MiB\n")
    assert (card.bus_id, card.name, card.arch, card.memory_bytes) == ("0000:4d:00.0", "HL-225", "gaudi2", 98304 << 20)
    assert [gaudi_arch(name) for name in ("HL-205", "HL-325L", "HL-100", "x", None)] == ["gaudi", "gaudi3", "goya", None, None]


def test_b56_two_chips_of_a_board_share_its_id() -> None:
    chips = [
        {"board_info": {"bus_id": "0000:41:00.0", "board_type": "n300 L", "board_id": "b1"}},
        {"board_info": {"bus_id": "N/A", "board_type": "n300 R", "board_id": "b1"}},
        {"board_info": {"bus_id": "0000:42:00.0", "board_type": "n150", "board_id": "b2"}},
    ]
    found = parse_tt_smi(json.dumps({"device_info": chips}))
    assert [(item.bus_id, item.package, item.arch) for item in found] == [
        ("0000:41:00.0", "b1", "wormhole"),
        (None, "b1", "wormhole"),
        ("0000:42:00.0", "b2", "wormhole"),
    ]


NEURON_TABLE = """\
instance-type: trn1.2xlarge
+--------+--------+--------+---------+
| NEURON | NEURON | NEURON |   PCI   |
| DEVICE | CORES  | MEMORY |   BDF   |
+--------+--------+--------+---------+
| 0      | 2      | 32 GB  | 00:1e.0 |
+--------+--------+--------+---------+
"""


def test_b57_neuron_devices_are_those_listed() -> None:
    (from_table,) = parse_neuron_ls(NEURON_TABLE)
    entry = {"neuron_device": 0, "bdf": "00:1e.0", "connected_to": None, "nc_count": 2, "memory_size": 34359738368}
    (from_json,) = parse_neuron_ls("warning: -j goes away\n" + json.dumps([entry]))
    for item in (from_table, from_json):
        assert (item.compute_units, item.memory_bytes, item.bus_id) == (2, 32 << 30, "0000:00:1e.0")
    assert from_table.arch == "trn1"


def test_every_target_at_once(machine: Machine) -> None:
    parts = [
        pci("0000:01:00.0", 0x10DE, 0x2330, 0x030200, "nvidia"),
        pci("0000:02:00.0", 0x1002, 0x740F, 0x038000, "amdgpu"),
        pci("0000:03:00.0", 0x8086, 0x56A0, 0x030000, "i915"),
        pci("0000:04:00.0", 0x1AE0, 0x0062, 0x120000, "vfio-pci"),
        pci("0000:05:00.0", 0x1DA3, 0x1060, 0x120000, "habanalabs"),
        pci("0000:06:00.0", 0x1D0F, 0x7364, 0x120000, "neuron"),
        pci("0000:07:00.0", 0x1D95, 0x0001, 0x120000, "ipu_driver"),
        pci("0000:08:00.0", 0x19E5, 0xD802, 0x120000),
        pci("0000:09:00.0", 0x1E52, 0xB140, 0x120000, "tenstorrent"),
        pci("0000:0a:00.0", 0x17CB, 0xA100, 0x120000, "qaic"),
        pci("0000:0b:00.0", 0xCABC, 0x0370, 0x120000),
    ]
    found: dict[str | None, Device] = {device.bus_id: device for device in find_devices(machine(join(parts))).devices}
    assert {device.bus_id: device.target for device in found.values()} == {
        f"0000:{place:02x}:00.0": target
        for place, target in enumerate(("cuda", "rocm", "xpu", "tpu", "gaudi", "neuron", "ipu", "npu", "other", "npu", "other"), 1)
    }
    assert {bus for bus, device in found.items() if device.state == "no_driver"} == {"0000:08:00.0", "0000:0b:00.0"}
    assert all(device.fix for device in found.values() if device.state == "no_driver" and device.target == "npu")
