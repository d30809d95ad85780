"""Decide which architecture a /proc/cpuinfo is of, and identify the processor."""

from __future__ import annotations

import re

from advisor.probe.host import _arm, _others, _x86
from advisor.probe.host._cpuinfo import CpuInfo
from advisor.probe.host._identity import Identity
from advisor.probe.host._platform import product_of
from advisor.probe.host._text import parse_int
from advisor.probe.root import Root

#: uname's names of one architecture; the value is the family whose reader is asked.
_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"x86_64|amd64|i[3-6]86|x86", "x86"),
    (r"aarch64.*|arm.*", "arm"),
    (r"ppc.*|powerpc.*", "power"),
    (r"s390x?", "z"),
    (r"riscv.*", "riscv"),
    (r"loongarch.*|loong64", "loongarch"),
    (r"mips.*", "mips"),
    (r"sparc.*|sun4.*", "sparc"),
    (r"ia64", "itanium"),
    (r"alpha.*", "alpha"),
)

_READERS = {
    "power": _others.power,
    "z": _others.z,
    "riscv": _others.riscv,
    "loongarch": _others.loongarch,
    "mips": _others.mips,
    "sparc": _others.sparc,
    "itanium": _others.itanium,
    "alpha": _others.alpha,
}


def identify(root: Root, info: CpuInfo, machine: str | None) -> Identity:
    """Return what the processor is. ``machine`` is uname's word where it is known; it settles the architecture, the file the rest."""
    family = family_of(info, machine)
    if family == "x86":
        found = _x86_identity(info)
    elif family == "arm":
        found = _arm_identity(root, info)
    else:
        found = _READERS.get(family or "", _others.other)(info)
    reasons = dict(found.reasons)
    arch = found.arch
    if machine:
        arch = {"amd64": "x86_64", "arm64": "aarch64", "loong64": "loongarch64"}.get(machine, machine)
        reasons.pop("host.arch", None)
    elif arch is None:
        reasons["host.arch"] = "no kernel name and no /proc/cpuinfo that tells the architecture"
    for name, value in (("vendor", found.vendor), ("model", found.model), ("microarchitecture", found.microarchitecture)):
        if value is None:
            reasons.setdefault(f"host.cpu.{name}", _why_unknown(info, name))
    return Identity(
        arch=arch,
        vendor=found.vendor,
        model=found.model,
        microarchitecture=found.microarchitecture,
        isa=found.isa,
        clusters=found.clusters,
        reasons=reasons,
    )


def family_of(info: CpuInfo, machine: str | None) -> str | None:
    """Return the family of architectures: by the machine name, else by keys that only one architecture prints."""
    if machine:
        for pattern, family in _FAMILIES:
            if re.fullmatch(pattern, machine, re.IGNORECASE):
                return family
    vendor = info.first("vendor_id") or ""
    if "S390" in vendor or "bogomips per cpu" in info.common:
        return "z"
    if "arch" in (info.cpus[0] if info.cpus else {}) and "IA-64" in (info.first("arch") or ""):
        return "itanium"
    if info.has("cpu implementer") or re.search(r"\b(ARM|AArch64)", f"{info.common.get('processor')} {info.first('model name')}"):
        return "arm"
    isa = (info.first("isa") or "").lower()
    if re.match(r"rv(32|64|128)", isa):
        return "riscv"
    if "loongarch" in isa or "loongson-64bit" in (info.first("cpu family") or "").lower():
        return "loongarch"
    if "mips" in isa or info.has("ases implemented") or info.has("vced exceptions"):
        return "mips"
    if info.has("cpucaps") or info.has("ncpus probed"):
        return "sparc"
    if (info.first("cpu") or "").lower() == "alpha":
        return "alpha"
    if (info.has("revision") and "pvr" in (info.first("revision") or "")) or info.has("timebase"):
        return "power"
    if info.has("flags") or (info.has("cpu family") and info.has("stepping")):
        return "x86"
    return None


def _x86_identity(info: CpuInfo) -> Identity:
    vendor_id = info.first("vendor_id")
    flags = _common_flags(info, "flags")
    family, model, stepping = (parse_int(info.first(key)) for key in ("cpu family", "model", "stepping"))
    name = info.first("model name")
    return Identity(
        # lm is the 64-bit mode of the processor, and all with AVX2 have it; a 32-bit kernel on one cannot be told from this file.
        arch=None if not flags else "x86_64" if {"lm", "avx2"} & set(flags) else "i686",
        vendor=_x86.vendor_name(vendor_id),
        model=" ".join(name.split()) if name and name.lower() != "unknown" else None,
        microarchitecture=_x86.microarchitecture(vendor_id, family, model, stepping),
        isa=flags,
    )


def _arm_identity(root: Root, info: CpuInfo) -> Identity:
    clusters = _arm.read_clusters(info)
    cores = " + ".join(f"{cluster.count}x {cluster.name}" for cluster in clusters if cluster.name) if len(clusters) > 1 else None
    single = clusters[0].name if len(clusters) == 1 else None
    product = product_of(root)
    return Identity(
        arch=_arm.arch_of(info),
        vendor=_arm.vendor_of(clusters),
        model=product or cores or single or info.first("model name", "hardware"),
        microarchitecture=single or ("+".join(dict.fromkeys(c.name for c in clusters if c.name)) or None),
        isa=_common_flags(info, "features"),
        clusters=clusters,
    )


def _common_flags(info: CpuInfo, key: str) -> tuple[str, ...]:
    """Return the flags that every CPU has, in the kernel's order: code may be moved to any of them."""
    texts = list(dict.fromkeys(block[key] for block in (*info.cpus, info.common) if block.get(key)))
    if not texts:
        return ()
    shared = set(texts[0].split()).intersection(*(text.split() for text in texts[1:]))
    return tuple(dict.fromkeys(flag for flag in texts[0].split() if flag in shared))


def _why_unknown(info: CpuInfo, name: str) -> str:
    if not info.cpus and not info.common:
        return "/proc/cpuinfo is missing or empty"
    return {
        "vendor": "/proc/cpuinfo names no maker",
        "model": "/proc/cpuinfo names no model",
        "microarchitecture": "the family, model or part number is not in the table",
    }[name]
