"""NPUs of processors and small boards: Intel, AMD XDNA, Qualcomm Cloud AI, Coral, Rockchip and others of the accel class."""

from __future__ import annotations

import re

from advisor.probe.accelerators._common import AccelEntry, accel_entries, from_pci, judge_driver, try_nodes
from advisor.probe.accelerators._sighting import Reading, Sighting, normal_bdf
from advisor.probe.accelerators._text import compact, value
from advisor.probe.accelerators._tools import recorded
from advisor.probe.accelerators.pci import PciDevice
from advisor.probe.accelerators.tegra import device_tree
from advisor.probe.root import Root

# The driver that serves each vendor's NPU, by the kernel's own name for it.
DRIVERS = {
    "intel": ("intel_vpu", "ivpu"),
    "amd": ("amdxdna",),
    "qualcomm": ("qaic",),
    "google-coral": ("apex", "gasket"),
    "furiosa": ("furiosa", "rngd", "npu_mgmt"),
    "rebellions": ("rebellions", "rblnthread"),
    "hailo": ("hailo", "hailo_pci"),
    "axelera": ("metis", "axelera"),
    "memryx": ("memx_cascade_plus_pcie", "memx"),
}
# PCI revision of device 17f0 to generation: the device table of the amdxdna driver.
XDNA_REVISIONS = {0x00: "npu2", 0x10: "npu4", 0x11: "npu5", 0x20: "npu6"}
_XRT = re.compile(r"\[([0-9a-fA-F:.]+)\]\s*[:|]\s*(?:Name\s*:\s*)?([^|\n]*)")


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return the NPUs that are found by PCI id, by the accel class, or by the board's device tree."""
    entries = accel_entries(root)
    behind = {entry.device.bus_id: entry for entry in entries if entry.device and entry.device.bus_id}
    reading = Reading()
    mine = [device for device in pci if (known := device.identity) is not None and known.target == "npu" and known.vendor in DRIVERS]
    seen = {device.bus_id for device in mine}
    for device in mine:
        reading.sightings.append(_from_pci(root, device, behind.get(device.bus_id)))
    for entry in entries:
        found = _from_entry(root, entry) if entry.device is None or entry.device.bus_id not in seen else None
        if found is not None:
            reading.sightings.append(found)
    text = recorded(root, "xrt-smi.txt")
    if text is not None:
        reading.sightings = parse_xrt_smi(text) + reading.sightings
    rockchip = read_rockchip(root)
    if rockchip is not None:
        reading.sightings.append(rockchip)
    reading.sightings += read_coral_usb(root)
    return reading


def _from_pci(root: Root, device: PciDevice, entry: AccelEntry | None) -> Sighting:
    known = device.identity
    vendor = known.vendor if known else "unknown"
    found = from_pci(device, "npu", DRIVERS.get(vendor, ()), vendor)
    if vendor == "amd":
        found.arch = XDNA_REVISIONS.get(device.revision, found.arch) if device.device == 0x17F0 and device.revision else found.arch
    if vendor in ("intel", "amd"):
        found.memory_kind = "unified"
        found.unknown["memory_bytes"] = "shares the machine's memory"
    if entry is not None:
        found.key = f"accel:{entry.name}"
        found.details["node"] = entry.node
        if found.driver is None:
            judge_driver(found, entry.driver, False, DRIVERS.get(vendor, ()))
        try_nodes(root, found, [entry.node])
    elif vendor == "google-coral":
        nodes = [name for name in root.names("/dev") if re.fullmatch(r"apex_\d+", name)]
        if nodes:
            found.driver = True
            try_nodes(root, found, [f"/dev/{nodes[0]}"])
        elif found.driver is None:
            found.driver, found.reason = False, "no /dev/apex node: the gasket driver is not loaded"
    elif found.driver is None:
        found.driver = False
    return found


def _from_entry(root: Root, entry: AccelEntry) -> Sighting | None:
    """Return an accel entry whose device no PCI list showed; vendors with readers of their own are left to them."""
    known = entry.device.identity if entry.device else None
    if known is not None and known.target == "npu" and known.vendor in DRIVERS and entry.device is not None:
        found = _from_pci(root, entry.device, entry)
        found.source = "accel"
        return found
    if entry.driver == "rocket" or "rockchip" in entry.compatible:
        found = Sighting(source="accel", target="npu", vendor="rockchip", key="rockchip:0", driver=True, memory_kind="unified")
        found.name = "Rockchip NPU"
        try_nodes(root, found, [entry.node])
        return found
    if entry.device is None and entry.driver in ("ethosu", "ethos-u"):
        return Sighting(source="accel", target="npu", vendor="arm", key=f"accel:{entry.name}", name="Arm Ethos-U", driver=True)
    return None


def parse_xrt_smi(text: str) -> list[Sighting]:
    """Read ``xrt-smi examine`` (or xbutil): bus address and name, in the form with pipes or the older one with a colon."""
    version = re.search(r"(?:NPU )?Firmware Version\s*:\s*(\S+)", text)
    driver = re.search(r"amdxdna\s*:\s*([^,\n]+)", text, re.IGNORECASE)
    found = []
    for match in _XRT.finditer(text):
        bus_id, name = normal_bdf(match.group(1)), value(match.group(2))
        if bus_id is None or any(item.bus_id == bus_id for item in found):
            continue
        item = Sighting(source="xrt-smi", target="npu", vendor="amd", bus_id=bus_id, package=bus_id, driver=True, library=True)
        generation = re.search(r"npu(\d)", (name or "").lower())
        item.name, item.arch = name, f"npu{generation.group(1)}" if generation else None
        item.memory_kind = "unified"
        item.unknown["memory_bytes"] = "shares the machine's memory"
        item.details = compact(
            {"firmware": value(version.group(1)) if version else None, "driver_version": value(driver.group(1)) if driver else None}
        )
        found.append(item)
    return found


def parse_rknpu_load(text: str) -> list[int]:
    """Read ``NPU load:  Core0: 63%, Core1: 65%,`` (or one number for a part with one core): percent by core."""
    cores = re.findall(r"Core\d+:\s*(\d{1,3})\s*%", text)
    return [int(load) for load in cores or re.findall(r"(\d{1,3})\s*%", text)[:1]]


def read_rockchip(root: Root) -> Sighting | None:
    """Return the NPU of a Rockchip board: by its frequency governor, its driver, or its node in the device tree."""
    model, compatible = device_tree(root)
    part = next((match.group(1) for entry in compatible if (match := re.fullmatch(r"rockchip,(r[kv]\d+\w*)", entry))), None)
    governor = [name for name in root.names("/sys/class/devfreq") if re.search(r"npu", name)]
    load = root.text("/sys/kernel/debug/rknpu/load")
    in_tree = [name for name in root.names("/proc/device-tree") if re.match(r"(rk)?npu@", name)]
    bound = root.exists("/sys/module/rknpu") or bool(governor) or load is not None or root.exists("/sys/bus/platform/drivers/RKNPU")
    if not (bound and (part or load is not None or governor)) and not (part and in_tree):
        return None
    found = Sighting(source="device-tree", target="npu", vendor="rockchip", key="rockchip:0", memory_kind="unified")
    found.name = f"Rockchip {part.upper()} NPU" if part else "Rockchip NPU"
    found.arch = part
    found.driver = bound
    loads = parse_rknpu_load(load) if load else []
    found.compute_units = len(loads) or None
    found.package = part or "rockchip"
    found.details = compact({"board": model, "load_pct": loads or None, "governor": governor[0] if governor else None})
    found.unknown["memory_bytes"] = "shares the machine's memory"
    return found


def read_coral_usb(root: Root) -> list[Sighting]:
    """Return Coral USB accelerators: 1a6e:089a before its firmware is loaded, 18d1:9302 after."""
    found = []
    for name in root.names("/sys/bus/usb/devices"):
        ids = (root.line(f"/sys/bus/usb/devices/{name}/idVendor"), root.line(f"/sys/bus/usb/devices/{name}/idProduct"))
        if ids in (("1a6e", "089a"), ("18d1", "9302")):
            item = Sighting(
                source="usb", target="npu", vendor="google-coral", key=f"usb:{name}", name="Coral USB Accelerator", arch="edgetpu"
            )
            item.driver, item.package = True, f"usb:{name}"
            item.details["usb_id"] = ":".join(part or "" for part in ids)
            found.append(item)
    return found
