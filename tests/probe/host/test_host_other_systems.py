"""macOS by the text of sysctl, Windows by stand-ins for psutil and the registry."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from advisor.probe.host import _macos, _windows, read_host
from advisor.probe.root import Root

Write = Callable[..., Root]

MAC = """hw.ncpu: 10
hw.memsize: 34359738368
hw.nperflevels: 2
hw.perflevel0.physicalcpu: 8
hw.perflevel0.logicalcpu: 8
hw.perflevel0.l2cachesize: 12582912
hw.perflevel0.cpusperl2: 4
hw.perflevel0.name: Performance
hw.perflevel1.physicalcpu: 2
hw.perflevel1.logicalcpu: 2
hw.perflevel1.l2cachesize: 4194304
hw.perflevel1.cpusperl2: 2
hw.perflevel1.name: Efficiency
hw.optional.arm64: 1
hw.optional.arm.FEAT_BF16: 1
hw.optional.arm.FEAT_I8MM: 0
hw.optional.armv8_1_atomics: 1
hw.physicalcpu: 10
hw.logicalcpu: 10
kern.hv_vmm_present: 0
machdep.cpu.brand_string: Apple M9 Max
vm.swapusage: total = 2048.00M  used = 1.00M  free = 2047.00M
"""


def test_bug_62_a_mac_by_performance_levels(machine: Write) -> None:
    host = read_host(machine({"/tools/sysctl-a.txt": MAC})).host
    assert (host.os, host.arch, host.virtualization, host.cpu.vendor, host.cpu.model) == (
        "darwin",
        "aarch64",
        "none",
        "Apple",
        "Apple M9 Max",
    )
    assert [(c.name, c.count) for c in host.cpu.clusters] == [("Performance", 8), ("Efficiency", 2)]
    assert host.cpu.isa == ("FEAT_BF16", "FEAT_LSE")
    assert [(c.level, c.size_bytes, c.count) for c in host.cpu.caches] == [(2, 12582912, 2), (2, 4194304, 1)]
    assert (host.memory.usable_bytes, host.memory.swap_bytes, host.cpu.usable_cpus) == (32 << 30, 2 << 30, 10.0)


def test_bug_62_what_a_mac_does_not_say_is_unknown(machine: Write) -> None:
    report = read_host(machine({"/tools/sysctl-a.txt": "machdep.cpu.brand_string: Apple processor\nhw.ncpu: 4\n"}))
    assert report.host.cpu.model is None
    assert "virtual machine" in report.unknown["host.cpu.model"]
    assert report.host.memory.total_bytes is None
    assert report.host.cpu.clusters == ()


def test_an_intel_mac() -> None:
    text = (
        "machdep.cpu.brand_string: Intel(R) Core(TM) i7-9750H CPU\nmachdep.cpu.family: 6\nmachdep.cpu.model: 158\n"
        "machdep.cpu.stepping: 10\nmachdep.cpu.features: SSE4.2 AVX1.0 FMA\nmachdep.cpu.leaf7_features: AVX2\nhw.logicalcpu: 12\n"
    )
    host = _macos.host_of(_macos.parse_sysctl(text), live=False).host
    assert (host.arch, host.cpu.vendor, host.cpu.microarchitecture) == ("x86_64", "Intel", "coffeelake")
    assert host.cpu.isa == ("sse4_2", "avx", "fma", "avx2")


@given(st.text(max_size=200), st.dictionaries(st.sampled_from(sorted(_macos.parse_sysctl(MAC))), st.text(max_size=20)))
def test_no_sysctl_makes_it_raise(text: str, values: dict[str, str]) -> None:
    _macos.host_of({**_macos.parse_sysctl(text), **values}, live=False)


def psutil_stand_in(logical: int = 16, affinity: int = 16) -> SimpleNamespace:
    return SimpleNamespace(
        Error=RuntimeError,
        cpu_count=lambda logical: 16 if logical else 8,
        Process=lambda: SimpleNamespace(cpu_affinity=lambda: list(range(affinity))),
        virtual_memory=lambda: SimpleNamespace(total=32 << 30, available=20 << 30),
        swap_memory=lambda: SimpleNamespace(total=4 << 30),
        cpu_freq=lambda: SimpleNamespace(max=4800.0),
    )


REGISTRY = {
    "ProcessorNameString": "AMD Ryzen 9 7950X ",
    "VendorIdentifier": "AuthenticAMD",
    "Identifier": "AMD64 Family 25 Model 97 Stepping 2",
}


def test_windows_by_registry_and_psutil() -> None:
    report = _windows.host_of(psutil_stand_in(affinity=4), REGISTRY, {})
    cpu = report.host.cpu
    assert (report.host.os, cpu.vendor, cpu.model, cpu.microarchitecture) == ("windows", "AMD", "AMD Ryzen 9 7950X", "zen4")
    assert (cpu.physical_cores, cpu.logical_cpus, cpu.usable_cpus, cpu.usable_cpus_source) == (8, 16, 4.0, "affinity")
    assert report.host.memory.usable_bytes == 32 << 30
    assert report.unknown["host.cpu.sockets"]


def test_windows_without_psutil_and_registry() -> None:
    report = _windows.host_of(None, {}, {"PROCESSOR_IDENTIFIER": "Intel64 Family 6 Model 85 Stepping 7, GenuineIntel"})
    assert report.host.cpu.microarchitecture == "cascadelake"
    assert report.host.memory.total_bytes is None
    assert "psutil" in report.unknown["host.memory.total_bytes"]
    assert report.unknown["host.cpu.model"]


def test_windows_where_psutil_refuses() -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("access denied")

    broken = SimpleNamespace(
        Error=RuntimeError, cpu_count=refuse, Process=refuse, virtual_memory=refuse, swap_memory=refuse, cpu_freq=refuse
    )
    report = _windows.host_of(broken, {}, {})
    assert report.host.memory.total_bytes is None
    assert report.host.cpu.physical_cores is None
