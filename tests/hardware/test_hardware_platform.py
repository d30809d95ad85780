"""The network of a platform, and this machine as one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.hardware import load
from advisor.hardware.platform import KernelPoint, Platform
from advisor.hardware.spec import parse_spec
from advisor.hardware.tiers import host_link_bytes_per_s
from advisor.hardware.topology import cpu_platform, local_platform, platform_for, platforms_for
from advisor.probe.records import Cpu, Device, DeviceLink, Framework, Host, HostMemory, Machine

GIB = 1 << 30


def platform(text: str) -> Platform:
    return platform_for(parse_spec(text))


def shape(text: str) -> list[tuple[str, int, float]]:
    return [(tier.kind, tier.group, round(tier.bandwidth_bytes_per_s / 1e9, 3)) for tier in platform(text).tiers]


@pytest.mark.parametrize(
    ("text", "tiers"),
    [
        ("1xa100", []),
        ("8xa100", [("nvswitch", 8, 300.0)]),
        ("64xa100", [("nvswitch", 8, 300.0), ("ib-hdr", 64, 25.0)]),
        ("64xh100", [("nvswitch", 8, 450.0), ("ib-ndr", 64, 50.0)]),
        ("16xa100-40gb@p4d", [("nvswitch", 8, 300.0), ("efa", 16, 6.25)]),
        ("16xv100", [("nvlink-mesh", 8, 150.0), ("ib-edr", 16, 6.25)]),
        ("72xgb200", [("nvswitch", 72, 900.0)]),
        ("144xgb200", [("nvswitch", 72, 900.0), ("ib-ndr", 144, 50.0)]),
        ("2x4xgb200", [("nvswitch", 8, 900.0)]),
        ("16xmi250x", [("xgmi", 8, 175.0), ("slingshot-11", 16, 12.5)]),
        ("16xmi300x", [("xgmi", 8, 448.0), ("ib-ndr", 16, 50.0)]),
        ("tpu-v5p-128", [("ici", 64, 600.0)]),
        ("v5litepod-256", [("ici", 256, 200.0)]),
        ("8xa100-pcie-80gb", [("pcie", 8, 31.504)]),
        ("2xrtx-4090", [("pcie", 2, 31.504)]),
        ("4xl40", [("pcie", 4, 31.504)]),
        ("16xascend-910b", [("hccs", 8, 196.0), ("roce", 16, 25.0)]),
        ("16xgaudi2", [("roce", 8, 262.5), ("roce", 16, 37.5)]),
    ],
)
def test_tiers(text: str, tiers: list[tuple[str, int, float]]) -> None:
    assert shape(text) == tiers


def test_a_platform_of_a_well_known_cluster() -> None:
    found = platform_for(parse_spec("64xa100-sxm4-80gb"), usd_per_hour=2.5)
    assert (found.devices, found.nodes, found.devices_per_node) == (64, 8, 8)
    assert found.memory_bytes == 80 * GIB
    assert found.host_memory_bytes == 2048 * GIB
    assert found.host_link_bytes_per_s == pytest.approx(31.5e9, rel=1e-3)
    assert found.usd_per_device_hour == 2.5
    assert found.frameworks is None
    assert not found.is_cpu


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("16xa10", "network between nodes of a10-server is not known"),
        ("v5e-512", "largest"),
        ("2xxeon-8480+", "not known"),
        ("8xtrainium1", "trn1-32xlarge is not known"),
    ],
)
def test_what_is_not_known_is_said_and_not_guessed(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        platform(text)


def test_terms_of_one_kind_add_up_and_others_stay_apart() -> None:
    assert platform("8xa100+8xa100").devices == 16
    assert [p.profile.id for p in platforms_for(parse_spec("8xa100+8xh100+8xa100"))] == ["a100-sxm4-80gb", "h100-sxm5-80gb"]
    with pytest.raises(UsageError, match="different kinds"):
        platform("8xa100+8xh100")


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(sorted(load.all_profiles())), st.integers(1, 512))
def test_tiers_grow_outwards_and_end_at_every_device(identity: str, count: int) -> None:
    try:
        found = platform(f"{count}x{identity}")
    except UsageError:
        return
    groups = [tier.group for tier in found.tiers]
    assert groups == sorted(set(groups))
    assert (groups[-1] if groups else 1) == count
    assert all(tier.bandwidth_bytes_per_s > 0 and 0 < tier.latency_s < 1e-4 for tier in found.tiers)


@pytest.mark.parametrize(
    ("name", "gb_per_s"),
    [
        ("v100-sxm2-32gb", 15.76),
        ("a100", 31.5),
        ("h100", 63.0),
        ("arc-b580", 15.75),
        ("gh200", 450.0),
        ("graviton3", None),
        ("tpu-v4", None),
    ],
)
def test_host_links(name: str, gb_per_s: float | None) -> None:
    rate = host_link_bytes_per_s(load.profile(name))
    assert rate == (None if gb_per_s is None else pytest.approx(gb_per_s * 1e9, rel=1e-3))


def machine(
    cpu: Cpu | None = None, devices: tuple[Device, ...] = (), usable: int | None = 24 * GIB, frameworks: tuple[Framework, ...] = ()
) -> Machine:
    cpu = cpu or a_cpu()
    host = Host(
        os="linux",
        kernel="6.1",
        arch="x86_64",
        virtualization=None,
        container=None,
        cpu=cpu,
        memory=HostMemory(total_bytes=64 * GIB, usable_bytes=usable, limit_source="cgroup"),
    )
    own = Device(id="cpu0", target="cpu-x86", vendor=cpu.vendor, name=cpu.model, arch="x86_64", state="usable", memory_bytes=usable)
    return Machine(fingerprint="f", host=host, devices=(own, *devices), frameworks=frameworks)


def a_cpu(isa: tuple[str, ...] = ("avx2", "fma"), cores: int = 8, usable: float = 8.0, mhz: float | None = 3000.0) -> Cpu:
    return Cpu(
        vendor="GenuineIntel",
        model="A CPU",
        microarchitecture=None,
        isa=isa,
        sockets=1,
        physical_cores=cores,
        logical_cpus=2 * cores,
        usable_cpus=usable,
        max_mhz=mhz,
    )


@pytest.mark.parametrize(
    ("isa", "dtype", "tflops"),
    [
        (("sse2",), "fp32", 0.192),
        (("avx", "sse2"), "fp32", 0.384),
        (("avx2", "fma"), "fp32", 0.768),
        (("avx2", "fma"), "fp64", 0.384),
        (("avx512f", "avx2", "fma"), "fp32", 1.536),
        (("avx512f", "avx512_bf16"), "bf16", 3.072),
        (("avx512f", "avx512_vnni"), "int8", 6.144),
        (("avx512f", "amx_bf16", "amx_int8"), "bf16", 24.576),
        (("avx512f", "amx_bf16", "amx_int8"), "int8", 49.152),
        (("asimd",), "fp32", 0.384),
        (("asimd", "asimddp"), "int8", 1.536),
    ],
)
def test_cpu_peaks_are_cores_times_width_times_clock(isa: tuple[str, ...], dtype: str, tflops: float) -> None:
    """8 cores at 3 GHz: two FLOPs a multiply-add."""
    assert cpu_platform(machine(a_cpu(isa))).profile.dense_tflops[dtype] == pytest.approx(tflops)


def test_a_cpu_counts_what_this_process_may_use() -> None:
    whole, half = (cpu_platform(machine(a_cpu(usable=usable))) for usable in (16.0, 1.5))
    assert (whole.threads, half.threads) == (8, 1)
    assert half.profile.dense_tflops["fp32"] == pytest.approx(1.5 / 8 * whole.profile.dense_tflops["fp32"])
    assert whole.is_cpu
    assert whole.memory_bytes == 24 * GIB
    assert (whole.devices, whole.tiers) == (1, ())


def test_a_cpu_nobody_knows_has_no_peaks_rather_than_invented_ones() -> None:
    found = cpu_platform(machine(a_cpu(isa=(), mhz=None)))
    assert found.profile.dense_tflops == {}
    assert found.profile.memory_gb_per_s is None
    assert "not known" in (found.profile.notes or "")


def test_memory_bandwidth_is_measured_over_the_largest_working_set() -> None:
    def point(size: float, rate: float) -> KernelPoint:
        return KernelPoint(id=str(size), kind="bandwidth", backend="numpy", dtype="fp32", threads=1, shape={"bytes": size}, rate=rate)

    found = cpu_platform(machine(), [point(1e6, 200e9), point(1e9, 18e9), point(1e9, 21e9)])
    assert found.profile.memory_gb_per_s == pytest.approx(21)


def gpu(index: int, state: str = "usable", links: tuple[DeviceLink, ...] = ()) -> Device:
    return Device(
        id=f"gpu{index}",
        target="cuda",
        vendor="nvidia",
        name="NVIDIA A100-SXM4-80GB",
        arch="sm_80",
        state=state,  # type: ignore[arg-type]
        memory_bytes=81920 << 20,
        pci_id="10de:20b2",
        links=links,
    )


def test_local_takes_usable_accelerators_else_the_cpu() -> None:
    found = local_platform(machine(devices=(gpu(0), gpu(1), gpu(2, "lost"))))
    assert (found.profile.id, found.devices, found.host_memory_bytes) == ("a100-sxm4-80gb", 2, 24 * GIB)
    assert [tier.group for tier in found.tiers] == [2]
    assert local_platform(machine(devices=(gpu(0, "no_driver"),))).is_cpu
    assert local_platform(machine()).is_cpu


def test_local_uses_the_links_the_probe_saw() -> None:
    mesh = [[DeviceLink(to=f"gpu{b}", kind="NVLink", bandwidth_bytes_per_s=50e9) for b in range(4) if b != a] for a in range(4)]
    found = local_platform(machine(devices=tuple(gpu(i, links=tuple(mesh[i])) for i in range(4))))
    assert [(tier.kind, tier.bandwidth_bytes_per_s) for tier in found.tiers] == [("nvlink", 150e9)]


def test_local_keeps_the_frameworks_that_can_use_the_device() -> None:
    frameworks = (
        Framework(name="torch", version="2", state="usable", reason=None, targets=("cuda", "cpu-x86")),
        Framework(name="jax", version="1", state="usable", reason=None, targets=("cpu-x86",)),
        Framework(name="vllm", version=None, state="absent", reason="not installed"),
    )
    assert local_platform(machine(devices=(gpu(0),), frameworks=frameworks)).frameworks == ("torch",)
    assert cpu_platform(machine(frameworks=frameworks)).frameworks == ("torch", "jax")
    assert cpu_platform(machine()).frameworks is None


def test_local_on_slices_is_one_slice_with_its_share() -> None:
    slices = tuple(
        Device(
            id=f"mig{index}",
            target="cuda",
            vendor="nvidia",
            name="NVIDIA A100-SXM4-80GB MIG 3g.40gb",
            arch="sm_80",
            state="usable",
            memory_bytes=40 * GIB,
            compute_units=42,
            pci_id="10de:20b2",
        )
        for index in range(2)
    )
    found = local_platform(machine(devices=slices))
    assert (found.devices, found.tiers, found.memory_bytes) == (1, (), 40 * GIB)
    assert found.profile.dense_tflops["bf16"] == pytest.approx(312 * 42 / 108)
    assert found.profile.memory_gb_per_s == pytest.approx(2039 / 2)
    assert not found.profile.peer_to_peer
    unseen = local_platform(machine(devices=(replace(slices[0], compute_units=None),)))
    assert unseen.profile.dense_tflops == {}


def test_local_devices_joined_by_who_knows_what_are_answered_for_one() -> None:
    chips = tuple(
        Device(id=f"n{i}", target="neuron", vendor="aws", name="AWS Trainium", arch="trn1", state="usable", memory_bytes=32 * GIB)
        for i in range(2)
    )
    found = local_platform(machine(devices=chips))
    assert (found.profile.id, found.devices, found.tiers) == ("trainium1", 1, ())
