"""Google TPUs: PCI functions of vendor 0x1ae0, on the accel class up to v4 and on VFIO from v5e on; libtpu and the environment."""

from __future__ import annotations

from advisor.probe.accelerators._common import accel_entries, try_nodes
from advisor.probe.accelerators._libs import find_library, in_packages
from advisor.probe.accelerators._sighting import Reading, Sighting
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators.pci import GOOGLE, PciDevice, pcie_facts
from advisor.probe.records import Finding
from advisor.probe.root import Root

# Subsystem ids of device 0x0027, and generations with more than one PCI function a chip: tpu-info's device table.
SUBSYSTEMS = {0x004E: "v2", 0x004F: "v3"}
FUNCTIONS_PER_CHIP = {"v7x": 2}
VARIABLES = (
    "TPU_ACCELERATOR_TYPE", "TPU_TOPOLOGY", "TPU_CHIPS_PER_HOST_BOUNDS", "TPU_HOST_BOUNDS", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES",
    "TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES", "TPU_SKIP_MDS_QUERY", "PJRT_DEVICE",
)  # fmt: skip
DRIVERS = ("vfio-pci", "google_tpu", "tpu_common", "accel")


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return the TPU chips of this host. Only the vendor counts: any other device may be on VFIO or in the accel class."""
    entries = {entry.device.bus_id: entry.node for entry in accel_entries(root) if entry.device and entry.device.vendor == GOOGLE}
    behind = [entry.device for entry in accel_entries(root) if entry.device and entry.device.vendor == GOOGLE]
    seen = {device.bus_id for device in pci}
    devices = [device for device in pci if _is_tpu(device)]
    # An entry whose bus address was not recorded is one that the PCI tree shows too, if that shows any.
    devices += [device for device in behind if device.bus_id not in seen and (device.bus_id is not None or not devices)]
    if None in entries and devices and all(device.bus_id for device in devices):
        nodes = [entry.node for entry in accel_entries(root) if entry.device and entry.device.vendor == GOOGLE]
        entries = dict(zip(sorted(device.bus_id for device in devices if device.bus_id), nodes, strict=False))
    reading = Reading()
    generations: dict[str | None, list[PciDevice]] = {}
    for device in sorted(devices, key=lambda device: device.bus_id or ""):
        generations.setdefault(_generation(device), []).append(device)
    library = _library(root)
    number = 0
    for generation, functions in generations.items():
        size = FUNCTIONS_PER_CHIP.get(generation or "", 1)
        for start in range(0, len(functions), size):
            reading.sightings.append(_chip(root, number, generation, functions[start : start + size], entries, library))
            number += 1
    _environment(root, reading)
    return reading


def _is_tpu(device: PciDevice) -> bool:
    known = device.identity
    return device.vendor == GOOGLE and known is not None and known.kind == "tpu"


def _generation(device: PciDevice) -> str | None:
    known = device.identity
    return known.arch or SUBSYSTEMS.get(device.subsystem or 0) if known else None


def _chip(
    root: Root, number: int, generation: str | None, functions: list[PciDevice], entries: dict[str | None, str], library: bool | None
) -> Sighting:
    first = functions[0]
    found = Sighting(source=first.source, target="tpu", vendor="google", key=f"tpu:{number}", bus_id=first.bus_id, pci_id=first.pci_id)
    found.name = f"Google TPU {generation}" if generation else "Google TPU"
    found.arch = generation
    found.package = first.bus_id or found.key
    nodes = [node for device in functions if (node := _node(root, device, entries)) is not None]
    found.details = compact(
        {
            "functions": [device.bus_id for device in functions] if len(functions) > 1 else None,
            "nodes": nodes or None,
            "kernel_driver": first.driver,
            "numa_node": first.numa_node,
            "pcie": pcie_facts(first),
        }
    )
    found.unknown["memory_bytes"] = "the kernel does not tell a TPU's memory; the sheet of the product does"
    found.unknown["arch"] = "PCI device 0027 is v2 or v3 by its subsystem id, which is not here"
    found.driver = True if first.driver in DRIVERS or nodes else False if first.driver_known or not nodes else None
    if first.driver is not None and first.driver not in DRIVERS:
        found.reason = f"bound to {first.driver}"
    if found.driver:
        try_nodes(root, found, nodes or ["/dev/vfio/vfio"])
    found.library = library
    return found


def _node(root: Root, device: PciDevice, entries: dict[str | None, str]) -> str | None:
    """Return the VFIO group or accel node of a function; ``/dev/accelN`` is the older place of ``/dev/accel/accelN``."""
    if device.iommu_group is not None and root.exists(f"/dev/vfio/{device.iommu_group}"):
        return f"/dev/vfio/{device.iommu_group}"
    node = entries.get(device.bus_id)
    if node is None:
        return None
    older = f"/dev/{node.rsplit('/', 1)[-1]}"
    return older if root.exists(older) and not root.exists(node) else node


def _library(root: Root) -> bool | None:
    if not root.is_live:
        return None
    given = root.environ.get("TPU_LIBRARY_PATH")
    if given and root.exists(given):
        return True
    return bool(in_packages(root, "libtpu/libtpu.so") or find_library(root, "libtpu.so", ("/lib", "/usr/local/lib")))


def _environment(root: Root, reading: Reading) -> None:
    given = {name: root.environ[name] for name in VARIABLES if root.environ.get(name)}
    for item in reading.sightings:
        if given:
            item.details["environment"] = given
    kind = given.get("TPU_ACCELERATOR_TYPE")
    if kind and not reading.sightings:
        reading.findings.append(
            Finding(
                code="TPU_DECLARED_BUT_ABSENT",
                severity="error",
                message=f"TPU_ACCELERATOR_TYPE is {kind}, and no TPU is on this machine",
                fix="unset TPU_ACCELERATOR_TYPE, or start the container with `--privileged` and /dev/vfio (or /dev/accel*)",
            )
        )
    visible = given.get("TPU_VISIBLE_CHIPS") or given.get("TPU_VISIBLE_DEVICES")
    chosen = [part.strip() for part in visible.split(",")] if visible else []
    wrong = [part for part in chosen if not part.isdecimal() or int(part) >= len(reading.sightings)]
    if wrong and reading.sightings:
        reading.findings.append(
            Finding(
                code="VISIBLE_DEVICES_ODD",
                severity="error",
                message=f"TPU_VISIBLE_CHIPS names {', '.join(wrong)}, and this host has {len(reading.sightings)} chips",
                fix="unset TPU_VISIBLE_CHIPS",
            )
        )
