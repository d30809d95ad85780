"""macOS: everything comes from sysctl. A value that this version or model does not have is None with a reason.

On a recorded machine the text of ``sysctl -a`` is read from ``tools/sysctl-a.txt``. Not every Mac says everything: perflevels are there
on Apple silicon only, and a virtual machine may be called just "Apple processor".
"""

from __future__ import annotations

import platform
import re

from advisor.probe.host._report import HostFacts, HostReport
from advisor.probe.host._text import parse_int
from advisor.probe.host._x86 import isa_level, microarchitecture
from advisor.probe.records import Cache, Cluster, Cpu, Host, HostMemory
from advisor.probe.root import Root
from microbench.child import run_child

#: The trees a probe needs; all of ``sysctl -a`` takes several times as long.
_TREES = ("hw", "machdep.cpu", "kern.osproductversion", "kern.hv_vmm_present", "vm.swapusage")


def read_macos(root: Root) -> HostReport:
    """Return the host of a Mac, live or recorded; never raises for what sysctl prints."""
    text = sysctl_text(root)
    return host_of(parse_sysctl(text), live=root.is_live)


def sysctl_text(root: Root) -> str:
    """Return what sysctl prints; empty where it cannot be run."""
    if not root.is_live:
        return root.text("/tools/sysctl-a.txt") or ""
    # Names that a system does not have make sysctl exit with 1; what it printed still counts.
    return run_child(["/usr/sbin/sysctl", *_TREES], timeout_s=5).stdout


def parse_sysctl(text: str) -> dict[str, str]:
    """Return ``name: value`` lines (``name = value`` in older versions) as a mapping."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"^([A-Za-z][\w.]*)\s*[:=]\s?(.*)$", line)
        if match:
            values.setdefault(match[1], match[2].strip())
    return values


def host_of(values: dict[str, str], *, live: bool) -> HostReport:
    """Return the host that sysctl's values describe."""
    brand = values.get("machdep.cpu.brand_string") or None
    apple = (brand or "").startswith("Apple") or values.get("hw.optional.arm64") == "1"
    logical = _first(values, "hw.logicalcpu", "hw.activecpu", "machdep.cpu.thread_count", "hw.ncpu")
    cores = _first(values, "hw.physicalcpu", "machdep.cpu.core_count")
    memory = _first(values, "hw.memsize")
    isa = _arm_features(values) if apple else _x86_features(values)
    model = brand if brand not in ("Apple processor",) else None
    unknown: dict[str, str] = {}
    stated = (
        ("host.cpu.model", model, 'sysctl calls it just "Apple processor" (a virtual machine)' if brand else "sysctl gives no brand"),
        ("host.cpu.logical_cpus", logical, "sysctl gives no count of CPUs"),
        ("host.cpu.usable_cpus", logical, "sysctl gives no count of CPUs"),
        ("host.cpu.physical_cores", cores, "sysctl gives no count of cores"),
        ("host.memory.total_bytes", memory, "sysctl gives no hw.memsize"),
        ("host.memory.usable_bytes", memory, "sysctl gives no hw.memsize"),
    )
    unknown.update({path: reason for path, value, reason in stated if value is None})
    available = _available() if live else None
    if available is None:
        unknown["host.memory.available_bytes"] = "sysctl does not tell free memory"
    swap = re.search(r"total = ([\d.]+)M", values.get("vm.swapusage", ""))
    arch = "aarch64" if apple else "x86_64"
    guest = values.get("kern.hv_vmm_present")
    family = _first(values, "machdep.cpu.family"), _first(values, "machdep.cpu.model"), _first(values, "machdep.cpu.stepping")
    cpu = Cpu(
        vendor="Apple" if apple else "Intel",
        model=model,
        microarchitecture=(model or "").lower().replace(" ", "-") or None if apple else microarchitecture("GenuineIntel", *family),
        isa=isa,
        sockets=_first(values, "hw.packages") or (1 if logical else None),
        physical_cores=cores,
        logical_cpus=logical,
        usable_cpus=float(logical) if logical else None,
        usable_cpus_source="online" if logical else None,
        clusters=_clusters(values),
        caches=_caches(values),
    )
    host = Host(
        os="darwin",
        kernel=platform.release() if live else values.get("kern.osrelease"),
        arch=arch,
        virtualization=None if guest is None else "apple" if guest == "1" else "none",
        container="none",
        cpu=cpu,
        memory=HostMemory(
            total_bytes=memory,
            usable_bytes=memory,
            limit_source="hw.memsize" if memory else None,
            available_bytes=available,
            swap_bytes=round(float(swap[1]) * (1 << 20)) if swap and swap[1].count(".") <= 1 and swap[1] != "." else None,
        ),
    )
    level = None if apple else isa_level(frozenset(isa) | {"lm"})
    return HostReport(host=host, facts=HostFacts(isa_level=level, board=values.get("hw.model")), unknown=unknown)


def _first(values: dict[str, str], *names: str) -> int | None:
    for name in names:
        number = parse_int(values.get(name))
        if number is not None and number > 0:
            return number
    return None


def _arm_features(values: dict[str, str]) -> tuple[str, ...]:
    """Return Apple's own names (``FEAT_BF16``) of the features whose value is 1; older systems use other names for a few."""
    found = [
        name.removeprefix("hw.optional.arm.") for name, value in values.items() if name.startswith("hw.optional.arm.") and value == "1"
    ]
    older = {
        "hw.optional.armv8_1_atomics": "FEAT_LSE",
        "hw.optional.armv8_2_fhm": "FEAT_FHM",
        "hw.optional.armv8_2_sha512": "FEAT_SHA512",
        "hw.optional.armv8_2_sha3": "FEAT_SHA3",
        "hw.optional.armv8_3_compnum": "FEAT_FCMA",
        "hw.optional.armv8_crc32": "FEAT_CRC32",
        "hw.optional.neon_fp16": "FEAT_FP16",
        "hw.optional.neon": "AdvSIMD",
    }
    return tuple(dict.fromkeys((*found, *(name for key, name in older.items() if values.get(key) == "1"))))


def _x86_features(values: dict[str, str]) -> tuple[str, ...]:
    """Return the features in Linux's names: ``AVX1.0`` is ``avx``, ``SSE4.2`` is ``sse4_2``."""
    text = " ".join(values.get(f"machdep.cpu.{name}", "") for name in ("features", "leaf7_features", "extfeatures")).lower()
    renamed = {"avx1.0": "avx", "sse3": "pni", "lahf": "lahf_lm", "em64t": "lm", "fma": "fma", "lzcnt": "abm"}
    return tuple(dict.fromkeys(renamed.get(word, word.replace(".", "_")) for word in text.split()))


def _clusters(values: dict[str, str]) -> tuple[Cluster, ...]:
    """Return the performance levels, fastest first, as macOS orders them."""
    found: list[Cluster] = []
    for level in range(min(8, _first(values, "hw.nperflevels") or 0)):
        count = _first(values, f"hw.perflevel{level}.logicalcpu", f"hw.perflevel{level}.physicalcpu")
        if count:
            found.append(Cluster(name=values.get(f"hw.perflevel{level}.name"), implementer=None, part=None, count=count))
    return tuple(found)


def _caches(values: dict[str, str]) -> tuple[Cache, ...]:
    found: list[Cache] = []
    prefixes = [f"hw.perflevel{level}." for level in range(min(8, _first(values, "hw.nperflevels") or 0))] or ["hw."]
    for prefix in prefixes:
        cpus = _first(values, f"{prefix}physicalcpu")
        for name, level, kind, shared in (
            ("l1icachesize", 1, "instruction", 1),
            ("l1dcachesize", 1, "data", 1),
            ("l2cachesize", 2, "unified", _first(values, f"{prefix}cpusperl2")),
            ("l3cachesize", 3, "unified", _first(values, f"{prefix}cpusperl3")),
        ):
            size = _first(values, f"{prefix}{name}")
            if size:
                count = max(1, cpus // shared) if cpus and shared else None
                found.append(Cache(level=level, kind=kind, size_bytes=size, count=count, shared_by=shared))  # type: ignore[arg-type]
    return tuple(found)


def _available() -> int | None:
    """Return the memory that is free or can be freed, by psutil."""
    try:
        import psutil

        return int(psutil.virtual_memory().available)
    except (ImportError, OSError, RuntimeError):
        return None
