"""Intel GPUs of the i915 and xe drivers: PCI, render nodes, Level Zero."""

from __future__ import annotations

import re

from advisor.probe.accelerators._common import from_pci, try_nodes
from advisor.probe.accelerators._libs import find_library, in_packages
from advisor.probe.accelerators._sighting import Reading, Sighting
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators.pci import INTEL, PciDevice, read_device
from advisor.probe.root import Root

DRIVERS = ("i915", "xe")
DRM = "/sys/class/drm"


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return Intel's GPUs. One that no compute framework serves is listed as unsupported, and ranks behind all others."""
    seen = [device for device in pci if device.vendor == INTEL and device.is_gpu]
    if not seen:
        return Reading()
    cards = _drm(root)
    library = _library(root)
    return Reading(sightings=[_gpu(root, device, cards.get(device.bus_id, {}), library) for device in seen])


def _drm(root: Root) -> dict[str | None, dict[str, str]]:
    """Return the DRM card and render node of each bus address."""
    found: dict[str | None, dict[str, str]] = {}
    for name in root.names(DRM):
        if re.fullmatch(r"(card|renderD)\d+", name) and (device := read_device(root, f"{DRM}/{name}/device")) is not None:
            found.setdefault(device.bus_id, {})["card" if name.startswith("card") else "render"] = name
    return found


def _gpu(root: Root, device: PciDevice, nodes: dict[str, str], library: bool | None) -> Sighting:
    found = from_pci(device, "xpu", DRIVERS, "intel")
    known = device.identity
    found.details.update(compact({**nodes, "integrated": True if known is None or known.kind == "apu" else None}))
    if known is None:
        found.name = device.name or "Intel integrated graphics"
        found.memory_kind = "unified"
        if found.driver:
            found.state, found.reason = "unsupported", f"no framework's GPU back end is known to serve {device.pci_id}"
        return found
    if known.kind == "apu":
        found.memory_kind = "unified"
        found.unknown["memory_bytes"] = "shares the machine's memory"
    else:
        card = nodes.get("card")
        found.memory_bytes = root.integer(f"{DRM}/{card}/lmem_total_bytes") if card else None
        found.unknown["memory_bytes"] = "the driver shows no size of its own memory in sysfs; Level Zero tells it"
    if found.driver:
        if nodes.get("render"):
            try_nodes(root, found, [f"/dev/dri/{nodes['render']}"])
        found.library = library
    return found


def _library(root: Root) -> bool | None:
    if not root.is_live:
        return None
    return bool(find_library(root, "libze_loader.so.1") or in_packages(root, "torch/lib/libze_loader.so.1"))
