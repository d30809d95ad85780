"""The PCI tree in sysfs: which accelerators the kernel sees, whatever their drivers say."""

from __future__ import annotations

import re
from dataclasses import dataclass

from advisor.probe.accelerators._sighting import normal_bdf
from advisor.probe.accelerators.ids import Identity, identify
from advisor.probe.root import Root

NVIDIA, AMD, INTEL, GOOGLE = 0x10DE, 0x1002, 0x8086, 0x1AE0
DISPLAY, ACCELERATOR = 0x03, 0x12
DEVICES = "/sys/bus/pci/devices"
GROUPS = "/sys/kernel/iommu_groups"

# Vendors with at least one accelerator; every other device of the machine costs one read.
VENDORS = frozenset(
    {
        NVIDIA, AMD, INTEL, GOOGLE, 0x1022, 0x1AC1, 0x1DA3, 0x1D0F, 0x1D95, 0x19E5, 0x17CB, 0x1E52, 0x1ED2, 0x1EFF, 0xCABC, 0x1E36,
        0x1DE0, 0x1E60, 0x1ED5, 0x1E0D, 0x1E3E, 0x9999, 0x1F9D, 0x1FE9, 0x1F82, 0x1EC6, 0x1D94,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """One PCI function. Link speeds are GT/s per lane, ``source`` is ``pci``, ``iommu`` or ``lspci``.

    ``driver`` is the bound kernel driver; None with ``driver_known`` means that none is bound.
    """

    bus_id: str | None
    vendor: int
    device: int
    class_code: int | None
    driver: str | None = None
    driver_known: bool = False
    subsystem: int | None = None
    revision: int | None = None
    numa_node: int | None = None
    iommu_group: int | None = None
    speed_gts: float | None = None
    speed_max_gts: float | None = None
    width: int | None = None
    width_max: int | None = None
    source: str = "pci"
    name: str | None = None

    @property
    def pci_id(self) -> str:
        """Vendor and device as ``10de:2330``."""
        return f"{self.vendor:04x}:{self.device:04x}"

    @property
    def base_class(self) -> int | None:
        """The first byte of the class: 0x03 display, 0x06 bridge, 0x12 processing accelerator."""
        return None if self.class_code is None else self.class_code >> 16

    @property
    def identity(self) -> Identity | None:
        """What the table of ids says."""
        return identify(self.vendor, self.device)

    @property
    def is_gpu(self) -> bool:
        """A display controller or processing accelerator of a GPU vendor; a switch, an audio function or a USB port is none."""
        if self.vendor not in (NVIDIA, AMD, INTEL):
            return False
        known = self.identity
        if known is not None and known.kind not in ("gpu", "apu"):
            return False
        if self.base_class is None:
            return known is not None
        return self.base_class == DISPLAY or (self.base_class == ACCELERATOR and self.vendor != INTEL)


def scan(root: Root) -> tuple[PciDevice, ...]:
    """Return the accelerators and GPUs of the PCI tree, and of the IOMMU groups where the tree does not show them."""
    found = [device for name in root.names(DEVICES) if (device := _read(root, f"{DEVICES}/{name}", name, "pci")) is not None]
    seen = {device.bus_id for device in found}
    for group in root.names(GROUPS):
        for name in root.names(f"{GROUPS}/{group}/devices"):
            if normal_bdf(name) in seen and normal_bdf(name) is not None:
                continue
            if normal_bdf(name) is not None and root.exists(f"{DEVICES}/{name}"):
                continue
            device = _read(root, f"{GROUPS}/{group}/devices/{name}", name, "iommu", int(group) if group.isdecimal() else None)
            if device is not None:
                found.append(device)
    return tuple(found)


def read_device(root: Root, folder: str) -> PciDevice | None:
    """Return the PCI device behind a class entry's ``device`` link (``/sys/class/drm/card0/device``), or None."""
    target = root.link(folder)
    name = target.rsplit("/", 1)[-1] if target else _uevent(root, folder).get("PCI_SLOT_NAME", "")
    return _read(root, folder, name, "pci", everything=True)


def _read(root: Root, folder: str, name: str, source: str, group: int | None = None, *, everything: bool = False) -> PciDevice | None:
    event: dict[str, str] = {}
    vendor, device = _hexadecimal(root, f"{folder}/vendor"), _hexadecimal(root, f"{folder}/device")
    if vendor is None or device is None:
        event = _uevent(root, folder)
        match = re.fullmatch(r"([0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{1,8})", event.get("PCI_ID", ""))
        if match is None:
            return None
        vendor, device = int(match.group(1), 16), int(match.group(2), 16)
    if vendor not in VENDORS and not everything:
        return None
    class_code = _hexadecimal(root, f"{folder}/class")
    known = identify(vendor, device)
    if known is None and not everything and not (class_code is not None and class_code >> 16 in (DISPLAY, ACCELERATOR)):
        return None
    if root.link(f"{folder}/physfn") is not None or root.exists(f"{folder}/physfn"):
        return None  # a virtual function made for guests on this very host: the physical one stands for it
    link = root.link(f"{folder}/driver")
    driver = link.rsplit("/", 1)[-1] if link else (event or _uevent(root, folder)).get("DRIVER")
    numa = root.integer(f"{folder}/numa_node")
    iommu = root.link(f"{folder}/iommu_group")
    tail = iommu.rsplit("/", 1)[-1] if iommu else ""
    return PciDevice(
        bus_id=normal_bdf(name),
        vendor=vendor,
        device=device,
        class_code=class_code,
        driver=driver,
        driver_known=driver is not None or (source == "pci" and not everything),
        subsystem=_hexadecimal(root, f"{folder}/subsystem_device"),
        revision=_hexadecimal(root, f"{folder}/revision"),
        numa_node=numa if numa is not None and numa >= 0 else None,
        iommu_group=group if group is not None else int(tail) if tail.isdecimal() else None,
        speed_gts=_speed(root.line(f"{folder}/current_link_speed")),
        speed_max_gts=_speed(root.line(f"{folder}/max_link_speed")),
        width=_width(root.integer(f"{folder}/current_link_width")),
        width_max=_width(root.integer(f"{folder}/max_link_width")),
        source=source,
    )


def _hexadecimal(root: Root, name: str) -> int | None:
    found = root.integer(name, 16)
    return found if found is not None and 0 <= found <= 0xFFFFFFFF else None


def _uevent(root: Root, folder: str) -> dict[str, str]:
    lines = (root.text(f"{folder}/uevent") or "").splitlines()
    return {key.strip(): value.strip() for key, sep, value in (line.partition("=") for line in lines) if sep}


def _speed(text: str | None) -> float | None:
    """Read ``32.0 GT/s PCIe`` (``Unknown`` is None)."""
    match = re.match(r"(\d+(?:\.\d+)?)\s*GT/s", text or "")
    return float(match.group(1)) if match else None


def _width(lanes: int | None) -> int | None:
    # 0 and 255 are what the kernel prints for a device without a link (a virtual function, an integrated part).
    return lanes if lanes is not None and 0 < lanes < 64 else None


GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


def pcie_facts(device: PciDevice) -> dict[str, int]:
    """Return ``gen``, ``gen_max``, ``width``, ``width_max`` as far as sysfs tells them."""
    facts = {
        "gen": GENERATIONS.get(device.speed_gts or 0.0),
        "gen_max": GENERATIONS.get(device.speed_max_gts or 0.0),
        "width": device.width,
        "width_max": device.width_max,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}
