"""Intel Gaudi (Habana): PCI ids, the accel or habanalabs class with each device's own state, and ``hl-smi`` in CSV."""

from __future__ import annotations

import csv
import re

from advisor.probe.accelerators._common import accel_entries, from_pci, try_nodes
from advisor.probe.accelerators._libs import find_library
from advisor.probe.accelerators._sighting import Reading, Sighting, normal_bdf
from advisor.probe.accelerators._text import compact, integer, number, size_bytes, value
from advisor.probe.accelerators._tools import recorded, run_tool
from advisor.probe.accelerators.pci import PciDevice
from advisor.probe.root import Root

HABANA = 0x1DA3
DRIVERS = ("habanalabs", "hl")
QUERY = ["hl-smi", "-Q", "index,module_id,bus_id,name,uuid,driver_version,memory.total", "-f", "csv"]
# HL-1xx, 2xx, 3xx are the cards of the three generations: Habana's product numbers.
_GENERATIONS = {"1": "goya", "2": "gaudi", "3": "gaudi3"}
GAUDI2_CARDS = ("HL-225", "HL-225B", "HL-225H", "HL-225C", "HL-225D", "HL-288")


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return the Gaudi cards. An accel node alone is no Gaudi: the vendor behind it and its driver decide."""
    entries = [entry for entry in accel_entries(root) if entry.driver in DRIVERS or (entry.device and entry.device.vendor == HABANA)]
    seen = [device for device in pci if (known := device.identity) is not None and known.target == "gaudi"]
    text = recorded(root, "hl-smi.csv")
    listed = parse_hl_smi(text) if text is not None else []
    if not (seen or entries or listed):
        return Reading()
    if root.is_live:
        listed = parse_hl_smi(run_tool(QUERY, root.environ, extra=("/usr/bin", "/usr/local/bin")).text)
    behind = {entry.device.bus_id: entry.name for entry in entries if entry.device and entry.device.bus_id}
    sightings = list(listed)
    for device in seen:
        found = from_pci(device, "gaudi", DRIVERS, "intel")
        _state(root, found, behind.get(device.bus_id))
        sightings.append(found)
    for entry in entries:
        if entry.device is not None and entry.device.bus_id in {device.bus_id for device in seen}:
            continue
        found = Sighting(
            source="accel", target="gaudi", vendor="intel", key=f"gaudi:{integer(entry.name) or 0}", driver=entry.driver in DRIVERS
        )
        if entry.device is not None:
            known = entry.device.identity
            found.bus_id, found.pci_id, found.arch = entry.device.bus_id, entry.device.pci_id, known.arch if known else None
        _state(root, found, entry.name)
        sightings.append(found)
    for item in sightings:
        if root.is_live and item.driver:
            item.library = bool(
                find_library(root, "libSynapse.so", ("/usr/lib/habanalabs",))
                or find_library(root, "libhl-thunk.so", ("/usr/lib/habanalabs",))
            )
    return Reading(sightings=sightings)


def _state(root: Root, found: Sighting, name: str | None) -> None:
    """Read what the driver says about one card: ``operational``, ``malfunction``, ``needs reset`` …"""
    if name is None:
        return
    told = None
    for folder in (f"/sys/class/accel/{name}/device", f"/sys/class/accel/{name}", f"/sys/class/habanalabs/hl{name.removeprefix('accel')}"):
        told = told or root.line(f"{folder}/status") or root.line(f"{folder}/state")
    found.details.update(compact({"node": f"/dev/accel/{name}", "status": told}))
    if told and told.lower() not in ("operational", "ok", "in_use", "in device creation"):
        found.state = "lost" if "malfunction" in told.lower() or "reset" in told.lower() else "unsupported"
        found.reason = f"its driver reports {told!r}"
        found.fix = "reset it: `sudo hl-smi -r -i <bus id>`, else reboot"
    try_nodes(root, found, [f"/dev/accel/{name}"])


def gaudi_arch(name: str | None) -> str | None:
    """Return the generation of a card by its product number: HL-205 is gaudi, HL-225 gaudi2, HL-325L gaudi3."""
    match = re.search(r"HL-(\d)(\d)\d", name or "")
    if match is None:
        return None
    if match.group(1) == "2" and int(match.group(2)) >= 2:
        return "gaudi2"
    return _GENERATIONS.get(match.group(1))


def parse_hl_smi(text: str) -> list[Sighting]:
    """Read ``hl-smi -Q … -f csv``: columns by the names in its first line; without such a line by what the fields look like."""
    rows = [[cell.strip() for cell in row] for row in csv.reader((text or "").replace("\0", "").splitlines(), skipinitialspace=True) if row]
    found: list[Sighting] = []
    heads: list[str] = []
    for row in rows:
        lowered = [re.sub(r"\s*\[.*\]$", "", cell.lower()) for cell in row]
        if any(head in ("index", "bus_id", "name", "memory.total", "module_id", "uuid") for head in lowered):
            heads = lowered
            units = {re.sub(r"\s*\[.*\]$", "", cell.lower()): match.group(1) for cell in row if (match := re.search(r"\[(\w+)\]", cell))}
            continue
        fields = dict(zip(heads, row, strict=False)) if heads else _guess(row)
        bus_id, name = normal_bdf(fields.get("bus_id")), value(fields.get("name"))
        if bus_id is None and (name is None or not name.upper().startswith(("HL-", "GAUDI"))):
            continue
        index = integer(fields.get("index"))
        item = Sighting(source="hl-smi", target="gaudi", vendor="intel", key=f"gaudi:{len(found) if index is None else index}")
        item.name, item.bus_id, item.uuid = name, bus_id, value(fields.get("uuid"))
        item.arch, item.package = gaudi_arch(name), bus_id
        item.memory_bytes = size_bytes(fields.get("memory.total"), units.get("memory.total", "MiB") if heads else "MiB")
        item.driver = item.library = True
        item.details = compact(
            {
                "index": index,
                "module_id": integer(fields.get("module_id")),
                "driver_version": value(fields.get("driver_version")),
                "power": compact({"max_w": number(fields.get("power.max")), "draw_w": number(fields.get("power.draw"))}),
            }
        )
        if item.memory_bytes is None:
            item.unknown["memory_bytes"] = "hl-smi was not asked for memory.total"
        found.append(item)
    return found


def _guess(row: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for place, cell in enumerate(row):
        if normal_bdf(cell) and "bus_id" not in fields:
            fields["bus_id"] = cell
        elif re.match(r"HL-\d", cell, re.IGNORECASE):
            fields["name"] = cell
        elif re.search(r"MiB$", cell) and "memory.total" not in fields:
            fields["memory.total"] = cell
        elif place == 0 and cell.isdecimal():
            fields["index"] = cell
    return fields
