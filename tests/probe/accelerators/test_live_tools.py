"""A live machine under a folder: vendors' tools are run, as scripts of ours, where their library is absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from accelerator_machines import accel, join, kfd, pci, smi_gpu, smi_xml

from advisor.probe.accelerators import find_devices
from advisor.probe.root import Root

Machine = Callable[[dict[str, str]], Root]


class LiveAt(Root):
    """The running machine, its files below a folder."""

    @property
    def is_live(self) -> bool:
        return True


@pytest.fixture
def live(machine: Machine, tmp_path: Path) -> Callable[..., Root]:
    """Return a function from files and tools (name to script) to a live machine that has both and nothing else."""

    def build(files: dict[str, str], **tools: str) -> Root:
        programs = tmp_path / "bin"
        programs.mkdir(exist_ok=True)
        for name, script in tools.items():
            path = programs / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        return LiveAt(machine(files).base, {"PATH": f"{programs}:/usr/bin:/bin"})

    return build


GPU = join([pci("0000:01:00.0", 0x10DE, 0x2330, 0x030200, "nvidia"), {"/dev/nvidiactl": "", "/sys/module/nvidia/version": "570.10\n"}])
XML = smi_xml(smi_gpu("GPU-a", "00000000:01:00.0"))


def test_nvidia_smi_serves_where_nvml_is_absent(live: Callable[..., Root]) -> None:
    (device,) = find_devices(live(GPU, nvidia_smi=f'test "$1 $2" = "-q -x" || exit 9\ncat <<EOF\n{XML}\nEOF')).devices
    assert (device.state, device.memory_bytes, device.uuid) == ("usable", 81920 << 20, "GPU-a")
    assert device.details["sources"] == ["nvidia-smi -q -x", "pci"]


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "version_mismatch"),
        ("kill -SEGV $$", "crashed"),
        ("echo 'NVIDIA-SMI has failed because it couldn'\"'\"'t communicate with the NVIDIA driver.'; exit 9", "no_driver"),
    ],
)
def test_what_nvidia_smi_says_when_it_fails(live: Callable[..., Root], script: str, state: str) -> None:
    (device,) = find_devices(live(GPU, nvidia_smi=script)).devices
    assert (device.state, device.memory_bytes, device.pci_id) == (state, None, "10de:2330")
    assert device.reason
    assert device.fix


def test_neither_library_nor_tool_is_no_library(live: Callable[..., Root]) -> None:
    (device,) = find_devices(live(GPU)).devices
    assert device.state == "no_library"


def test_tools_speak_english_whatever_the_user_does(live: Callable[..., Root]) -> None:
    script = 'test "$LC_ALL" = C || exit 3\n' + f"cat <<EOF\n{XML}\nEOF"
    root = live(GPU, nvidia_smi=script)
    root.environ["LC_ALL"] = "de_DE.UTF-8"
    assert find_devices(root).devices[0].state == "usable"


def test_npu_smi_is_asked_where_there_are_nodes(live: Callable[..., Root]) -> None:
    table = "| NPU Name | Health | Power(W) |\n| Chip | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |\n"
    table += "| 0 910B2 | OK | 90 |\n| 0 | 0000:C1:00.0 | 0 0 / 0 1 / 65536 |\n"
    nodes = {f"/dev/{name}": "" for name in ("davinci0", "davinci_manager", "devmm_svm", "hisi_hdc")}
    library = {"/usr/local/Ascend/driver/lib64/libascend_hal.so": ""}
    (device,) = find_devices(live(nodes | library, npu_smi=f"cat <<EOF\n{table}EOF")).devices
    assert (device.target, device.arch, device.memory_bytes, device.state) == ("npu", "910B", 65536 << 20, "usable")


def test_a_chip_without_cann_has_no_library(live: Callable[..., Root]) -> None:
    nodes = {f"/dev/{name}": "" for name in ("davinci0", "davinci_manager", "devmm_svm", "hisi_hdc")}
    (device,) = find_devices(live(nodes)).devices
    assert (device.state, device.checks.library) == ("no_library", False)
    assert "set_env" in (device.fix or "")


def test_b57_neuron_ls_is_asked_in_its_new_form_then_its_old(live: Callable[..., Root]) -> None:
    script = 'test "$1" = -j || { echo "unknown flag" >&2; exit 2; }\necho \'[{"neuron_device":0,"nc_count":2,"memory_size":34359738368}]\''
    library = {"/opt/aws/neuron/lib/libnrt.so.1": ""}
    (device,) = find_devices(live({"/dev/neuron0": ""} | library, neuron_ls=script)).devices
    assert (device.target, device.compute_units, device.memory_bytes, device.state) == ("neuron", 2, 32 << 30, "usable")


def test_hl_smi_is_asked_where_there_is_a_gaudi(live: Callable[..., Root]) -> None:
    tree = pci("0000:4d:00.0", 0x1DA3, 0x1020, 0x120000, "habanalabs") | accel("accel0", "0000:4d:00.0", "habanalabs", 0x1DA3, 0x1020)
    tree["/usr/lib/habanalabs/libSynapse.so"] = ""
    script = "echo 'index, module_id, bus_id, name, memory.total [MiB]'; echo '0, 1, 0000:4d:00.0, HL-225, 98304 MiB'"
    (device,) = find_devices(live(tree, hl_smi=script)).devices
    assert (device.target, device.name, device.memory_bytes, device.state) == ("gaudi", "HL-225", 98304 << 20, "usable")


def test_rocm_smi_is_asked_where_sysfs_shows_no_memory(live: Callable[..., Root]) -> None:
    tree = pci("0000:03:00.0", 0x1002, 0x744C, 0x030000, "amdgpu") | {"/opt/rocm/lib/libamdhip64.so.6": ""}
    script = 'echo \'{"card0": {"PCI Bus": "0000:03:00.0", "VRAM Total Memory (B)": "25753026560", "GFX Version": "gfx1100"}}\''
    (device,) = find_devices(live(tree, rocm_smi=script)).devices
    assert (device.memory_bytes, device.arch, device.state) == (25753026560, "gfx1100", "usable")


def test_rocm_smi_is_not_asked_where_sysfs_tells_it_all(live: Callable[..., Root], tmp_path: Path) -> None:
    tree = pci("0000:03:00.0", 0x1002, 0x744C, 0x030000, "amdgpu") | {"/opt/rocm/lib/libamdhip64.so.6": ""}
    tree |= kfd(1, simd_count=192, simd_per_cu=2, gfx_target_version=110000, location_id=0x300, bank=5)
    (device,) = find_devices(live(tree, rocm_smi=f"touch {tmp_path}/asked")).devices
    assert (device.arch, device.compute_units, device.state) == ("gfx1100", 96, "usable")
    assert not (tmp_path / "asked").exists()


def test_a_tpu_without_libtpu_has_no_library(live: Callable[..., Root]) -> None:
    folder = "/sys/kernel/iommu_groups/0/devices/0000:00:05.0"
    (device,) = find_devices(live({f"{folder}/vendor": "0x1ae0", f"{folder}/device": "0x0063", "/dev/vfio/0": ""})).devices
    assert (device.state, device.checks.node) == ("no_library", True)
    assert "libtpu" in (device.fix or "")
