"""NVIDIA cases that tools got wrong, by their number in the list of such cases; those that need NVML are in test_nvml_stub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from accelerator_machines import join, pci, smi_gpu, smi_xml

from advisor.probe.accelerators import find_devices
from advisor.probe.accelerators._text import number, size_bytes, value
from advisor.probe.accelerators._tools import run_tool
from advisor.probe.accelerators.cuda import CudaAnswer, read_cuda
from advisor.probe.accelerators.merge import build
from advisor.probe.accelerators.nvidia_judge import Library, judge
from advisor.probe.accelerators.nvidia_proc import KernelModule, read_module
from advisor.probe.accelerators.nvidia_smi_text import failure, library_version, parse_smi_list
from advisor.probe.accelerators.nvidia_topo import parse_topo
from advisor.probe.accelerators.nvml import read_nvml
from advisor.probe.accelerators.visible import select_cuda
from advisor.probe.findings.packages import has_kernel
from advisor.probe.records import Device
from advisor.probe.root import Root

Machine = Callable[[dict[str, str]], Root]
GIB = 1 << 30
A100 = 0x20B2


def only(root: Root) -> Device:
    (device,) = find_devices(root).devices
    return device


def test_b03_jetson_is_told_by_its_device_tree(machine: Machine) -> None:
    compatible = "nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0"
    device = only(machine({"/proc/device-tree/compatible": compatible, "/proc/device-tree/model": "Test board\0", "/dev/nvhost-gpu": ""}))
    assert (device.target, device.arch, device.memory_kind, device.bus_id) == ("cuda", "sm_87", "unified", None)
    assert (device.state, device.details["board"]) == ("usable", "Test board")


def test_b03_b04_smi_table_of_a_jetson(machine: Machine) -> None:
    table = (
        "| NVIDIA-SMI 540.4.0      Driver Version: 540.4.0      CUDA Version: 12.6     |\n"
        "|=========================================+======================+======================|\n"
        "|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |\n"
        "| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |\n"
        "|                                         |                      |                  N/A |\n"
        "+-----------------------------------------+----------------------+----------------------+\n"
    )
    device = only(machine({"/tools/nvidia-smi.txt": table, "/proc/device-tree/compatible": "nvidia,tegra234\0"}))
    assert (device.name, device.memory_bytes, device.memory_kind, device.bus_id) == ("Orin (nvgpu)", None, "unified", None)
    assert device.arch == "sm_87"


@pytest.mark.parametrize(
    "text", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "ERR!", "", "[Insufficient Permissions]", "-"]
)
def test_b04_words_for_not_known_are_no_numbers(text: str) -> None:
    assert (value(text), number(text), size_bytes(text)) == (None, None, None)


def test_b05_unknown_board_keeps_the_facts_of_its_chip(machine: Machine) -> None:
    device = only(machine({"/proc/device-tree/compatible": "nvidia,p9999-0001+p8888-0000\0nvidia,tegra264\0", "/dev/nvgpu/igpu0": ""}))
    assert (device.details["soc"], device.arch) == ("tegra264", "sm_110")
    other = only(machine({"/proc/device-tree/compatible": "nvidia,p9999\0nvidia,tegra999\0"}))
    assert (other.details["soc"], other.arch, other.target) == ("tegra999", None, "cuda")


def test_b06_memory_never_comes_from_the_name(machine: Machine) -> None:
    text = smi_xml(smi_gpu("GPU-a", "00000009:01:00.0", name="NVIDIA GH200 120GB", memory="97871 MiB"))
    assert only(machine({"/tools/nvidia-smi-q-x.xml": text})).memory_bytes == 97871 << 20
    listed = parse_smi_list("GPU 0: NVIDIA GH200 120GB (UUID: GPU-b)\n").sightings
    assert listed[0].memory_bytes is None


UUIDS = ["GPU-8932f937-1111", "GPU-8932aaaa-2222", "MIG-4a1b0000-3333"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,2,-1,1", [0, 2]),
        ("", []),
        ("-1", []),
        ("1,0", [1, 0]),
        ("0,0", []),
        ("GPU-8932f937", [0]),
        ("GPU-8932", []),
        ("MIG-4a1b", [2]),
        ("0,7,1", [0]),
        ("x", []),
        (None, [0, 1, 2]),
    ],
)
def test_b08_visible_devices_by_cuda_rule(text: str | None, expected: list[int]) -> None:
    assert select_cuda(text, UUIDS) == expected


def test_b08_legacy_mig_uuid_selects_its_slice() -> None:
    assert select_cuda("MIG-GPU-11/7/0", ["MIG-GPU-11/7/0"]) == [0]


def test_b11_both_styles_of_mig_uuid_are_listed(machine: Machine) -> None:
    text = (
        "GPU 0: Test H100 (UUID: GPU-p)\n  MIG 2g.20gb     Device  0: (UUID: MIG-x)\n  MIG 1g.10gb     Device  1: (UUID: MIG-y)\n"
        "GPU 1: Test A100 (UUID: GPU-q)\n  MIG 1g.5gb Device 0: (UUID: MIG-GPU-q/7/0)\n"
    )
    found = find_devices(machine({"/tools/nvidia-smi-L.txt": text})).devices
    assert [device.uuid for device in found] == ["MIG-x", "MIG-y", "MIG-GPU-q/7/0"]
    assert [device.package for device in found] == ["GPU-p", "GPU-p", "GPU-q"]


def test_b12_gpu_that_the_driver_no_longer_lists_is_lost(machine: Machine) -> None:
    buses = [f"0000:{10 + place:02x}:00.0" for place in range(8)]
    tree = join(pci(bus, 0x10DE, A100, 0x030200, "nvidia") for bus in buses)
    text = smi_xml(*(smi_gpu(f"GPU-{place}", f"0000{bus}") for place, bus in enumerate(buses) if place != 5))
    found = {device.bus_id: device for device in find_devices(machine(tree | {"/tools/nvidia-smi-q-x.xml": text})).devices}
    assert len(found) == 8
    assert [bus for bus, device in found.items() if device.state == "lost"] == [buses[5]]
    assert "fallen off the bus" in (found[buses[5]].reason or "")


def test_b12_gpu_withheld_from_a_container_is_not_lost(machine: Machine) -> None:
    tree = pci("0000:10:00.0", 0x10DE, A100, 0x030200, "nvidia") | pci("0000:11:00.0", 0x10DE, A100, 0x030200, "nvidia")
    for minor, bus in enumerate(("0000:10:00.0", "0000:11:00.0")):
        tree[f"/proc/driver/nvidia/gpus/{bus}/information"] = f"Model: \t Test\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n"
    tree |= {"/dev/nvidia0": "", "/dev/nvidiactl": "", "/tools/nvidia-smi-q-x.xml": smi_xml(smi_gpu("GPU-0", "00000000:10:00.0"))}
    found = {device.bus_id: device for device in find_devices(machine(tree)).devices}
    assert found["0000:10:00.0"].state == "usable"
    assert found["0000:11:00.0"].state == "permission_denied"
    assert "not granted" in (found["0000:11:00.0"].reason or "")


def test_virtual_functions_of_this_host_are_not_lost_gpus(machine: Machine) -> None:
    tree = join([pci("0000:10:00.0", 0x10DE, A100, 0x030200, "nvidia"), pci("0000:10:00.4", 0x10DE, A100, 0x030200)])
    tree["/sys/bus/pci/devices/0000:10:00.4/physfn"] = "-> ../0000:10:00.0"
    tree["/tools/nvidia-smi-q-x.xml"] = smi_xml(smi_gpu("GPU-0", "00000000:10:00.0"))
    assert only(machine(tree)).state == "usable"


def test_b13_tool_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    tool = tmp_path / "amd-smi"
    tool.write_text("#!/bin/sh\ntrap '' TERM\nsleep 600\n")
    tool.chmod(0o755)
    answer = run_tool(["amd-smi"], {"PATH": f"{tmp_path}:/usr/bin:/bin"}, deadline_s=0.5)
    assert (answer.status, answer.text) == ("timeout", "")


def test_b14_cuda_and_nvml_count_apart() -> None:
    gpus = '{"kind":"gpu","index":%d,"uuid":"GPU-%d","name":"g%d","memory":1,"pci":{"bus_id":"0000:%02x:00.0","device":1,"vendor":4318}}\n'
    answer = read_nvml('{"kind":"init","ok":true}\n' + gpus % (0, 0, 0, 4) + gpus % (1, 1, 1, 10))
    cuda = read_cuda('{"status":0,"devices":[{"index":0,"uuid":"1","memory":1},{"index":1,"uuid":"0","memory":1}]}')
    found = build([*answer.sightings, *cuda.sightings]).devices
    assert [(device.bus_id, device.details["nvml_index"], device.details["cuda_index"]) for device in found] == [
        ("0000:04:00.0", 0, 1),
        ("0000:0a:00.0", 1, 0),
    ]


def test_b15_wsl_needs_no_nvidia_nodes(machine: Machine) -> None:
    text = "GPU 00000000:01:00.0\n    Product Name                          : Test GPU\n    Minor Number                          : N/A\n"
    tree = {"/proc/sys/kernel/osrelease": "5.15.90.1-Microsoft-standard-WSL2\n", "/dev/dxg": "", "/tools/nvidia-smi-q.txt": text}
    device = only(machine(tree))
    assert (device.state, device.checks.node) == ("usable", None)


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.144\n"


def test_b16_version_mismatch_names_both_versions(machine: Machine) -> None:
    tree = pci("0000:10:00.0", 0x10DE, A100, 0x030200, "nvidia") | {
        "/sys/module/nvidia/version": "550.120\n",
        "/tools/nvidia-smi.txt": MISMATCH,
    }
    device = only(machine(tree))
    assert device.state == "version_mismatch"
    assert "550.144" in (device.reason or "")
    assert "550.120" in (device.reason or "")
    assert "reboot" in (device.fix or "")
    assert (device.checks.driver, device.checks.library) == (True, False)


def test_b16_the_words_of_nvidia_smi_are_told_apart() -> None:
    assert failure(MISMATCH) == ("version_mismatch", "Failed to initialize NVML: Driver/library version mismatch", None)
    assert library_version(MISMATCH) == "550.144"
    lost = failure("Unable to determine the device handle for GPU 0000:9D:00.0: Unknown Error")
    assert lost is not None
    assert (lost[0], lost[2]) == ("lost", "0000:9d:00.0")
    assert failure("No running processes found") is None


def test_b20_cuda_that_does_not_start_is_told() -> None:
    answer = read_nvml(
        '{"kind":"init","ok":true}\n{"kind":"gpu","index":0,"name":"GRID P40-24Q","uuid":"GPU-a","memory":25769803776}\n{"kind":"end"}\n'
    )
    library = Library(complete=True, cuda=CudaAnswer(usable=False, reason="cuInit fails with CUDA error 801 (operation not supported)"))
    library.reading.sightings += answer.sightings
    judge(library.reading, Root(Path("/nonexistent")), library, KernelModule(), [], wsl=False)
    (device,) = build(library.reading.sightings).devices
    assert (device.state, device.checks.library, device.checks.runtime) == ("unsupported", True, False)
    assert "801" in (device.reason or "")


def test_b21_a_large_bar_is_no_vgpu(machine: Machine) -> None:
    body = (
        "<bar1_memory_usage><total>65536 MiB</total></bar1_memory_usage>"
        "<gpu_virtualization_mode><virtualization_mode>None</virtualization_mode></gpu_virtualization_mode>"
    )
    device = only(machine({"/tools/nvidia-smi-q-x.xml": smi_xml(smi_gpu("GPU-a", "00000000:01:00.0", body))}))
    assert "VGPU" not in str(device.details.get("virtualization", ""))


def test_b22_one_gpu_with_two_drm_nodes_is_one(machine: Machine) -> None:
    tree = pci("0000:01:00.0", 0x10DE, 0x2330, 0x030200, "nvidia")
    for card in ("card0", "card1"):
        tree[f"/sys/class/drm/{card}/device"] = "-> ../../../bus/pci/devices/0000:01:00.0"
    device = only(machine(tree))
    assert (device.pci_id, device.arch) == ("10de:2330", "sm_90")


def test_b23_display_adapters_and_switches_are_no_accelerators(machine: Machine) -> None:
    parts = [
        pci("0000:02:00.0", 0x1A03, 0x2000, 0x030000, "ast"),
        pci("0000:03:00.0", 0x1234, 0x1111, 0x030000, "bochs-drm"),
        pci("0000:04:00.0", 0x102B, 0x0536, 0x030000, "mgag200"),
        pci("0000:05:00.0", 0x10DE, 0x1AF1, 0x068000),
        pci("0000:06:00.1", 0x10DE, 0x10F0, 0x040300, "snd_hda_intel"),
    ]
    assert find_devices(machine(join(parts))).devices == ()
    text = "05:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:1af1] (rev a1)\n06:00.0 VGA controller [0300]: ASPEED [1a03:2000]\n"
    assert find_devices(machine({"/tools/lspci-nn.txt": text})).devices == ()


def test_b25_an_unknown_product_gets_no_numbers(machine: Machine) -> None:
    text = smi_xml(smi_gpu("GPU-a", "00000000:01:00.0", name="NVIDIA B400", memory="N/A"))
    report = find_devices(machine({"/tools/nvidia-smi-q-x.xml": text}))
    device = report.devices[0]
    assert (device.memory_bytes, device.compute_units, device.arch, device.profile) == (None, None, None, None)
    assert "N/A" in report.unknown[f"{device.id}.memory_bytes"]


def test_b85_absent_bar1_refuses_nothing(machine: Machine) -> None:
    text = "Attached GPUs : 1\nGPU 0000000F:01:00.0\n    Product Name : NVIDIA GB10\n    BAR1 Memory Usage\n        Total : N/A\n"
    device = only(machine({"/tools/nvidia-smi-q.txt": text}))
    assert (device.state, device.memory_kind, device.bus_id) == ("usable", "unified", "000f:01:00.0")


def test_b86_cuda_is_the_second_source_of_unified_memory() -> None:
    cuda = read_cuda(
        '{"status":0,"devices":[{"index":0,"uuid":"u","bus":[15,1,0],"memory":128000000000,"integrated":1,"multiprocessors":48}]}'
    )
    library = Library(complete=True, cuda=cuda)
    library.reading.sightings += cuda.sightings
    judge(library.reading, Root(Path("/nonexistent")), library, KernelModule(), [], wsl=False)
    (device,) = build(library.reading.sightings).devices
    assert (device.memory_kind, device.memory_bytes, device.compute_units) == ("unified", 128000000000, 48)
    assert device.details["sources"] == ["cuda"]


def test_b90_a_tool_that_segfaults_is_told(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nkill -SEGV $$\n")
    tool.chmod(0o755)
    answer = run_tool(["nvidia-smi"], {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert answer.status == "crashed"
    assert "SIGSEGV" in (answer.reason or "")


def test_b90_versions_that_differ_on_wsl_are_normal(machine: Machine) -> None:
    table = (
        "| NVIDIA-SMI 555.52.01    Driver Version: 555.99    CUDA Version: 12.5  |\n"
        "|=============+===========+==========|\n"
        "|   0  Test RTX               On  |   00000000:01:00.0  On |                  N/A |\n"
        "| N/A   40C    P8      2W /   60W |     300MiB /   8188MiB |      5%      Default |\n"
        "|                                 |                        |                  N/A |\n"
        "+-------------+-----------+----------+\n"
    )
    device = only(machine({"/proc/sys/kernel/osrelease": "5.15-microsoft", "/dev/dxg": "", "/tools/nvidia-smi.txt": table}))
    assert (device.state, device.memory_bytes, device.details["driver_version"]) == ("usable", 8188 << 20, "555.99")


def test_b91_new_and_unknown_tags_are_read_or_ignored(machine: Machine) -> None:
    active = "<clocks_{0}_reason_hw_slowdown>Active</clocks_{0}_reason_hw_slowdown>"
    reason = f"<clocks_{{0}}_reasons>{active}</clocks_{{0}}_reasons><future><a>1</a></future>"
    for word in ("event", "throttle"):
        text = smi_xml(smi_gpu("GPU-a", "00000000:01:00.0", reason.format(word)))
        assert only(machine({"/tools/nvidia-smi-q-x.xml": text})).details["throttle"] == ["hw_slowdown"]


def test_b94_libcuda_alone_tells_the_gpu_of_a_jetson() -> None:
    cuda = read_cuda(
        '{"status":0,"driver_version":11040,"devices":[{"index":0,"uuid":"u","compute_capability":[8,7],"integrated":1,"memory":1000}]}'
    )
    (device,) = build(cuda.sightings).devices
    assert (device.arch, device.memory_kind, device.state) == ("sm_87", "unified", "usable")
    assert device.details["cuda_driver_version"] == "11.4"


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.120  Fri Sep 13 10:10:01 UTC 2024\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n",
    ],
)
def test_kernel_module_tells_its_version_without_a_library(machine: Machine, line: str) -> None:
    assert read_module(machine({"/proc/driver/nvidia/version": line})).version in ("550.120", "580.95.05")


def test_b07_numa_nodes_of_gpu_memory_are_told_apart() -> None:
    head = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    found = parse_topo(head + "GPU0\t X \tNV6\t0-71\t0\t4\nGPU1\tNV6\t X \t72-143\t1\t12\n").sightings
    assert [(item.details["numa_node"], item.details["gpu_numa_node"]) for item in found] == [(0, 4), (1, 12)]


@pytest.mark.parametrize(
    ("capability", "archs", "runs"),
    [
        ((12, 0), ["sm_50", "sm_80", "sm_90"], False),
        ((8, 9), ["sm_80", "sm_86"], True),
        ((10, 3), ["sm_100a"], False),
        ((12, 0), ["sm_90", "compute_90"], True),
    ],
)
def test_b24_a_wheel_without_code_for_the_gpu(capability: tuple[int, int], archs: list[str], runs: bool) -> None:
    assert has_kernel(capability, archs) is runs


def test_b89_activity_above_a_hundred_percent_is_told_as_read() -> None:
    answer = read_nvml('{"kind":"init","ok":true}\n{"kind":"gpu","index":0,"memory":5,"utilization":137}\n')
    assert answer.sightings[0].details["utilization_pct"] == 137


@pytest.mark.parametrize(
    ("name", "memory", "dtype", "per_device"), [("NVIDIA H200", 143_771, "fp16", 989.5), ("NVIDIA H100 NVL", 95_830, "fp16", 835.5)]
)
def test_b26_a_sheet_holds_dense_peaks_of_one_device(name: str, memory: int, dtype: str, per_device: float) -> None:
    """Vendors print these with sparsity, twice as much, and the NVL one once more for a pair of cards."""
    from advisor.hardware.match import match_device

    match = match_device(Device(id="0", target="cuda", vendor="nvidia", name=name, arch="sm_90", state="usable", memory_bytes=memory << 20))
    assert match is not None
    assert match.profile.dense_tflops[dtype] <= 1.01 * per_device
