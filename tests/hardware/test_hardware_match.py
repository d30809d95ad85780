"""A probed device gets its own sheet or none, never another's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.hardware import load
from advisor.hardware.match import match_device, nearest, reason_without
from advisor.probe.records import Device

MIB = 1 << 20


def device(**fields: Any) -> Device:
    base: dict[str, Any] = {"id": "d", "target": "cuda", "vendor": None, "name": None, "arch": None, "state": "usable"}
    return Device(**{**base, **fields})


@pytest.mark.parametrize(
    ("fields", "identity"),
    [
        ({"name": "NVIDIA A100-SXM4-80GB", "arch": "sm_80", "memory_bytes": 81920 * MIB, "pci_id": "10de:20b2"}, "a100-sxm4-80gb"),
        ({"name": "NVIDIA A100-SXM4-80GB"}, "a100-sxm4-80gb"),
        ({"pci_id": "10de:20b0"}, "a100-sxm4-40gb"),
        ({"name": "NVIDIA H100 80GB HBM3", "arch": "sm_90", "memory_bytes": 81559 * MIB, "compute_units": 132}, "h100-sxm5-80gb"),
        ({"name": "NVIDIA H200", "arch": "9.0", "memory_bytes": 143771 * MIB}, "h200-sxm5-141gb"),
        ({"name": "NVIDIA GH200 120GB", "memory_bytes": 97871 * MIB}, "gh200-96gb"),
        ({"name": "Tesla T4", "arch": "sm_75", "memory_bytes": 15360 * MIB}, "t4"),
        ({"name": "NVIDIA A10G", "memory_bytes": 23028 * MIB, "pci_id": "10de:2237"}, "a10g"),
        ({"name": "NVIDIA L40S", "memory_bytes": 46068 * MIB}, "l40s"),
        ({"name": "NVIDIA GeForce RTX 4090", "memory_bytes": 24564 * MIB, "compute_units": 128}, "rtx-4090"),
        ({"name": "NVIDIA GB10", "arch": "sm_121"}, "gb10"),
        ({"name": "NVIDIA GB200", "memory_bytes": 189471 * MIB}, "gb200"),
        (
            {"target": "rocm", "name": "AMD Instinct MI300X OAM", "arch": "gfx942", "memory_bytes": 196592 * MIB, "compute_units": 304},
            "mi300x",
        ),
        (
            {"target": "rocm", "name": "AMD Instinct MI308X OAM", "arch": "gfx942", "memory_bytes": 196592 * MIB, "compute_units": 80},
            "mi308x",
        ),
        ({"target": "rocm", "pci_id": "1002:738c", "arch": "gfx908:sramecc+:xnack-"}, "mi100"),
        ({"target": "rocm", "pci_id": "1002:740c", "arch": "gfx90a", "compute_units": 110}, "mi250x"),
        ({"target": "rocm", "pci_id": "1002:740c", "arch": "gfx90a", "compute_units": 104}, "mi250"),
        ({"target": "rocm", "arch": "gfx90a", "memory_bytes": 65520 * MIB, "compute_units": 110, "vendor": "AMD"}, "mi250x"),
        ({"target": "tpu", "pci_id": "1ae0:0062", "arch": "v5p"}, "tpu-v5p"),
        ({"target": "tpu", "pci_id": "1ae0:0027", "details": {"subsystem_device": "0x004f"}}, "tpu-v3"),
        ({"target": "npu", "name": "910B2", "arch": "910B", "memory_bytes": 65536 * MIB, "pci_id": "19e5:d802"}, "ascend-910b2"),
        ({"target": "npu", "name": "310P3", "arch": "310P"}, "ascend-310p3"),
        ({"target": "npu", "name": "Ascend910", "arch": "910C", "memory_bytes": 65536 * MIB}, "ascend-910c"),
        ({"target": "neuron", "vendor": "aws", "memory_bytes": 98304 * MIB, "compute_units": 8}, "trainium2"),
        ({"target": "gaudi", "name": "HL-225", "arch": "gaudi2"}, "gaudi2"),
        ({"target": "neuron", "pci_id": "1d0f:7164", "arch": "trn1"}, "trainium1"),
        ({"target": "other", "name": "MXC500", "memory_bytes": 65536 * MIB}, "metax-c500"),
        ({"target": "cpu-x86", "name": "AMD EPYC 9654 96-Core Processor", "arch": "x86_64"}, "epyc-9654"),
        ({"target": "cpu-x86", "name": "Intel(R) Xeon(R) Platinum 8480+", "arch": "x86_64"}, "xeon-platinum-8480plus"),
        ({"target": "mps", "name": "Apple M3 Max"}, "apple-m3-max"),
    ],
)
def test_devices_with_a_sheet(fields: dict[str, Any], identity: str) -> None:
    match = match_device(device(**fields))
    assert match is not None, reason_without(device(**fields))
    assert (match.profile.id, match.confident) == (identity, True)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": "NVIDIA GeForce RTX 4090", "arch": "sm_89", "memory_bytes": 49140 * MIB, "pci_id": "10de:2684"}, "48.0 GiB, not 24"),
        ({"name": "GRID P40-24Q", "memory_bytes": 24576 * MIB, "arch": "sm_61"}, "nearest p40"),
        ({"name": "NVIDIA GeForce GTX 1650 Ti with Max-Q Design", "arch": "sm_75"}, "nearest"),
        ({"name": "Quadro P2000", "arch": "sm_61"}, "nearest"),
        ({"name": "NVIDIA A100X", "arch": "sm_80", "memory_bytes": 81920 * MIB}, "nearest a100"),
        ({"name": "NVIDIA H100 80GB HBM3", "arch": "sm_80"}, "architecture"),
        ({"target": "rocm", "name": "AMD Instinct MI300X", "arch": "gfx942", "compute_units": 38, "memory_bytes": 24576 * MIB}, "not 192"),
        ({"target": "rocm", "name": "AMD Instinct MI300X", "arch": "gfx942", "compute_units": 38}, "38 compute units, not 304"),
        ({"target": "cpu-x86", "name": "AMD EPYC", "arch": "x86_64"}, "nearest"),
        ({"target": "cpu-other", "name": "POWER9"}, "no sheet is alike"),
        ({"target": "npu", "name": "Coral Edge TPU", "arch": "edgetpu"}, "no sheet is alike"),
        ({"target": "xpu", "name": None, "arch": "pvc"}, "nearest max-1"),
        ({"target": "cuda", "name": "", "arch": None}, "neither its name"),
    ],
)
def test_devices_without_a_sheet_say_the_nearest(fields: dict[str, Any], says: str) -> None:
    assert match_device(device(**fields)) is None
    assert says in reason_without(device(**fields))


def test_short_names_that_people_type_identify_no_device() -> None:
    assert load.profile("a100").id == "a100-sxm4-80gb"
    assert match_device(device(name="a100")) is None
    assert match_device(device(name="NVIDIA H100")) is None


def test_a_mig_slice_leads_to_its_parents_sheet_without_confidence() -> None:
    found = device(name="NVIDIA A100-SXM4-80GB MIG 1g.10gb", arch="sm_80", memory_bytes=9728 * MIB, compute_units=14, pci_id="10de:20b2")
    match = match_device(found)
    assert match is not None
    assert (match.profile.id, match.confident) == ("a100-sxm4-80gb", False)
    assert "slice" in match.how
    named = device(name="NVIDIA A100-SXM4-80GB MIG", details={"mig_slice": {"gpu_instance": 1}})
    assert match_device(named) is not None


@pytest.mark.parametrize(
    ("target", "name"), [("cuda", "NVIDIA H100 96GB"), ("rocm", "AMD Instinct MI350X"), ("tpu", "Google TPU v8"), ("xpu", "Intel Arc A380")]
)
def test_nearest_stays_within_the_kind_of_device(target: str, name: str) -> None:
    found = nearest(device(target=target, name=name))
    assert found is not None
    assert found.target == target


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(sorted(load.all_profiles())), st.sampled_from(["memory", "arch", "units"]))
def test_a_fact_that_contradicts_the_sheet_forbids_it(identity: str, fact: str) -> None:
    sheet = load.all_profiles()[identity]
    if sheet.target.startswith("cpu"):
        return
    memory = None if sheet.memory_gib is None else round(sheet.memory_gib * (1 << 30))
    found = device(target=sheet.target, name=sheet.name, arch=sheet.arch, memory_bytes=memory, compute_units=sheet.compute_units)
    match = match_device(found)
    assert match is not None
    assert match.profile.id == identity
    if fact == "memory" and memory and sheet.memory_kind == "dedicated":
        assert match_device(replace(found, memory_bytes=memory // 2)) is None
    if fact == "arch" and sheet.arch:
        assert match_device(replace(found, arch="another")) is None
    if fact == "units" and sheet.compute_units and sheet.compute_units > 1:
        assert match_device(replace(found, compute_units=sheet.compute_units // 2)) is None


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(["cuda", "rocm", "tpu", "npu", "cpu-x86", "cpu-arm", "other", "mps"]),
    st.text(max_size=30) | st.none(),
    st.text(max_size=8) | st.none(),
    st.integers(0, 1 << 45) | st.none(),
    st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{4}", fullmatch=True) | st.text(max_size=9) | st.none(),
    st.integers(0, 1 << 20) | st.none(),
)
def test_anything_a_probe_may_say_is_answered(
    target: Any, name: str | None, arch: str | None, memory: int | None, pci_id: str | None, units: int | None
) -> None:
    found = device(target=target, name=name, arch=arch, memory_bytes=memory, pci_id=pci_id, compute_units=units)
    match = match_device(found)
    assert match is not None or reason_without(found).startswith("unknown")
