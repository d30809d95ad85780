"""The real NVML binding in the real child, driven by the stub library."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor.probe.accelerators.merge import build
from advisor.probe.accelerators.nvidia_judge import Library, judge
from advisor.probe.accelerators.nvidia_proc import KernelModule
from advisor.probe.accelerators.nvml import NvmlAnswer, ask_nvml
from advisor.probe.records import Device
from advisor.probe.root import Root

Stub = Callable[..., dict[str, str]]
GIB = 1 << 30
H100 = ("0.name=Test H100", f"0.memory={80 * GIB}", "0.cc=90")


def devices(answer: NvmlAnswer, base: Path = Path("/nonexistent")) -> list[Device]:
    """Join what NVML said as the probe does on a machine without other sources."""
    library = Library(answer.state, answer.reason, complete=answer.complete, p2p=answer.p2p)
    library.reading.sightings += answer.sightings
    judge(library.reading, Root(base), library, KernelModule(), [], wsl=False)
    return build(library.reading.sightings).devices


def test_healthy_gpu_tells_everything(stub: Stub) -> None:
    answer = ask_nvml(stub("count=1", *H100, "0.bus=0x3b", "0.links=18", "0.links_total=18", "0.peer=0x5", "driver=570.1"))
    (gpu,) = devices(answer)
    assert answer.state is None
    assert answer.complete
    assert (gpu.state, gpu.arch, gpu.memory_bytes, gpu.bus_id, gpu.pci_id) == ("usable", "sm_90", 80 * GIB, "0000:3b:00.0", "10de:2330")
    assert gpu.details["pcie"] == {"gen": 5, "gen_max": 5, "width": 16, "width_max": 16}
    assert gpu.details["power"]["limit_w"] == 700.0
    assert gpu.details["nvlink"]["active"] == 18
    assert gpu.details["throttle"] == []  # bit 0 is idle, which is no throttling
    assert gpu.details["cuda_driver_version"] == "12.8"
    assert (gpu.links[0].to, gpu.links[0].kind) == ("0000:05:00.0", "nvlink")


def test_b09_b11_slices_stand_for_their_parent(stub: Stub) -> None:
    config = ("count=2", *H100, "0.uuid=GPU-parent", "0.mig=2", "err.nvmlDeviceGetUtilizationRates=3")
    slices = (
        "0.mig.0.uuid=MIG-a",
        f"0.mig.0.memory={20 * GIB}",
        "0.mig.0.sm=32",
        "0.mig.1.uuid=MIG-b",
        f"0.mig.1.memory={10 * GIB}",
        "0.mig.1.sm=16",
    )
    found = devices(ask_nvml(stub(*config, *slices, f"1.memory={80 * GIB}")))
    by_uuid = {device.uuid: device for device in found}
    assert len(found) == 3
    assert "GPU-parent" not in by_uuid
    assert (by_uuid["MIG-a"].memory_bytes, by_uuid["MIG-a"].compute_units) == (20 * GIB, 32)
    assert {by_uuid[name].package for name in ("MIG-a", "MIG-b")} == {"GPU-parent"}
    assert {device.state for device in found} == {"usable"}


def test_b87_a_slice_has_its_own_memory(stub: Stub) -> None:
    found = devices(
        ask_nvml(stub("count=1", f"0.memory={40 * GIB}", "0.mig=2", f"0.mig.0.memory={20 * GIB}", f"0.mig.1.memory={20 * GIB}"))
    )
    assert [device.memory_bytes for device in found] == [20 * GIB, 20 * GIB]


def test_b10_unreadable_parent_keeps_its_slice(stub: Stub) -> None:
    answer = ask_nvml(
        stub("count=1", "0.err.nvmlDeviceGetMemoryInfo=4", "0.err.nvmlDeviceGetMemoryInfo_v2=4", "0.mig=1", f"0.mig.0.memory={10 * GIB}")
    )
    (part,) = devices(answer)
    assert part.memory_bytes == 10 * GIB
    assert "insufficient permissions" in part.details["parent"]


def test_mig_without_slices_is_unsupported(stub: Stub) -> None:
    (gpu,) = devices(ask_nvml(stub("count=1", *H100, "0.mig=0")))
    assert gpu.state == "unsupported"
    assert "mig" in (gpu.fix or "")


NOT_SUPPORTED = tuple(
    f"err.nvmlDeviceGet{name}=3" for name in ("MemoryInfo", "MemoryInfo_v2", "PowerManagementLimit", "MaxPcieLinkGeneration")
)


def test_b01_gb10_is_unified(stub: Stub, machine: Callable[[dict[str, str]], Root]) -> None:
    root = machine({"/proc/meminfo": "MemTotal:       125508468 kB\n"})
    config = ("count=1", "0.name=NVIDIA GB10", "0.domain=0xf", "0.bus=1", "0.cc=121", "0.device=0x2e1210de", *NOT_SUPPORTED)
    (gpu,) = devices(ask_nvml(stub(*config)), root.base)
    assert (gpu.state, gpu.memory_kind, gpu.memory_bytes, gpu.bus_id, gpu.arch) == ("usable", "unified", None, "000f:01:00.0", "sm_121")
    assert gpu.details["pool_bytes"] == 125508468 * 1024
    assert "limit_w" not in gpu.details["power"]


@pytest.mark.parametrize("code", [15, 16])
def test_b02_lost_gpu_has_no_memory_of_the_host(stub: Stub, machine: Callable[[dict[str, str]], Root], code: int) -> None:
    root = machine({"/proc/meminfo": "MemTotal:       65900000 kB\n"})
    config = ("count=1", "0.name=NVIDIA GB10", f"err.nvmlDeviceGetMemoryInfo={code}", f"err.nvmlDeviceGetMemoryInfo_v2={code}")
    (gpu,) = devices(ask_nvml(stub(*config)), root.base)
    assert (gpu.state, gpu.memory_bytes) == ("lost", None)
    assert "pool_bytes" not in gpu.details


def test_b02_memory_not_supported_on_a_card_is_unknown_not_unified(stub: Stub) -> None:
    (gpu,) = devices(ask_nvml(stub("count=1", "0.name=Test H100", *NOT_SUPPORTED)))
    assert (gpu.memory_bytes, gpu.memory_kind) == (None, None)


def test_b12_lost_gpu_keeps_the_others(stub: Stub) -> None:
    sizes = tuple(f"{index}.memory={80 * GIB}" for index in range(8))
    found = devices(ask_nvml(stub("count=8", *sizes, "5.err.nvmlDeviceGetHandleByIndex_v2=15")))
    assert [device.state for device in found].count("usable") == 7
    assert found[5].state == "lost"


def test_b17_library_without_the_versioned_memory_call(stub: Stub) -> None:
    (gpu,) = devices(ask_nvml(stub("count=1", *H100, switches=("OLD",))))
    assert (gpu.state, gpu.memory_bytes) == ("usable", 80 * GIB)


def test_b18_missing_functions_cost_their_fields_only(stub: Stub) -> None:
    (gpu,) = devices(ask_nvml(stub("count=1", *H100, switches=("OLD", "FEW"))))
    assert (gpu.state, gpu.memory_bytes, gpu.arch) == ("usable", 80 * GIB, "sm_90")
    assert "processes" not in gpu.details
    assert "pcie" not in gpu.details


def test_b19_vgpu_with_unsupported_clocks_and_links(stub: Stub) -> None:
    refused = tuple(
        f"err.nvmlDeviceGet{name}=3" for name in ("ClockInfo", "MaxClockInfo", "CurrPcieLinkWidth", "MaxPcieLinkWidth", "NvLinkState")
    )
    (gpu,) = devices(ask_nvml(stub("count=1", "0.name=GRID A100-10C", f"0.memory={10 * GIB}", "0.virt=2", *refused)))
    assert (gpu.state, gpu.details["virtualization"]) == ("usable", "VGPU")
    assert "clocks_mhz" not in gpu.details
    assert "nvlink" not in gpu.details


@pytest.mark.parametrize(("code", "state"), [(18, "version_mismatch"), (9, "no_driver"), (4, "permission_denied"), (999, "unknown")])
def test_b16_init_codes_tell_what_is_wrong(stub: Stub, code: int, state: str) -> None:
    answer = ask_nvml(stub(f"init={code}"))
    assert answer.state == state
    assert str(code) in (answer.reason or "")


def test_b13_a_hang_costs_its_deadline(stub: Stub) -> None:
    start = time.monotonic()
    answer = ask_nvml(stub("hang=600"), deadline_s=1.0)
    assert (answer.state, answer.sightings) == ("timeout", [])
    assert time.monotonic() - start < 60  # far below the 600 s that the library would take


def test_b13_gpus_told_before_a_hang_are_kept(stub: Stub) -> None:
    config = ("count=2", *H100, f"1.memory={80 * GIB}", "hang.nvmlDeviceGetP2PStatus=600")
    answer = ask_nvml(stub(*config), deadline_s=3.0)
    assert answer.state == "timeout"
    assert [device.memory_bytes for device in devices(answer)] == [80 * GIB, 80 * GIB]


def test_an_abort_ends_only_the_child(stub: Stub) -> None:
    answer = ask_nvml(stub("abort=1"))
    assert answer.state == "crashed"
    assert "SIGABRT" in (answer.reason or "")


def test_garbage_for_a_library_is_no_library(tmp_path: Path, stub: Stub) -> None:
    environ = stub("count=1")
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"not a library")
    answer = ask_nvml({**environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert answer.state == "no_library"


def test_throttling_and_errors_are_told(stub: Stub) -> None:
    (gpu,) = devices(
        ask_nvml(stub("count=1", *H100, "0.reasons=0x45", "0.ecc_volatile=3", "0.limit=450000", "0.mode=3", "0.persistence=0"))
    )
    assert gpu.details["throttle"] == ["sw_power_cap", "hw_thermal_slowdown"]
    assert gpu.details["ecc"]["volatile_uncorrected"] == 3
    assert gpu.details["power"] == {"limit_w": 450.0, "default_w": 700.0, "min_w": 200.0, "max_w": 700.0, "draw_w": 71.0}
    assert (gpu.details["compute_mode"], gpu.details["persistence_mode"]) == ("Exclusive_Process", False)


def test_pairs_without_direct_access_are_told(stub: Stub) -> None:
    found = devices(ask_nvml(stub("count=2", f"0.memory={GIB}", f"1.memory={GIB}", "0.p2p=1")))
    assert [device.details["p2p_blocked"] for device in found] == [[1], [0]]


def test_64_gpus_answer(stub: Stub) -> None:
    sizes = [f"{index}.memory={80 * GIB}" for index in range(64)]
    found = devices(ask_nvml(stub("count=64", *sizes)))
    assert len({device.id for device in found}) == 64
    assert {device.state for device in found} == {"usable"}
