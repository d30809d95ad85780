"""Windows: psutil for counts and memory, the registry and the environment for the processor's name."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from typing import Any

from advisor.probe.host._report import HostFacts, HostReport
from advisor.probe.host._x86 import microarchitecture, vendor_name
from advisor.probe.records import Cpu, Host, HostMemory
from advisor.probe.root import Root

_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"


def read_windows(root: Root) -> HostReport:
    """Return the host of a Windows machine; what cannot be read is None with a reason."""
    return host_of(_psutil(), _registry(), root.environ)


def host_of(psutil: Any | None, registry: dict[str, str], environ: dict[str, str]) -> HostReport:
    """Return the host from what psutil, the registry's processor key and the environment say; each may be missing."""
    unknown: dict[str, str] = {"host.cpu.isa": "Windows has no list of features; ask a framework (advisor probe --frameworks)"}
    # PROCESSOR_IDENTIFIER is like "Intel64 Family 6 Model 85 Stepping 7, GenuineIntel".
    identifier = registry.get("Identifier") or environ.get("PROCESSOR_IDENTIFIER") or ""
    vendor_id = registry.get("VendorIdentifier") or identifier.rpartition(", ")[2] or None
    match = re.search(r"Family (\d{1,3}) Model (\d{1,3}) Stepping (\d{1,3})", identifier)
    numbers = tuple(int(group) for group in match.groups()) if match else (None, None, None)
    logical = _ask(psutil, lambda p: p.cpu_count(logical=True)) or os.cpu_count()
    cores = _ask(psutil, lambda p: p.cpu_count(logical=False))
    affinity = _ask(psutil, lambda p: len(p.Process().cpu_affinity()))
    memory = _ask(psutil, lambda p: p.virtual_memory())
    total = int(memory.total) if memory is not None else None
    model = (registry.get("ProcessorNameString") or "").strip() or None
    # A process starts in one group of at most 64 CPUs; Windows 11 and Server 2022 span groups by themselves.
    usable = min(float(logical), float(affinity)) if logical and affinity and logical <= 64 else float(logical) if logical else None
    cpu = Cpu(
        vendor=vendor_name(vendor_id),
        model=model,
        microarchitecture=microarchitecture(vendor_id, *numbers),
        isa=(),
        sockets=None,
        physical_cores=cores,
        logical_cpus=logical,
        usable_cpus=usable,
        usable_cpus_source="affinity" if affinity and logical and affinity < logical <= 64 else "online",
        max_mhz=_ask(psutil, lambda p: p.cpu_freq().max or None),
    )
    unknown["host.cpu.sockets"] = "not read on Windows"
    unknown["host.virtualization"] = "not read on Windows"
    missing = "psutil does not tell" if psutil is not None else "psutil is not installed"
    for path, value in (("cpu.physical_cores", cores), ("memory.total_bytes", total), ("memory.usable_bytes", total), ("cpu.model", model)):
        if value is None:
            unknown[f"host.{path}"] = "the registry's processor key could not be read" if path == "cpu.model" else missing
    machine = platform.machine() or environ.get("PROCESSOR_ARCHITECTURE", "")
    swap = _ask(psutil, lambda p: p.swap_memory())
    host = Host(
        os="windows",
        kernel=platform.version() or None,
        arch={"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower() or None),
        virtualization=None,
        container="none",
        cpu=cpu,
        memory=HostMemory(
            total_bytes=total,
            usable_bytes=total,
            limit_source="GlobalMemoryStatusEx" if total else None,
            available_bytes=int(memory.available) if memory is not None else None,
            swap_bytes=int(swap.total) if swap is not None else None,
        ),
    )
    return HostReport(host=host, facts=HostFacts(), unknown=unknown)


def _psutil() -> Any | None:
    try:
        import psutil
    except ImportError:
        return None
    return psutil


def _ask(psutil: Any | None, question: Callable[[Any], Any]) -> Any:
    """Return psutil's answer, or None where this system does not give it."""
    if psutil is None:
        return None
    try:
        return question(psutil)
    except (OSError, RuntimeError, AttributeError, NotImplementedError, psutil.Error):
        return None


def _registry() -> dict[str, str]:
    """Return the values of the registry key of the first processor; empty elsewhere."""
    try:
        import winreg
    except ImportError:
        return {}
    values: dict[str, str] = {}
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _KEY) as key:  # type: ignore[attr-defined]
            for name in ("ProcessorNameString", "VendorIdentifier", "Identifier"):
                values[name] = str(winreg.QueryValueEx(key, name)[0])  # type: ignore[attr-defined]
    except OSError:
        return values
    return values
