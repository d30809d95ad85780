"""Accelerators that are named and nothing more: known by PCI id, served by tools of their own."""

from __future__ import annotations

from advisor.probe.accelerators._common import from_pci
from advisor.probe.accelerators._sighting import Reading
from advisor.probe.accelerators.pci import ACCELERATOR, DISPLAY, PciDevice
from advisor.probe.records import Target
from advisor.probe.root import Root

HYGON = 0x1D94
# Vendors with readers of their own.
ELSEWHERE = frozenset({"nvidia", "amd", "intel", "google", "google-coral", "aws", "huawei", "qualcomm", "tenstorrent"})
DRIVERS = {
    "graphcore": ("ipu_driver", "ipu"),
    "cambricon": ("cambricon-drv", "cambricon"),
    "enflame": ("enflame", "gcu"),
    "groq": ("groq",),
    "moore-threads": ("mtgpu",),
    "sambanova": ("rdu",),
    "iluvatar": ("iluvatar", "bi_driver", "itr_pci_drv"),
    "metax": ("metax", "mxgpu"),
    "d-matrix": ("dmx", "aviator"),
    "vastai": ("vastai_pci", "vastai"),
    "hygon": ("hydcu", "hycu", "amdgpu"),
}
TARGETS: dict[str, Target] = {"graphcore": "ipu", "hygon": "rocm"}


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return one device for each card of a vendor that no other reader serves; its audio, bridge and USB functions are none."""
    reading = Reading()
    for device in pci:
        known = device.identity
        vendor = known.vendor if known is not None else "hygon" if device.vendor == HYGON else None
        if vendor is None or vendor in ELSEWHERE or (known is not None and known.target == "npu"):
            continue
        if device.base_class not in (DISPLAY, ACCELERATOR, None):
            continue
        found = from_pci(device, TARGETS.get(vendor, "other"), DRIVERS.get(vendor, ()), vendor)
        found.unknown["memory_bytes"] = "only the vendor's own tool tells it"
        if found.driver is None:
            found.driver = False
        reading.sightings.append(found)
    return reading
