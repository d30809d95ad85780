"""No text and no tree makes a reader raise: random words, damaged real shapes, random sysfs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from accelerator_machines import accel, join, kfd, pci, smi_gpu, smi_xml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from advisor.probe.accelerators import READERS, _text, apple, find_devices
from advisor.probe.accelerators._sighting import normal_bdf
from advisor.probe.accelerators._smi_tree import from_text, from_xml
from advisor.probe.accelerators.ascend import parse_npu_smi
from advisor.probe.accelerators.cuda import read_cuda
from advisor.probe.accelerators.gaudi import parse_hl_smi
from advisor.probe.accelerators.lspci import parse_lspci
from advisor.probe.accelerators.neuron import parse_neuron_ls
from advisor.probe.accelerators.npu import parse_rknpu_load, parse_xrt_smi
from advisor.probe.accelerators.nvidia_smi import parse_smi_q, parse_smi_xml
from advisor.probe.accelerators.nvidia_smi_text import failure, parse_smi_list, parse_smi_table
from advisor.probe.accelerators.nvidia_topo import parse_topo
from advisor.probe.accelerators.nvml import read_nvml
from advisor.probe.accelerators.rocm_smi import parse_amd_smi, parse_rocm_smi
from advisor.probe.accelerators.tenstorrent import parse_tt_smi
from advisor.probe.accelerators.visible import select_cuda
from advisor.probe.root import Root

RUNS = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])

TABLE = """\
| NVIDIA-SMI 550.54    Driver Version: 550.54    CUDA Version: 12.4  |
|====+=====+====|
|   0  Test GPU    On  | 00000000:01:00.0 Off |   0 |
| N/A   23C    P0   92W /  900W |  3MiB /  97871MiB |   0%   Default |
|                               |                   |        Enabled |
+----+----+----+
| MIG devices:                                                       |
|  0    7   0   0  |     12MiB /  9856MiB  | 14      0 |  1   0    0    0    0 |
"""
TOPO = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNV12\tPXB\t0-3\t0\tN/A\nGPU1\tNV12\t X \tSYS\t4-7\t1\tN/A\n"
)
NPU = """\
| NPU Name | Health | Power(W) |
| Chip Phy-ID | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |
| 0 910B2 | OK | 1.0 3 0 / 0 |
| 0 0 | 0000:9D:00.0 | 0 0 / 0 1 / 65536 |
"""
NEURON = "| NEURON | NEURON | PCI |\n| DEVICE | MEMORY | BDF |\n+---+\n| 0 | 96 GB | cc:00.0 |\n"
QUERY = """\
Driver Version : 550.1
GPU 00000000:01:00.0
    Product Name : T
    FB Memory Usage
        Total : 80 MiB
    MIG Mode
        Current : Enabled
"""
CARD = json.dumps({"card0": {"PCI Bus": "0000:07:00.0", "VRAM Total Memory (B)": "99", "Device ID": "0x73df"}, "system": {}})
NVML = """\
{"kind":"init","ok":true}
{"kind":"gpu","index":0,"memory":5,"mig":[1,1],"slices":[{"index":0,"memory":4}],"reasons":4,"power_mw":{"limit":7}}
{"kind":"end","p2p":{"0,1":1}}
"""

PARSERS: list[tuple[Callable[[str], object], str]] = [
    (parse_smi_xml, smi_xml(smi_gpu("GPU-a", "00000000:01:00.0", "<mig_mode><current_mig>Enabled</current_mig></mig_mode>"))),
    (parse_smi_q, QUERY),
    (parse_smi_table, TABLE),
    (parse_smi_list, "GPU 0: T (UUID: GPU-1)\n  MIG 1g.5gb Device 0: (UUID: MIG-GPU-1/7/0)\n"),
    (failure, "Failed to initialize NVML: Driver/library version mismatch"),
    (parse_topo, TOPO),
    (parse_rocm_smi, CARD),
    (parse_amd_smi, '[{"gpu":0,"bus":{"bdf":"0000:01:00.0"},"vram":{"size":{"value":4,"unit":"MB"}}}]'),
    (parse_npu_smi, NPU),
    (parse_neuron_ls, NEURON),
    (parse_neuron_ls, '[{"neuron_device":0,"nc_count":2,"memory_size":4,"connected_to":[1]}]'),
    (parse_hl_smi, "index, bus_id, name, memory.total [MiB]\n0, 0000:4d:00.0, HL-225, 98304 MiB\n"),
    (parse_xrt_smi, "|[0000:67:00.1]  |RyzenAI-npu4  |\n"),
    (parse_rknpu_load, "NPU load:  Core0: 63%,"),
    (parse_lspci, "0001:00:00.0 3D controller [0302]: NVIDIA [10de:20b2] (rev a1)\n\tKernel driver in use: nvidia\n\tLnkSta: Width x8\n"),
    (parse_tt_smi, '{"device_info":[{"board_info":{"bus_id":"0000:01:00.0","board_type":"n300 L","board_id":"1"}}]}'),
    (read_nvml, NVML),
    (read_cuda, '{"status":0,"devices":[{"index":0,"bus":[0,1,0],"memory":5,"compute_capability":[9,0]}]}'),
    (apple.parse_sysctl, "machdep.cpu.brand_string: Apple M3 Max\nhw.memsize: 68719476736\n"),
    (lambda text: select_cuda(text, ["GPU-1", None]), "0,GPU-1"),
]  # fmt: skip
WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]) | st.sampled_from("|+-=:/[](),.{}\"'<>\t\n 0123456789aAxGPUMIGN"), max_size=200
)


@pytest.mark.parametrize(("parse", "sample"), PARSERS)
@RUNS
@given(words=WORDS)
@example(words="")
@example(words="\0")
@example(words="9" * 5000)
def test_any_words(parse: Callable[[str], object], sample: str, words: str) -> None:
    parse(words)


@pytest.mark.parametrize(("parse", "sample"), PARSERS)
@RUNS
@given(data=st.data())
def test_damaged_output(parse: Callable[[str], object], sample: str, data: st.DataObject) -> None:
    """Cut a piece out, put words in: most of the shape stays, so that the reader gets far."""
    start = data.draw(st.integers(0, len(sample)))
    end = data.draw(st.integers(start, min(len(sample), start + 30)))
    parse(sample[:start] + data.draw(WORDS) + sample[end:])
    parse(sample[:end])


@RUNS
@given(words=WORDS, number=st.one_of(st.none(), st.integers(), st.floats(), st.booleans(), st.lists(st.integers())))
def test_fields(words: str, number: object) -> None:
    for text in (words, number):
        for read in (_text.value, _text.number, _text.integer, _text.counter, _text.size_bytes, _text.yes):
            read(text)
    _text.loose_json(words)
    found = normal_bdf(words)
    assert found is None or normal_bdf(found) == found
    assert (_text.size_bytes(words) or 1) > 0


@RUNS
@given(words=WORDS)
def test_trees(words: str) -> None:
    from_text(words)
    from_xml("<nvidia_smi_log><gpu>" + words)


FILES = sorted(
    join(
        [
            pci("0000:01:00.0", 0x10DE, 0x2330, 0x030200, "nvidia", current_link_speed="16.0 GT/s", max_link_width="16", numa_node="0"),
            pci("0000:02:00.0", 0x1002, 0x740F, 0x038000, "amdgpu"),
            pci("0000:03:00.0", 0x8086, 0x56A0, 0x030000, "xe"),
            pci("0000:04:00.0", 0x1AE0, 0x0076, 0x120000),
            kfd(1, simd_count=416, simd_per_cu=4, gfx_target_version=90010, bank=5),
            accel("accel0", "0000:00:0b.0", "intel_vpu", 0x8086, 0x7D1D),
            accel("accel1", "0000:05:00.0", "habanalabs", 0x1DA3, 0x1020),
            {
                "/sys/class/kfd/kfd/topology/nodes/1/io_links/0/properties": "type 11\nnode_to 1\nmax_bandwidth 5\n",
                "/sys/class/drm/card1/device/mem_info_vram_total": "4294967296",
                "/sys/class/drm/card1/device/mem_info_gtt_total": "8589934592",
                "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.120",
                "/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: T\nDevice Minor: 0\n",
                "/proc/device-tree/compatible": "nvidia,tegra234",
                "/proc/meminfo": "MemTotal: 5 kB\n",
                "/proc/cmdline": "ttm.pages_limit=5",
                "/dev/neuron0": "",
                "/dev/davinci0": "",
                "/tools/nvidia-smi-q-x.xml": PARSERS[0][1],
                "/tools/nvidia-smi-q.txt": QUERY,
                "/tools/nvidia-smi.txt": TABLE,
                "/tools/nvidia-smi-topo-m.txt": TOPO,
                "/tools/rocm-smi.json": CARD,
                "/tools/npu-smi-info.txt": NPU,
                "/tools/neuron-ls.txt": NEURON,
            },
        ]
    ).items()
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_tree(data: st.DataObject) -> None:
    """Leave files out and fill others with anything: every reader must still answer, none may fail."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in FILES:
            fate = data.draw(st.sampled_from(["keep", "keep", "drop", "words"]))
            path = Path(folder, name.strip("/"))
            if fate == "drop":
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if content.startswith("-> "):
                path.symlink_to(content[3:])
            else:
                path.write_text(data.draw(WORDS) if fate == "words" else content, encoding="utf-8")
        report = find_devices(Root(Path(folder)))
    assert not [finding for finding in report.findings if finding.code == "READER_FAILED"]
    ids = [device.id for device in report.devices]
    assert len(set(ids)) == len(ids)
    for device in report.devices:
        assert device.memory_bytes is None or device.memory_bytes > 0
        assert device.memory_bytes is not None or report.unknown[f"{device.id}.memory_bytes"]
        assert device.state == "usable" or device.reason


def test_every_reader_is_a_module() -> None:
    from importlib import import_module

    assert all(callable(import_module(f"advisor.probe.accelerators.{name}").read) for name in READERS)
