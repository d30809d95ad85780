"""What is said about accelerators: each cause a finding with a fix, and nothing said of what is in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from accelerator_machines import join, kfd, pci, smi_gpu, smi_xml

from advisor.probe.accelerators import find_devices
from advisor.probe.findings import Context, accelerators, gpu_health, gpu_setup
from advisor.probe.host import read_host
from advisor.probe.records import Checks, Device, Finding, Framework
from advisor.probe.root import Root

Machine = Callable[[dict[str, str]], Root]
GIB = 1 << 30
FINDERS = (*accelerators.FINDERS, *gpu_health.FINDERS, *gpu_setup.FINDERS)


def gpu(number: int = 0, **facts: Any) -> Device:
    """Return a healthy GPU with some facts changed; those that are no field are details."""
    base: dict[str, Any] = {"id": f"0000:{number + 1:02x}:00.0", "target": "cuda", "vendor": "nvidia", "name": "Test GPU", "arch": "sm_90"}
    fields = {name: facts.pop(name) for name in list(facts) if name in Device.__dataclass_fields__}
    details = {"pcie": {"gen": 1, "gen_max": 5, "width": 16, "width_max": 16}, "throttle": [], "persistence_mode": True, **facts}
    given = {"state": "usable", "memory_bytes": 80 * GIB, "memory_kind": "dedicated", "package": base["id"], **fields}
    return Device(**{**base, **given}, details=details)


def ask(root: Root, *devices: Device, frameworks: tuple[Framework, ...] = ()) -> list[Finding]:
    report = read_host(root)
    context = Context(root=root, host=report.host, facts=report.facts, devices=devices, frameworks=frameworks)
    return [finding for finder in FINDERS for finding in finder(context)]


def test_healthy_gpus_are_not_spoken_of(machine: Machine) -> None:
    assert ask(machine({}), *(gpu(number) for number in range(8))) == []


@pytest.mark.parametrize(
    ("code", "severity", "facts"),
    [
        ("GPU_LOST", "error", {"state": "lost", "reason": "r", "memory_bytes": None}),
        ("DRIVER_LIBRARY_MISMATCH", "error", {"state": "version_mismatch", "reason": "r"}),
        ("DRIVER_HANGS", "error", {"state": "timeout", "reason": "r"}),
        ("DRIVER_LIBRARY_CRASHES", "error", {"state": "crashed", "reason": "r"}),
        ("DEVICE_PERMISSION", "error", {"state": "permission_denied", "reason": "r"}),
        ("DEVICE_LIBRARY_MISSING", "warning", {"state": "no_library", "reason": "r"}),
        ("DEVICE_NO_DRIVER", "warning", {"state": "no_driver", "reason": "r"}),
        ("NOUVEAU_BOUND", "warning", {"state": "no_driver", "kernel_driver": "nouveau"}),
        ("GPU_PASSED_THROUGH", "info", {"state": "no_driver", "kernel_driver": "vfio-pci"}),
        ("MIG_WITHOUT_SLICES", "error", {"state": "unsupported", "mig": {"mode": True, "pending": True}}),
        ("CUDA_DOES_NOT_START", "error", {"state": "unsupported", "checks": Checks(runtime=False)}),
        ("PCIE_WIDTH_DEGRADED", "warning", {"pcie": {"gen": 1, "gen_max": 4, "width": 8, "width_max": 16}}),
        ("POWER_CAP_LOWERED", "warning", {"power": {"limit_w": 250.0, "default_w": 350.0}}),
        ("THROTTLED_NOW", "warning", {"throttle": ["hw_thermal_slowdown"]}),
        ("ECC_ERRORS", "error", {"ecc": {"mode": True, "volatile_uncorrected": 2}}),
        ("ECC_RETIREMENT_PENDING", "warning", {"ecc": {"remap_pending": True}}),
        ("ECC_REMAP_FAILED", "error", {"ecc": {"remap_failure": True}}),
        ("ECC_MODE_PENDING", "info", {"ecc": {"mode": True, "pending_mode": False}}),
        ("GPU_NEEDS_RESET", "error", {"recovery_action": "Reset"}),
        ("PERSISTENCE_MODE_OFF", "info", {"persistence_mode": False}),
        ("COMPUTE_MODE_EXCLUSIVE", "info", {"compute_mode": "Exclusive_Process"}),
        ("COMPUTE_MODE_PROHIBITED", "error", {"compute_mode": "Prohibited"}),
        ("MIG_MODE_PENDING", "info", {"mig": {"mode": False, "pending": True}}),
        ("P2P_UNAVAILABLE", "info", {"p2p_blocked": [1, 2]}),
        ("CUDA_ORDER_DIFFERS", "warning", {"cuda_index": 1, "nvml_index": 0}),
        ("UNIFIED_MEMORY", "info", {"memory_kind": "unified"}),
        ("VIRTUAL_GPU", "info", {"virtualization": "VGPU"}),
        ("GPU_COUNT_DIFFERS", "warning", {"attached_gpus": 4}),
        ("NPU_UNHEALTHY", "error", {"health": "Alarm", "target": "npu"}),
    ],
)
def test_each_cause_is_found_once(machine: Machine, code: str, severity: str, facts: dict[str, Any]) -> None:
    found = ask(machine({}), gpu(0, **facts))
    assert [(finding.code, finding.severity) for finding in found] == [(code, severity)]
    assert found[0].fix or facts.get("state") or code == "NPU_UNHEALTHY"  # a state's fix comes with the device


def test_low_generation_at_idle_is_no_fault(machine: Machine) -> None:
    assert ask(machine({}), gpu(0, pcie={"gen": 1, "gen_max": 5, "width": 16, "width_max": 16})) == []


def test_links_that_are_down(machine: Machine) -> None:
    full, partial = {"active": 18, "total": 18}, {"active": 17, "total": 18}
    found = ask(machine({}), gpu(0, nvlink=full), gpu(1, nvlink=partial))
    assert [finding.code for finding in found] == ["NVLINK_DOWN"]
    assert "0000:02:00.0" in found[0].message
    none = {"active": 0, "total": 18}
    assert [finding.code for finding in ask(machine({}), gpu(0, nvlink=none), gpu(1, nvlink=none))] == ["NVLINK_INACTIVE"]


def test_gpus_of_several_kinds(machine: Machine) -> None:
    assert [finding.code for finding in ask(machine({}), gpu(0), gpu(1, name="Other GPU"))] == ["MIXED_GPUS"]
    assert [finding.code for finding in ask(machine({}), gpu(0), gpu(1, memory_bytes=40 * GIB))] == ["MIXED_GPUS"]
    beside = ask(machine({}), gpu(0), gpu(1, name="Small", integrated=True, memory_kind="unified"))
    assert {finding.code for finding in beside} == {"INTEGRATED_BESIDE_DISCRETE", "UNIFIED_MEMORY"}


def test_equal_causes_are_one_finding(machine: Machine) -> None:
    found = ask(machine({}), *(gpu(number, state="version_mismatch", reason="library 1, module 2", fix="reboot") for number in range(8)))
    assert [(finding.code, finding.fix) for finding in found] == [("DRIVER_LIBRARY_MISMATCH", "reboot")]
    assert "and 4 more" in found[0].message


@pytest.mark.parametrize(("value", "code"), [("10.3.0", "HSA_OVERRIDE_SET"), ("11.0", "HSA_OVERRIDE_MALFORMED"), ("11.0.0", None)])
def test_b31_override_of_the_gfx_version(machine: Machine, value: str, code: str | None) -> None:
    for name in ("HSA_OVERRIDE_GFX_VERSION", "HSA_OVERRIDE_GFX_VERSION_0"):
        root = replace(machine({}), environ={name: value})
        found = ask(root, gpu(0, target="rocm", vendor="amd", arch="gfx1100"))
        assert [finding.code for finding in found] == ([code] if code else [])


@pytest.mark.parametrize(("built", "code"), [("13.0", "DRIVER_TOO_OLD"), ("12.9", None)])
def test_driver_older_than_the_framework_needs(machine: Machine, built: str, code: str | None) -> None:
    torch = Framework(name="torch", version="2.9", state="usable", reason=None, details={"cuda": built})
    found = ask(machine({}), gpu(0, cuda_driver_version="12.4", driver_version="550.54"), frameworks=(torch,))
    assert [finding.code for finding in found] == ([code] if code else [])


def test_partitions_are_told(machine: Machine) -> None:
    nodes = join(kfd(1 + part, simd_count=152, simd_per_cu=4, unique_id=7, location_id=0x500 + part) for part in range(8))
    root = machine(nodes)
    (finding,) = ask(root, *find_devices(root).devices)
    assert finding.code == "GPU_PARTITIONED"
    assert "8 partitions" in finding.message


def test_tpu_declared_and_absent(machine: Machine) -> None:
    root = replace(machine({}), environ={"TPU_ACCELERATOR_TYPE": "v6e-4"})
    assert [finding.code for finding in find_devices(root).findings] == ["TPU_DECLARED_BUT_ABSENT"]


def test_gpu_outside_the_pci_tree_is_odd(machine: Machine) -> None:
    tree = pci("0000:01:00.0", 0x10DE, 0x2330, 0x030200, "nvidia")
    text = smi_xml(smi_gpu("GPU-0", "00000000:01:00.0"), smi_gpu("GPU-1", "00000000:02:00.0"))
    report = find_devices(machine(tree | {"/tools/nvidia-smi-q-x.xml": text}))
    assert [finding.code for finding in report.findings] == ["GPU_NOT_IN_PCI_TREE"]
    assert len(report.devices) == 2
