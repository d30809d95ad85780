"""What the readers of PCI accelerators share: a sighting out of a PCI device, its driver judged, its nodes tried."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from advisor.probe.accelerators._sighting import Sighting
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators.pci import PciDevice, pcie_facts, read_device
from advisor.probe.records import Target
from advisor.probe.root import Root

ACCEL = "/sys/class/accel"
PASSED_THROUGH = frozenset({"vfio-pci", "pci-stub", "xen-pciback", "uio_pci_generic"})


@dataclass(frozen=True, slots=True)
class AccelEntry:
    """One entry of the kernel's accel class: many drivers make them, so the device behind it decides what it is."""

    name: str
    driver: str | None
    device: PciDevice | None
    compatible: str

    @property
    def node(self) -> str:
        """Its device node."""
        return f"/dev/accel/{self.name}"


def accel_entries(root: Root) -> list[AccelEntry]:
    """Return the accel class with what is behind each entry."""
    found = []
    for name in root.names(ACCEL):
        if not re.fullmatch(r"accel\d+", name):
            continue
        folder = f"{ACCEL}/{name}/device"
        device = read_device(root, folder)
        link = root.link(f"{folder}/driver")
        event = root.text(f"{folder}/uevent") or ""
        match = re.search(r"^DRIVER=(\S+)", event, re.MULTILINE)
        driver = link.rsplit("/", 1)[-1] if link else match.group(1) if match else device.driver if device else None
        compatible = " ".join(re.findall(r"^OF_COMPATIBLE_\d+=(\S+)", event, re.MULTILINE))
        found.append(AccelEntry(name, driver, device, compatible))
    return found


def from_pci(device: PciDevice, target: Target, drivers: Iterable[str], vendor: str | None = None) -> Sighting:
    """Return the sighting of a PCI device whose working driver is one of ``drivers``."""
    known = device.identity
    found = Sighting(source=device.source, target=target, vendor=vendor or (known.vendor if known else "unknown"))
    found.bus_id, found.pci_id, found.package = device.bus_id, device.pci_id, device.bus_id
    found.name = known.name if known else device.name
    found.arch = known.arch if known else None
    found.details = compact(
        {"kernel_driver": device.driver, "numa_node": device.numa_node, "pcie": pcie_facts(device), "revision": device.revision}
    )
    judge_driver(found, device.driver, device.driver_known, drivers)
    return found


def judge_driver(found: Sighting, driver: str | None, driver_known: bool, drivers: Iterable[str]) -> None:
    """Answer the driver question; a device that is passed through to a virtual machine has none here."""
    if driver in set(drivers):
        found.driver = True
    elif driver in PASSED_THROUGH:
        found.driver, found.state = False, "no_driver"
        found.reason = f"bound to {driver} to be passed through to a virtual machine"
        found.fix = f"give it back to the host: unbind it from {driver}, then load its own driver"
    elif driver is not None:
        found.driver, found.state, found.reason = False, "no_driver", f"bound to {driver}, not to a driver known to serve it"
    elif driver_known:
        found.driver = False


def try_nodes(root: Root, found: Sighting, nodes: Iterable[str]) -> None:
    """Answer the node question for the nodes a device needs.

    A recorded machine may hold a part of /dev only: there a node that is absent tells nothing.
    """
    if not root.names("/dev"):
        return
    for node in nodes:
        reachable = root.access(node)
        if reachable is True:
            found.node = found.node is not False
            if found.driver is None:
                found.driver = True
            continue
        if reachable is None and not root.is_live:
            continue
        found.node = False
        if found.state is None and found.driver is not False:
            found.state = "permission_denied"
            found.reason = f"no permission on {node}" if reachable is False else f"{node} is not here: not granted to this container"
