"""The running machine: children only where there is a reason, libraries through their environment; and the joining of sources."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from accelerator_machines import pci, smi_gpu, smi_xml

from advisor.probe.accelerators import find_devices
from advisor.probe.accelerators._sighting import Sighting
from advisor.probe.accelerators.apple import parse_sysctl
from advisor.probe.accelerators.lspci import parse_lspci
from advisor.probe.accelerators.merge import build
from advisor.probe.accelerators.nvidia_topo import parse_topo
from advisor.probe.records import DeviceLink
from advisor.probe.root import Root

Machine = Callable[[dict[str, str]], Root]
GIB = 1 << 30


def has_accelerators() -> bool:
    return bool(find_devices(Root(Path("/"), {"PATH": ""})).devices)


def test_the_stub_is_found_through_the_library_path(stub: Callable[..., dict[str, str]]) -> None:
    """On a machine of any kind: what the stub lists is listed, each with its own checks."""
    environ = stub(
        "count=2", f"0.memory={80 * GIB}", f"1.memory={80 * GIB}", "0.bus=0xf1", "1.bus=0xf2", "0.uuid=GPU-stub0", "1.uuid=GPU-stub1"
    )
    found = {device.uuid: device for device in find_devices(Root(Path("/"), environ)).devices if device.target == "cuda"}
    assert {"GPU-stub0", "GPU-stub1"} <= set(found)
    assert (found["GPU-stub0"].state, found["GPU-stub0"].checks.library) == ("usable", True)


def test_a_hanging_library_costs_its_deadline_and_nothing_else(
    stub: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from advisor.probe.accelerators import nvml

    monkeypatch.setattr(nvml.ask_nvml, "__defaults__", (1.0,))
    report = find_devices(Root(Path("/"), stub("hang=600")))
    assert "READER_FAILED" not in {finding.code for finding in report.findings}


def test_a_plain_machine_starts_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    if has_accelerators():
        pytest.skip("this machine has accelerators")

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a child was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    report = find_devices(Root(Path("/"), {"PATH": os.environ.get("PATH", "")}))
    assert report.findings == ()


def test_a_recorded_machine_starts_no_child(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a child was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    tree = pci("0000:01:00.0", 0x10DE, 0x2330, 0x030200, "nvidia") | {"/dev/davinci0": "", "/dev/neuron0": "", "/dev/nvidiactl": ""}
    assert [device.target for device in find_devices(machine(tree)).devices] == ["cuda", "npu", "neuron"]


def test_readers_load_nothing_heavy() -> None:
    code = (
        "import sys; from advisor.probe.accelerators import find_devices; from advisor.probe.root import Root; find_devices(Root.live()); "
    )
    code += "print([name for name in ('numpy', 'torch', 'pynvml', 'psutil', 'sqlalchemy', 'rich') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def seen(source: str, **facts: object) -> Sighting:
    return Sighting(source=source, target="cuda", vendor="nvidia", driver=True, **facts)  # type: ignore[arg-type]


def test_identity_is_uuid_then_bus_then_index() -> None:
    built = build(
        [
            seen("a", uuid="u1", bus_id="0000:01:00.0", name="A"),
            seen("a", uuid="u2", bus_id="0000:02:00.0"),
            seen("b", uuid="u2", memory_bytes=5),
            seen("b", uuid="u1", memory_bytes=6),
            seen("c", bus_id="0000:02:00.0", name="C"),
            seen("c", bus_id="0000:03:00.0"),
        ]
    )
    assert [(device.uuid, device.bus_id, device.name, device.memory_bytes) for device in built.devices] == [
        ("u1", "0000:01:00.0", "A", 6),
        ("u2", "0000:02:00.0", "C", 5),
        (None, "0000:03:00.0", None, None),
    ]
    assert built.unknown["0000:03:00.0.memory_bytes"]


def test_two_sightings_of_one_source_are_two_devices() -> None:
    built = build([seen("a", bus_id="0000:01:00.0"), seen("a", bus_id="0000:01:00.0")])
    assert [device.id for device in built.devices] == ["0000:01:00.0", "0000:01:00.0#1"]


def test_links_end_at_device_ids() -> None:
    link = DeviceLink(to="nvidia:1", kind="nvlink", bandwidth_bytes_per_s=None)
    better = DeviceLink(to="0000:02:00.0", kind="nvlink", bandwidth_bytes_per_s=1e9)
    built = build(
        [
            seen("a", key="nvidia:0", uuid="u0", links=(link,)),
            seen("a", key="nvidia:1", bus_id="0000:02:00.0"),
            seen("b", uuid="u0", links=(better,)),
        ]
    )
    assert built.devices[0].links == (DeviceLink(to="0000:02:00.0", kind="nvlink", bandwidth_bytes_per_s=1e9),)


def test_the_worst_state_wins_and_lost_has_no_memory() -> None:
    built = build(
        [seen("a", uuid="u", memory_bytes=5), seen("b", uuid="u", state="unsupported"), seen("c", uuid="u", state="lost", reason="gone")]
    )
    (device,) = built.devices
    assert (device.state, device.reason, device.memory_bytes) == ("lost", "gone", None)
    assert device.fix


def test_slices_of_two_tools_are_joined_by_parent_and_number(machine: Machine) -> None:
    body = (
        "<mig_mode><current_mig>Enabled</current_mig></mig_mode><mig_devices><mig_device><index>0</index><gpu_instance_id>3</gpu_instance_id>"
        "<compute_instance_id>0</compute_instance_id><fb_memory_usage><total>19968 MiB</total></fb_memory_usage></mig_device></mig_devices>"
    )
    listed = "GPU 0: Test GPU (UUID: GPU-p)\n  MIG 3g.20gb     Device  0: (UUID: MIG-x)\n"
    root = machine({"/tools/nvidia-smi-q-x.xml": smi_xml(smi_gpu("GPU-p", "00000000:01:00.0", body)), "/tools/nvidia-smi-L.txt": listed})
    (device,) = find_devices(root).devices
    assert (device.uuid, device.memory_bytes, device.package) == ("MIG-x", 19968 << 20, "GPU-p")
    assert device.details["mig_slice"]["profile"] == "3g.20gb"


def test_topology_of_a_cut_matrix() -> None:
    head = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    found = parse_topo(head + "GPU0\t X \tNV12\tPXB\t0-3,8-11\t3\tN/A\n").sightings
    assert [item.key for item in found] == ["nvidia:0", "nvidia:1"]
    assert [(link.to, link.kind) for link in found[0].links] == [("nvidia:1", "nvlink")]
    assert (found[0].details["numa_node"], found[0].details["cpu_affinity"], found[0].details["nvlink"]) == (
        3,
        "0-3,8-11",
        {"links_to_peer": 12},
    )


def test_lspci_with_details_tells_the_driver() -> None:
    text = (
        "0000:65:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n\tNUMA node: 1\n"
        "\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n"
        "\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)\n\tKernel driver in use: nvidia\n"
    )
    (device,) = parse_lspci(text)
    assert (device.driver, device.numa_node, device.width, device.width_max, device.speed_max_gts) == ("nvidia", 1, 8, 16, 16.0)


def test_apple_gpu_shares_memory_even_under_a_translated_python() -> None:
    found = parse_sysctl("machdep.cpu.brand_string: Apple M3 Max\nhw.memsize: 68719476736\nhw.optional.arm64: 1\n")
    assert found is not None
    assert (found.target, found.arch, found.memory_kind, found.memory_bytes) == ("mps", "m3-max", "unified", None)
    assert parse_sysctl("machdep.cpu.brand_string: Intel(R) Core(TM) i9\n") is None


def test_64_gpus_by_text_and_tree(machine: Machine) -> None:
    buses = [f"0000:{place + 1:02x}:00.0" for place in range(64)]
    tree = {name: content for bus in buses for name, content in pci(bus, 0x10DE, 0x2330, 0x030200, "nvidia").items()}
    text = smi_xml(*(smi_gpu(f"GPU-{place}", f"0000{bus}") for place, bus in enumerate(buses)))
    found = find_devices(machine(tree | {"/tools/nvidia-smi-q-x.xml": text})).devices
    assert [device.bus_id for device in found] == buses
    assert {(device.state, device.details["sources"][-1]) for device in found} == {("usable", "pci")}
