"""POWER, IBM Z, RISC-V, LoongArch, MIPS, SPARC, Itanium, Alpha and the rest: named from what their kernels print."""

from __future__ import annotations

import re

from advisor.probe.host._cpuinfo import CpuInfo
from advisor.probe.host._identity import Identity

#: IBM Z machine types (IBM's own product numbers).
_Z_MACHINES = {
    "2064": "z900", "2066": "z800", "2084": "z990", "2086": "z890", "2094": "z9 EC", "2096": "z9 BC", "2097": "z10 EC", "2098": "z10 BC",
    "2817": "z196", "2818": "z114", "2827": "zEC12", "2828": "zBC12", "2964": "z13", "2965": "z13s", "3906": "z14", "3907": "z14 ZR1",
    "8561": "z15", "8562": "z15 T02", "3931": "z16", "3932": "z16 A02", "9175": "z17",
}  # fmt: skip

#: RISC-V mvendorid (JEDEC numbers) to the maker.
_RISCV_VENDORS = {0x489: "SiFive", 0x5B7: "T-Head", 0x710: "SpacemiT", 0x31E: "Andes", 0x602: "Microchip", 0x61F: "Ventana"}

#: LoongArch processor series to the core they carry (Loongson's own naming).
_LOONGSON_CORES = (
    ("3A5000", "la464"),
    ("3B5000", "la464"),
    ("3C5000", "la464"),
    ("3A6000", "la664"),
    ("3C6000", "la664"),
    ("2K1000", "la264"),
)


def power(info: CpuInfo) -> Identity:
    """POWER and PowerPC: ``cpu : POWER9, altivec supported``."""
    text = info.first("cpu") or ""
    name = text.split(",")[0].split("(")[0].strip() or None
    match = re.match(r"power\s*(\d+)", text, re.IGNORECASE)
    isa = tuple(flag for flag in ("altivec",) if f"{flag} supported" in text.lower())
    platform = info.common.get("platform", "").lower()
    pvr = re.search(r"pvr ([0-9a-f]{4}) ", info.first("revision") or "")
    is_64 = bool(match and int(match[1]) >= 3) or name in ("Cell Broadband Engine", "PPC970", "PPC970FX", "PPC970MP", "PA6T")
    is_64 = is_64 or platform in ("pseries", "powernv", "ps3", "cell") or (pvr is not None and pvr[1] in ("0039", "003c", "0044", "0045"))
    return Identity(
        arch="ppc64" if is_64 else "ppc",
        vendor="IBM" if match or "cell" in text.lower() else None,
        model=name,
        microarchitecture=f"power{match[1]}" if match else None,
        isa=isa,
        reasons={"host.arch": "a POWER kernel does not say its byte order in the files at hand"} if is_64 else {},
    )


def z(info: CpuInfo) -> Identity:
    """IBM Z: ``processor 0: version = FF, identification = …, machine = 2827``."""
    machine = info.first("machine")
    return Identity(
        arch="s390x",
        vendor="IBM",
        model=_Z_MACHINES.get(machine or "", f"machine type {machine}" if machine else None),
        microarchitecture=_Z_MACHINES.get(machine or ""),
        isa=tuple((info.first("features") or "").split()),
    )


def riscv(info: CpuInfo) -> Identity:
    """RISC-V: ``isa : rv64imafdcv_zicsr_zba``; single letters and named extensions become the feature names."""
    isa = (info.first("isa") or "").lower()
    head, *named = re.split(r"[_\s]+", isa.strip())
    letters = tuple(dict.fromkeys(re.sub(r"^rv(?:32|64|128)", "", head)))
    if "g" in letters:  # g stands for the general-purpose set
        letters = tuple(dict.fromkeys((*"imafd", *(letter for letter in letters if letter != "g"))))
    try:
        vendor = int(info.first("mvendorid") or "", 0)
    except ValueError:
        vendor = None
    uarch = info.first("uarch", "model name")
    maker = _RISCV_VENDORS.get(vendor) if vendor is not None else None
    if maker is None and uarch and "," in uarch:
        maker = uarch.split(",")[0]
    return Identity(
        arch="riscv32" if head.startswith("rv32") else "riscv64",
        vendor=maker,
        model=info.first("model name", "uarch"),
        microarchitecture=uarch.rpartition(",")[2] if uarch else None,
        # The vector extension is one letter to the kernel and "rvv" to everyone else; both names find it.
        isa=(*letters, *(("rvv",) if "v" in letters else ()), *dict.fromkeys(named)),
    )


def loongarch(info: CpuInfo) -> Identity:
    """LoongArch: ``ISA : loongarch32 loongarch64``."""
    model = info.first("model name")
    return Identity(
        arch="loongarch64" if "64" in (info.first("isa", "cpu family") or "64") else "loongarch32",
        vendor="Loongson",
        model=model,
        microarchitecture=next((core for series, core in _LOONGSON_CORES if series in (model or "")), None),
        isa=tuple((info.first("features") or "").split()),
    )


def mips(info: CpuInfo) -> Identity:
    """MIPS: ``isa : mips1 … mips64r2`` and ``ASEs implemented : vz msa``."""
    levels = (info.first("isa") or "").split()
    model = info.first("model name", "cpu model")
    return Identity(
        arch="mips64" if any("64" in level for level in levels) or "loongson-3" in (model or "").lower() else "mips",
        vendor="Loongson" if "loongson" in (model or "").lower() else None,
        model=model,
        microarchitecture=(info.first("cpu model") or "").split(" V")[0] or None,
        isa=(*levels, *(info.first("ases implemented") or "").split()),
    )


def sparc(info: CpuInfo) -> Identity:
    """SPARC: ``type : sun4u``, ``cpucaps : flush,stbar,…``."""
    capabilities = tuple(part.strip() for part in (info.first("cpucaps") or "").split(",") if part.strip())
    cpu = info.first("cpu")
    return Identity(
        arch="sparc" if info.first("type") in ("sun4m", "sun4c", "sun4d") else "sparc64",
        vendor=None,
        model=cpu,
        microarchitecture=info.first("pmu"),
        isa=capabilities,
    )


def itanium(info: CpuInfo) -> Identity:
    """Itanium: ``arch : IA-64``."""
    names = {"7": "merced", "31": "mckinley", "32": "montecito"}
    return Identity(
        arch="ia64",
        vendor=(info.first("vendor") or "").replace("GenuineIntel", "Intel") or None,
        model=info.first("model name") or f"Itanium family {info.first('family') or '?'}",
        microarchitecture=names.get(info.first("family") or ""),
        isa=tuple(part.strip() for part in (info.first("features") or "").split(",") if part.strip()),
    )


def alpha(info: CpuInfo) -> Identity:
    """Alpha: ``cpu : Alpha``, ``cpu model : EV67``."""
    model = info.first("cpu model")
    return Identity(arch="alpha", vendor="DEC", model=model, microarchitecture=(model or "").lower() or None, isa=())


def other(info: CpuInfo) -> Identity:
    """Whatever else: PA-RISC, m68k, Xtensa … keep the names that are there."""
    family = (info.first("cpu family") or "").lower()
    arch = "parisc" if "pa-risc" in family else None
    model = info.first("model name", "cpu model", "cpu", "model", "hardware")
    return Identity(
        arch=arch,
        vendor=info.first("vendor_id", "vendor"),
        model=model,
        microarchitecture=None,
        isa=tuple((info.first("flags", "features") or "").split()),
    )
