"""What the NVIDIA kernel module says of itself without any library: ``/proc/driver/nvidia`` and ``/sys/module/nvidia``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from advisor.probe.accelerators._sighting import Sighting, normal_bdf
from advisor.probe.accelerators._text import compact, integer, value
from advisor.probe.root import Root

GPUS = "/proc/driver/nvidia/gpus"


@dataclass(slots=True)
class KernelModule:
    """The version of the loaded module (None if none is loaded or it does not say) and the GPUs it holds."""

    version: str | None = None
    loaded: bool = False
    gpus: list[Sighting] = field(default_factory=list)


def read_module(root: Root) -> KernelModule:
    """Return what the kernel module shows."""
    text = root.text("/proc/driver/nvidia/version") or ""
    # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.120  ..." and "... Open Kernel Module for x86_64  580.95.05 ..."
    match = re.search(r"Module(?:\s+for\s+\S+)?\s+(\d+\.\d+(?:\.\d+)?)", text)
    version = match.group(1) if match else root.line("/sys/module/nvidia/version")
    module = KernelModule(version, loaded=bool(text) or root.exists("/sys/module/nvidia"))
    for name in root.names(GPUS):
        module.gpus.append(_gpu(root, name, version))
    return module


def _gpu(root: Root, name: str, version: str | None) -> Sighting:
    facts = {
        key.strip(): rest.strip()
        for key, sep, rest in (line.partition(":") for line in (root.text(f"{GPUS}/{name}/information") or "").splitlines())
        if sep
    }
    uuid = value(facts.get("GPU UUID"))
    found = Sighting(source="proc", target="cuda", vendor="nvidia", driver=True)
    found.name = value(facts.get("Model"))
    found.bus_id = normal_bdf(facts.get("Bus Location")) or normal_bdf(name)
    found.uuid = uuid if uuid and "?" not in uuid else None
    found.package = found.uuid or found.bus_id
    found.details = compact(
        {"minor": integer(facts.get("Device Minor")), "driver_version": version, "gpu_excluded": facts.get("GPU Excluded") == "Yes" or None}
    )
    return found
