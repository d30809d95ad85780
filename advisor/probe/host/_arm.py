"""ARM cores by implementer and part number, as the MIDR_EL1 register gives them.

Facts: the technical reference manuals of the cores and Linux's ``arch/arm64/include/asm/cputype.h``. A part that is not listed is named
after its numbers. A part names a core, never a product: which chip carries it is told by the board or firmware.
"""

from __future__ import annotations

import re
from collections import Counter

from advisor.probe.host._cpuinfo import CpuInfo
from advisor.probe.host._text import parse_int
from advisor.probe.records import Cluster

IMPLEMENTERS: dict[int, str] = {
    0x00: "QEMU",
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x44: "DEC",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x49: "Infineon",
    0x4D: "Freescale",
    0x4E: "NVIDIA",
    0x50: "APM",
    0x51: "Qualcomm",
    0x53: "Samsung",
    0x54: "Texas Instruments",
    0x56: "Marvell",
    0x61: "Apple",
    0x66: "Faraday",
    0x69: "Intel",
    0x6D: "Microsoft",
    0x70: "Phytium",
    0xC0: "Ampere",
}

_ARM: dict[int, str] = {
    0x920: "ARM920", 0x926: "ARM926", 0x946: "ARM946", 0x966: "ARM966", 0xB02: "ARM11-MPCore", 0xB36: "ARM1136", 0xB56: "ARM1156",
    0xB76: "ARM1176", 0xC05: "Cortex-A5", 0xC07: "Cortex-A7", 0xC08: "Cortex-A8", 0xC09: "Cortex-A9", 0xC0D: "Cortex-A12",
    0xC0E: "Cortex-A17", 0xC0F: "Cortex-A15", 0xC14: "Cortex-R4", 0xC15: "Cortex-R5", 0xC17: "Cortex-R7", 0xC18: "Cortex-R8",
    0xC20: "Cortex-M0", 0xC21: "Cortex-M1", 0xC23: "Cortex-M3", 0xC24: "Cortex-M4", 0xC27: "Cortex-M7", 0xC60: "Cortex-M0+",
    0xD00: "Foundation", 0xD01: "Cortex-A32", 0xD02: "Cortex-A34", 0xD03: "Cortex-A53", 0xD04: "Cortex-A35", 0xD05: "Cortex-A55",
    0xD06: "Cortex-A65", 0xD07: "Cortex-A57", 0xD08: "Cortex-A72", 0xD09: "Cortex-A73", 0xD0A: "Cortex-A75", 0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1", 0xD0D: "Cortex-A77", 0xD0E: "Cortex-A76AE", 0xD0F: "AEMv8", 0xD13: "Cortex-R52", 0xD14: "Cortex-R82AE",
    0xD15: "Cortex-R82", 0xD16: "Cortex-R52+", 0xD40: "Neoverse-V1", 0xD41: "Cortex-A78", 0xD42: "Cortex-A78AE",
    0xD43: "Cortex-A65AE", 0xD44: "Cortex-X1", 0xD46: "Cortex-A510", 0xD47: "Cortex-A710", 0xD48: "Cortex-X2", 0xD49: "Neoverse-N2",
    0xD4A: "Neoverse-E1", 0xD4B: "Cortex-A78C", 0xD4C: "Cortex-X1C", 0xD4D: "Cortex-A715", 0xD4E: "Cortex-X3", 0xD4F: "Neoverse-V2",
    0xD80: "Cortex-A520", 0xD81: "Cortex-A720", 0xD82: "Cortex-X4", 0xD83: "Neoverse-V3AE", 0xD84: "Neoverse-V3",
    0xD85: "Cortex-X925", 0xD87: "Cortex-A725", 0xD88: "Cortex-A520AE", 0xD89: "Cortex-A720AE", 0xD8A: "C1-Nano", 0xD8B: "C1-Pro",
    0xD8C: "C1-Ultra", 0xD8E: "Neoverse-N3", 0xD8F: "Cortex-A320", 0xD90: "C1-Premium",
}  # fmt: skip

_PARTS: dict[int, dict[int, str]] = {
    0x00: {0x051: "QEMU-max"},
    0x41: _ARM,
    0x42: {0x00F: "Brahma-B15", 0x100: "Brahma-B53", 0x516: "ThunderX2"},
    0x43: {
        0x0A0: "ThunderX", 0x0A1: "ThunderX-88XX", 0x0A2: "ThunderX-81XX", 0x0A3: "ThunderX-83XX", 0x0AF: "ThunderX2",
        0x0B0: "OcteonTX2", 0x0B1: "OcteonTX2-98XX", 0x0B2: "OcteonTX2-96XX", 0x0B3: "OcteonTX2-95XX", 0x0B4: "OcteonTX2-95XXN",
        0x0B5: "OcteonTX2-95XXMM", 0x0B6: "OcteonTX2-95XXO", 0x0B8: "ThunderX3",
    },
    0x44: {0xA10: "SA110", 0xA11: "SA1100"},
    0x46: {0x001: "A64FX", 0x003: "MONAKA"},
    0x48: {0xD01: "TaiShan-v110", 0xD02: "TaiShan-v120", 0xD06: "HIP12", 0xD40: "Cortex-A76 (HiSilicon)", 0xD41: "Cortex-A77 (HiSilicon)"},
    0x4E: {0x000: "Denver", 0x003: "Denver-2", 0x004: "Carmel", 0x010: "Olympus"},
    0x50: {0x000: "X-Gene"},
    0x51: {
        0x001: "Oryon", 0x00F: "Scorpion", 0x02D: "Scorpion", 0x04D: "Krait", 0x06F: "Krait", 0x201: "Kryo", 0x205: "Kryo",
        0x211: "Kryo", 0x800: "Kryo-2xx-Gold", 0x801: "Kryo-2xx-Silver", 0x802: "Kryo-3xx-Gold", 0x803: "Kryo-3xx-Silver",
        0x804: "Kryo-4xx-Gold", 0x805: "Kryo-4xx-Silver", 0xC00: "Falkor", 0xC01: "Saphira",
    },
    0x53: {0x001: "Exynos-M1", 0x002: "Exynos-M3", 0x003: "Exynos-M4", 0x004: "Exynos-M5"},
    0x56: {0x131: "Feroceon", 0x581: "PJ4", 0x584: "PJ4B-MP"},
    0x61: {
        0x000: "Apple (virtual)", 0x020: "Icestorm-A14", 0x021: "Firestorm-A14", 0x022: "Icestorm-M1", 0x023: "Firestorm-M1",
        0x024: "Icestorm-M1-Pro", 0x025: "Firestorm-M1-Pro", 0x026: "Thunder-M10", 0x028: "Icestorm-M1-Max",
        0x029: "Firestorm-M1-Max", 0x030: "Blizzard-A15", 0x031: "Avalanche-A15", 0x032: "Blizzard-M2", 0x033: "Avalanche-M2",
        0x034: "Blizzard-M2-Pro", 0x035: "Avalanche-M2-Pro", 0x036: "Sawtooth-A16", 0x037: "Everest-A16",
        0x038: "Blizzard-M2-Max", 0x039: "Avalanche-M2-Max",
    },
    0x66: {0x526: "FA526", 0x626: "FA626"},
    0x6D: {0xD49: "Azure-Cobalt-100"},
    0x70: {
        0x303: "FTC310", 0x660: "FTC660", 0x661: "FTC661", 0x662: "FTC662", 0x663: "FTC663", 0x664: "FTC664", 0x862: "FTC862",
    },
    0xC0: {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a", 0xAC5: "Ampere-1b"},
}  # fmt: skip


def core_name(implementer: int | None, part: int | None, variant: int | None = None) -> str | None:
    """Return a core's name; ``arm-0x70-0x662`` where it is not in the table, None where the numbers are missing."""
    if implementer is None or part is None:
        return None
    if (implementer, part) == (0x53, 0x001) and variant == 4:
        return "Exynos-M2"
    if (implementer, part) == (0x50, 0x000) and variant == 3:
        return "eMAG"
    return _PARTS.get(implementer, {}).get(part) or f"arm-{implementer:#04x}-{part:#05x}"


def read_clusters(info: CpuInfo) -> tuple[Cluster, ...]:
    """Return the kinds of cores, in the order in which they are numbered, with how many logical CPUs each has."""
    kinds: Counter[tuple[int | None, int | None]] = Counter()
    names: dict[tuple[int | None, int | None], str | None] = {}
    for cpu in info.cpus or ((info.common,) if "cpu part" in info.common else ()):
        key = (_hex(cpu.get("cpu implementer")), _hex(cpu.get("cpu part")))
        if key == (None, None):
            continue
        kinds[key] += 1
        names.setdefault(key, core_name(*key, _hex(cpu.get("cpu variant"))))
    return tuple(
        Cluster(
            name=names[key],
            implementer=None if key[0] is None else f"{key[0]:#04x}",
            part=None if key[1] is None else f"{key[1]:#05x}",
            count=count,
        )
        for key, count in kinds.items()
    )


def vendor_of(clusters: tuple[Cluster, ...]) -> str | None:
    """Return the implementer's name; the one of the last kind on a mixed chip, since big cores are numbered last."""
    for cluster in reversed(clusters):
        number = _hex(cluster.implementer)
        if number is not None:
            return IMPLEMENTERS.get(number, f"implementer {number:#04x}")
    return None


def arch_of(info: CpuInfo) -> str | None:
    """Return ``aarch64``, ``armv7l`` …, by what the kernel calls the processor (``(v7l)`` on a 32-bit kernel).

    A 32-bit kernel shows ``half``, ``thumb`` or ``swp`` among the features even on a 64-bit core; a 64-bit one shows ``asimd`` or ``fp``.
    """
    features = set((info.first("features") or "").split())
    match = re.search(r"\((v\d[a-z]*)\)", f"{info.first('model name') or ''} {info.common.get('processor') or ''}")
    if features & {"half", "thumb", "swp", "fastmult", "vfp"}:
        return f"arm{match[1]}" if match else f"armv{(info.first('cpu architecture') or '7')[0]}l"
    if features & {"asimd", "fp"} or (info.first("cpu architecture") or "") in ("8", "AArch64"):
        return "aarch64"
    return f"arm{match[1]}" if match else None


def _hex(text: str | None) -> int | None:
    number = parse_int(text, 0)
    return number if number is not None and 0 <= number <= 0xFFFF else None
