"""Which processor it is, from /proc/cpuinfo of every architecture. The texts are short ones of our own."""

# ruff: noqa: E501 - tables of small machines read best one a line
from __future__ import annotations

from collections.abc import Callable

import pytest

from advisor.probe.host import read_host
from advisor.probe.host._arm import core_name
from advisor.probe.host._x86 import isa_level, microarchitecture
from advisor.probe.records import Cpu
from advisor.probe.root import Root

Write = Callable[..., Root]


def arm(*cores: tuple[int, int], features: str = "fp asimd evtstrm aes", variant: int = 0) -> str:
    return "".join(
        f"processor\t: {index}\nBogoMIPS\t: 50.00\nFeatures\t: {features}\nCPU implementer\t: {implementer:#04x}\n"
        f"CPU architecture: 8\nCPU variant\t: {variant:#x}\nCPU part\t: {part:#05x}\nCPU revision\t: 1\n\n"
        for index, (implementer, part) in enumerate(cores)
    )


def x86(family: int, model: int, stepping: int = 1, flags: str = "fpu lm", vendor: str = "GenuineIntel", name: str = "A CPU") -> str:
    return (
        f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: {name}\n"
        f"stepping\t: {stepping}\nphysical id\t: 0\ncore id\t\t: 0\nflags\t\t: {flags}\n\n"
    )


def cpu_of(machine: Write, text: str) -> Cpu:
    return read_host(machine({"/proc/cpuinfo": text})).host.cpu


def test_bug_58_unknown_arm_part_keeps_its_numbers_and_features(machine: Write) -> None:
    root = machine({"/proc/cpuinfo": arm((0x70, 0x999), features="fp asimd sve")})
    host = read_host(root).host
    assert host.arch == "aarch64"
    assert host.cpu.clusters[0].name == "arm-0x70-0x999"
    assert host.cpu.vendor == "Phytium"
    assert host.cpu.isa == ("fp", "asimd", "sve")
    assert cpu_of(machine, arm((0x70, 0x662))).microarchitecture == "FTC662"


def test_bug_59_apple_part_zero_and_a_maker_nobody_knows(machine: Write) -> None:
    assert cpu_of(machine, arm((0x61, 0x000))).vendor == "Apple"
    strange = cpu_of(machine, arm((0x7F, 0x001)))
    assert strange.vendor == "implementer 0x7f"
    assert strange.clusters[0].name == "arm-0x7f-0x001"


def test_bug_60_kinds_of_cores_are_counted_by_part(machine: Write) -> None:
    text = arm((0x41, 0xD03), (0x41, 0xD03), *[(0x41, 0xD09)] * 4) + "Hardware\t: BCM2835\n"
    cpu = cpu_of(machine, text)
    assert [(c.name, c.implementer, c.part, c.count) for c in cpu.clusters] == [
        ("Cortex-A53", "0x41", "0xd03", 2),
        ("Cortex-A73", "0x41", "0xd09", 4),
    ]
    assert cpu.model == "2x Cortex-A53 + 4x Cortex-A73"


def test_bug_60_the_board_comes_from_the_device_tree(machine: Write) -> None:
    root = machine(
        {
            "/proc/cpuinfo": arm(*[(0x41, 0xD0B)] * 4) + "Hardware\t: BCM2835\n",
            "/proc/device-tree/compatible": "raspberrypi,5-model-b\0brcm,bcm2712\0",
            "/proc/device-tree/model": "Raspberry Pi 5 Model B\0",
        }
    )
    report = read_host(root)
    assert report.host.cpu.model == "Broadcom BCM2712"
    assert report.facts.board == "Raspberry Pi 5 Model B"


def test_bug_61_capacities_within_one_kind_make_no_new_kind(machine: Write) -> None:
    files = {"/proc/cpuinfo": arm(*[(0x41, 0xD87)] * 2, *[(0x41, 0xD85)] * 2)}
    files |= {f"/sys/devices/system/cpu/cpu{i}/cpu_capacity": f"{c}\n" for i, c in enumerate((718, 731, 997, 1024))}
    assert [(c.name, c.count) for c in read_host(machine(files)).host.cpu.clusters] == [("Cortex-A725", 2), ("Cortex-X925", 2)]


def test_bug_63_family_and_model_come_before_flags(machine: Write) -> None:
    assert cpu_of(machine, x86(6, 198, flags="fpu lm avx2 avx_vnni")).microarchitecture == "arrowlake"


def test_bug_65_each_level_needs_all_its_features() -> None:
    v3 = "lm cmov cx8 fpu fxsr mmx sse sse2 cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe"
    assert isa_level(frozenset(v3.split())) == "x86-64-v3"
    assert isa_level(frozenset(f"{v3} avx512f avx512cd avx512er avx512pf".split())) == "x86-64-v3"
    assert isa_level(frozenset(f"{v3} avx512f avx512bw avx512cd avx512dq avx512vl".split())) == "x86-64-v4"
    assert isa_level(frozenset({"avx2"})) is None


@pytest.mark.parametrize(
    ("vendor", "family", "model", "stepping", "name"),
    [
        ("GenuineIntel", 6, 0x55, 4, "skylake-server"),
        ("GenuineIntel", 6, 0x55, 7, "cascadelake"),
        ("GenuineIntel", 6, 0x55, 11, "cooperlake"),
        ("GenuineIntel", 6, 0x8F, 8, "sapphirerapids"),
        ("GenuineIntel", 6, 0xAD, 1, "graniterapids"),
        ("GenuineIntel", 15, 4, 1, "netburst"),
        ("GenuineIntel", 6, 250, 1, None),
        ("AuthenticAMD", 23, 49, 0, "zen2"),
        ("AuthenticAMD", 25, 17, 1, "zen4"),
        ("AuthenticAMD", 25, 1, 1, "zen3"),
        ("AuthenticAMD", 26, 2, 1, "zen5"),
        ("AuthenticAMD", 99, 2, 1, None),
        ("HygonGenuine", 24, 1, 1, "dhyana"),
        ("SomethingElse", 6, 1, 1, None),
        (None, None, None, None, None),
    ],
)
def test_x86_names(vendor: str | None, family: int | None, model: int | None, stepping: int | None, name: str | None) -> None:
    assert microarchitecture(vendor, family, model, stepping) == name


def test_features_are_those_every_cpu_has(machine: Write) -> None:
    text = arm((0x41, 0xD05), features="fp asimd aes") + arm((0x53, 0x002), features="fp asimd").replace("processor\t: 0", "processor\t: 1")
    assert cpu_of(machine, text).isa == ("fp", "asimd")


def test_one_core_type_has_two_products_until_firmware_says_which(machine: Write) -> None:
    text = arm(*[(0x41, 0xD4F)] * 2)
    assert cpu_of(machine, text).model == "Neoverse-V2"
    dmi = "/sys/class/dmi/id"
    grace = machine({"/proc/cpuinfo": text, f"{dmi}/sys_vendor": "NVIDIA\n", f"{dmi}/product_name": "Grace CPU Superchip\n"})
    assert read_host(grace).host.cpu.model == "NVIDIA Grace"
    graviton = machine({"/proc/cpuinfo": text, f"{dmi}/sys_vendor": "Amazon EC2\n", f"{dmi}/product_name": "r8g.4xlarge\n"})
    assert read_host(graviton).host.cpu.model == "AWS Graviton4"


def test_variants_tell_products_of_one_part_apart() -> None:
    assert core_name(0x50, 0x000, 3) == "eMAG"
    assert core_name(0x50, 0x000, 1) == "X-Gene"
    assert core_name(0x53, 0x001, 4) == "Exynos-M2"
    assert core_name(None, 3) is None


@pytest.mark.parametrize(
    ("text", "arch", "vendor", "model", "isa"),
    [
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t: 2300.0MHz\nrevision\t: 2.2 (pvr 004e 1202)\n", "ppc64", "IBM", "POWER9", ("altivec",)),
        ("processor\t: 0\ncpu\t\t: 740/750\nrevision\t: 3.1 (pvr 0008 0301)\ntimebase\t: 16\nplatform\t: PowerMac\n", "ppc", None, "740/750", ()),
        ("vendor_id       : IBM/S390\n# processors    : 1\nbogomips per cpu: 9.0\nfeatures\t: esan3 vx \nprocessor 0: version = FF,  machine = 3931\n", "s390x", "IBM", "z16", ("esan3", "vx")),
        ("processor\t: 0\nhart\t: 1\nisa\t: rv64imafdcv_zba_zvfh\nmmu\t: sv39\nuarch\t: sifive,u74-mc\nmvendorid\t: 0x489\n", "riscv64", "SiFive", "sifive,u74-mc", ("i", "m", "a", "f", "d", "c", "v", "rvv", "zba", "zvfh")),
        ("system type\t: generic\n\nprocessor\t: 0\nModel Name\t: Loongson-3A6000\nISA\t: loongarch32 loongarch64\nFeatures\t: lsx lasx\n", "loongarch64", "Loongson", "Loongson-3A6000", ("lsx", "lasx")),
        ("system type\t: generic\nprocessor\t: 0\ncpu model\t: MIPS 1004Kc V2.15\nisa\t: mips1 mips32r2\nASEs implemented\t: mips16 dsp\n", "mips", None, "MIPS 1004Kc V2.15", ("mips1", "mips32r2", "mips16", "dsp")),
        ("cpu\t: UltraSparc T2\ntype\t: sun4v\nncpus probed\t: 2\nncpus active\t: 2\ncpucaps\t: flush,vis2\nState:\nCPU0:\tonline\nCPU1:\tonline\n", "sparc64", None, "UltraSparc T2", ("flush", "vis2")),
        ("processor  : 0\nvendor     : GenuineIntel\narch       : IA-64\nfamily     : 32\nmodel name : Itanium 2\nfeatures   : branchlong, 16-byte\n", "ia64", "Intel", "Itanium 2", ("branchlong", "16-byte")),
        ("cpu\t: Alpha\ncpu model\t: EV67\ncpus detected\t: 2\n", "alpha", "DEC", "EV67", ()),
        ("processor\t: 0\ncpu family\t: PA-RISC 2.0\ncpu\t: PA8700 (PCX-W2)\n", "parisc", None, "PA8700 (PCX-W2)", ()),
        ("Processor\t: ARMv7 Processor rev 4 (v7l)\nprocessor\t: 0\nBogoMIPS\t: 1\n\nprocessor\t: 1\n\nFeatures\t: swp half neon\nCPU implementer\t: 0x41\nCPU architecture: 7\nCPU part\t: 0xc0f\n", "armv7l", "ARM", "Cortex-A15", ("swp", "half", "neon")),
        ("processor\t: 0\nmodel name\t: ARMv7 Processor rev 4 (v7l)\nFeatures\t: half thumb neon vfpv4\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd03\n", "armv7l", "ARM", "Cortex-A53", ("half", "thumb", "neon", "vfpv4")),
    ],
    ids=["power", "powerpc", "z", "riscv", "loongarch", "mips", "sparc", "itanium", "alpha", "pa-risc", "old-arm", "arm-32-on-64"],
)  # fmt: skip
def test_every_architecture_has_a_name(machine: Write, text: str, arch: str, vendor: str | None, model: str, isa: tuple[str, ...]) -> None:
    host = read_host(machine({"/proc/cpuinfo": text})).host
    assert (host.arch, host.cpu.vendor, host.cpu.model, host.cpu.isa) == (arch, vendor, model, isa)
    assert host.cpu.logical_cpus
    assert host.cpu.usable_cpus == float(host.cpu.logical_cpus)


def test_old_arm_identity_is_shared_by_every_cpu(machine: Write) -> None:
    shared = "Features\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd03\n"
    apart = "processor\t: 0\n\nprocessor\t: 1\n\n" + shared
    run_on = "processor\t: 0\nprocessor\t: 1\n" + shared
    for text in (apart, run_on):
        assert [(c.name, c.count) for c in cpu_of(machine, text).clusters] == [("Cortex-A53", 2)]


def test_byte_order_of_power_is_said_where_the_kernel_says_it(machine: Write) -> None:
    text = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nrevision\t: 2.2 (pvr 004e 1202)\n"
    unknown = read_host(machine({"/proc/cpuinfo": text}))
    assert unknown.host.arch == "ppc64"
    assert "byte order" in unknown.unknown["host.arch"]
    known = read_host(machine({"/proc/cpuinfo": text, "/proc/sys/kernel/arch": "ppc64le\n"}))
    assert known.host.arch == "ppc64le"
    assert "host.arch" not in known.unknown


def test_nothing_at_all_is_unknown_with_reasons(machine: Write) -> None:
    report = read_host(machine({}))
    assert report.host.arch is None
    assert report.host.cpu.logical_cpus is None
    assert report.host.memory.usable_bytes is None
    for path in ("host.arch", "host.cpu.model", "host.cpu.logical_cpus", "host.cpu.usable_cpus", "host.memory.total_bytes", "host.kernel"):
        assert report.unknown[path]
