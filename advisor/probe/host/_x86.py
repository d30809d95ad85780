"""x86 microarchitectures by vendor, family and model.

Facts: the family and model numbers of Linux's ``arch/x86/include/asm/intel-family.h`` and ``arch/x86/kernel/cpu/amd.c``. Family and
model come before flags, since a hypervisor hides flags but seldom the model.
"""

from __future__ import annotations

#: Intel family 6: model to name.
_INTEL_6: dict[int, str] = {
    **dict.fromkeys((0x01, 0x03, 0x05, 0x06, 0x07, 0x08, 0x0A, 0x0B), "p6"),
    **dict.fromkeys((0x09, 0x0D), "pentium-m"),
    0x0E: "yonah",
    **dict.fromkeys((0x0F, 0x16), "merom"),
    **dict.fromkeys((0x17, 0x1D), "penryn"),
    **dict.fromkeys((0x1A, 0x1E, 0x1F, 0x2E), "nehalem"),
    **dict.fromkeys((0x25, 0x2C, 0x2F), "westmere"),
    **dict.fromkeys((0x2A, 0x2D), "sandybridge"),
    **dict.fromkeys((0x3A, 0x3E), "ivybridge"),
    **dict.fromkeys((0x3C, 0x3F, 0x45, 0x46), "haswell"),
    **dict.fromkeys((0x3D, 0x47, 0x4F, 0x56), "broadwell"),
    **dict.fromkeys((0x4E, 0x5E), "skylake"),
    **dict.fromkeys((0xA5, 0xA6), "cometlake"),
    0x66: "cannonlake",
    **dict.fromkeys((0x7D, 0x7E, 0x9D), "icelake"),
    **dict.fromkeys((0x6A, 0x6C), "icelake-server"),
    0xA7: "rocketlake",
    **dict.fromkeys((0x8C, 0x8D), "tigerlake"),
    0x8F: "sapphirerapids",
    0xCF: "emeraldrapids",
    **dict.fromkeys((0xAD, 0xAE), "graniterapids"),
    0xAF: "sierraforest",
    0xDD: "clearwaterforest",
    0x8A: "lakefield",
    **dict.fromkeys((0x97, 0x9A), "alderlake"),
    0xBE: "gracemont",
    **dict.fromkeys((0xB7, 0xBA, 0xBF), "raptorlake"),
    **dict.fromkeys((0xAA, 0xAC), "meteorlake"),
    **dict.fromkeys((0xB5, 0xC5, 0xC6), "arrowlake"),
    0xBD: "lunarlake",
    0xCC: "pantherlake",
    0xD5: "wildcatlake",
    **dict.fromkeys((0x1C, 0x26), "bonnell"),
    **dict.fromkeys((0x27, 0x35, 0x36), "saltwell"),
    **dict.fromkeys((0x37, 0x4A, 0x4D, 0x5A, 0x5D), "silvermont"),
    **dict.fromkeys((0x4C, 0x75), "airmont"),
    **dict.fromkeys((0x5C, 0x5F), "goldmont"),
    0x7A: "goldmont-plus",
    **dict.fromkeys((0x86, 0x96, 0x9C), "tremont"),
    0x57: "knl",
    0x85: "knm",
}

#: AMD: family, first model, last model, name.
_AMD: tuple[tuple[int, int, int, str], ...] = (
    (0x05, 0x00, 0xFF, "k6"),
    (0x06, 0x00, 0xFF, "k7"),
    (0x0F, 0x00, 0xFF, "k8"),
    (0x10, 0x00, 0xFF, "k10"),
    (0x11, 0x00, 0xFF, "k8"),
    (0x12, 0x00, 0xFF, "k10"),
    (0x14, 0x00, 0xFF, "bobcat"),
    (0x15, 0x00, 0x01, "bulldozer"),
    (0x15, 0x02, 0x1F, "piledriver"),
    (0x15, 0x30, 0x3F, "steamroller"),
    (0x15, 0x60, 0x7F, "excavator"),
    (0x16, 0x00, 0x2F, "jaguar"),
    (0x16, 0x30, 0x3F, "puma"),
    (0x17, 0x08, 0x08, "zen+"),
    (0x17, 0x18, 0x18, "zen+"),
    (0x17, 0x00, 0x2F, "zen"),
    (0x17, 0x30, 0x4F, "zen2"),
    (0x17, 0x50, 0x5F, "zen"),
    (0x17, 0x60, 0xAF, "zen2"),
    (0x19, 0x00, 0x0F, "zen3"),
    (0x19, 0x10, 0x1F, "zen4"),
    (0x19, 0x20, 0x3F, "zen3"),
    (0x19, 0x40, 0x4F, "zen3+"),
    (0x19, 0x50, 0x5F, "zen3"),
    (0x19, 0x60, 0xAF, "zen4"),
    (0x1A, 0x50, 0x5F, "zen6"),
    (0x1A, 0x80, 0xAF, "zen6"),
    (0x1A, 0xC0, 0xCF, "zen6"),
    (0x1A, 0x00, 0x7F, "zen5"),
)

_VENDORS = {
    "GenuineIntel": "Intel",
    "AuthenticAMD": "AMD",
    "HygonGenuine": "Hygon",
    "CentaurHauls": "Zhaoxin",
    "Shanghai": "Zhaoxin",
    "GenuineTMx86": "Transmeta",
    "CyrixInstead": "Cyrix",
    "Geode by NSC": "NSC",
    "Vortex86 SoC": "DM&P",
}

#: The levels of the x86-64 psABI, highest first, in the kernel's flag names (``abm`` stands for lzcnt, ``pni`` for SSE3).
_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("x86-64-v4", frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})),
    ("x86-64-v3", frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})),
    ("x86-64-v2", frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})),
    ("x86-64-v1", frozenset({"lm", "cmov", "cx8", "fpu", "fxsr", "mmx", "sse", "sse2"})),
)


def vendor_name(vendor_id: str | None) -> str | None:
    """Return the maker's name for a CPUID vendor string; an unknown one is returned as it is."""
    return _VENDORS.get(vendor_id.strip(), vendor_id.strip()) if vendor_id and vendor_id.strip() else None


def microarchitecture(vendor_id: str | None, family: int | None, model: int | None, stepping: int | None) -> str | None:
    """Return the name of the microarchitecture, or None if the numbers are not known."""
    if family is None or model is None:
        return None
    if vendor_id == "GenuineIntel":
        return _intel(family, model, stepping or 0)
    if vendor_id == "AuthenticAMD":
        return next((name for f, low, high, name in _AMD if f == family and low <= model <= high), None)
    if vendor_id == "HygonGenuine":
        return "dhyana" if family == 0x18 else None
    if vendor_id in ("CentaurHauls", "Shanghai"):
        return {0x1B: "zhangjiang", 0x3B: "lujiazui", 0x5B: "yongfeng"}.get(model) if family == 7 else None
    return None


def _intel(family: int, model: int, stepping: int) -> str | None:
    if family == 6:
        # These models are shared by several generations, told apart by the stepping.
        if model == 0x55:
            return "skylake-server" if stepping < 5 else "cascadelake" if stepping < 10 else "cooperlake"
        if model in (0x8E, 0x9E):
            return "kabylake" if stepping <= 9 else "coffeelake"
        return _INTEL_6.get(model)
    if family == 15:
        return "netburst"
    if family == 11:
        return "knc"
    if family == 18 and model in (1, 3):
        return "novalake"
    if family == 19 and model == 1:
        return "diamondrapids"
    return {4: "i486", 5: "quark" if model == 9 else "p5"}.get(family)


def isa_level(flags: frozenset[str]) -> str | None:
    """Return the highest level of the x86-64 psABI whose flags, and those of all levels below, are present."""
    level = None
    for name, needed in reversed(_LEVELS):
        if not needed <= flags:
            break
        level = name
    return level
