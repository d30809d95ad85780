"""Huawei Ascend: the table of ``npu-smi info`` in its several layouts, PCI ids, and the davinci nodes."""

from __future__ import annotations

import re

from advisor.probe.accelerators._common import from_pci
from advisor.probe.accelerators._libs import find_library
from advisor.probe.accelerators._sighting import Reading, Sighting, normal_bdf
from advisor.probe.accelerators._text import compact, number, value
from advisor.probe.accelerators._tools import tool_text
from advisor.probe.accelerators.pci import PciDevice
from advisor.probe.root import Root

HUAWEI = 0x19E5
DRIVERS = ("devdrv_device_driver", "drv_devdrv_host", "drv_pcie_host", "ascend", "davinci")
MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
TOOLS = ("/usr/local/bin", "/usr/local/sbin", "/usr/local/Ascend/driver/tools")
LIBRARIES = ("/usr/local/Ascend/driver/lib64", "/usr/local/Ascend/driver/lib64/driver", "/usr/local/Ascend/ascend-toolkit/latest/lib64")
_PAIR = re.compile(r"(\d+)\s*/\s*(\d+)")


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return the Ascend chips; two chips of one card are two devices of one package."""
    seen = [device for device in pci if device.vendor == HUAWEI and (known := device.identity) is not None and known.target == "npu"]
    seen += [device for device in pci if device.vendor == HUAWEI and device.identity is None and device.base_class == 0x12]
    nodes = sorted(int(name[7:]) for name in root.names("/dev") if re.fullmatch(r"davinci\d{1,4}", name))
    if root.is_live and not (seen or nodes):
        return Reading()
    tool = tool_text(root, "npu-smi-info.txt", ["npu-smi", "info"], extra=TOOLS)
    chips = parse_npu_smi(tool.text)
    if not chips and not seen and nodes:
        chips = [Sighting(source="dev", target="npu", vendor="huawei", key=f"ascend:{number_}", driver=True) for number_ in nodes]
    sightings = [*chips, *(from_pci(device, "npu", DRIVERS, "huawei") for device in seen)]
    if tool.status in ("timeout", "crashed"):
        for item in sightings:
            item.state, item.reason = tool.status, tool.reason
    for item in sightings:
        _checks(root, item, nodes, bool(chips))
    return Reading(sightings=sightings)


def _checks(root: Root, item: Sighting, nodes: list[int], listed: bool) -> None:
    """A chip needs its own node and three shared ones; inside a container any of them may not have been mapped."""
    if item.source in ("pci", "lspci") and item.driver is not True and (nodes or listed):
        item.driver, item.state, item.reason = True, None, None
    if item.source == "lspci" and item.driver is None:
        item.driver = False
    if nodes and item.driver:
        missing = [f"/dev/{name}" for name in MANAGERS if not root.exists(f"/dev/{name}")]
        denied = [f"/dev/{name}" for name in (*MANAGERS, *(f"davinci{each}" for each in nodes[:1])) if root.access(f"/dev/{name}") is False]
        item.node = not (missing or denied)
        if missing and item.state is None:
            item.state, item.reason = "permission_denied", f"not mapped into this container: {', '.join(missing)}"
        elif denied and item.state is None:
            item.state, item.reason = "permission_denied", f"no permission on {', '.join(denied)}"
    if root.is_live and item.driver:
        item.library = bool(find_library(root, "libascend_hal.so", LIBRARIES) or find_library(root, "libascendcl.so", LIBRARIES))


def ascend_arch(name: str | None, chips_per_card: int = 1) -> str | None:
    """Return the family of a chip as the tool names it: 910B2C is 910B, 310P3 is 310P; a bare 910 with two dies a card is 910C."""
    match = re.search(r"(?<!\d)(310|910|950|610)(?:_?(93)\d*|([A-Z])(?![a-z]))?", name or "")
    if match is None:
        return None
    if match.group(2):
        return "910C"
    if match.group(1) == "910" and not match.group(3) and chips_per_card == 2:
        return "910C"
    return match.group(1) + (match.group(3) or "")


def parse_npu_smi(text: str) -> list[Sighting]:
    """Read ``npu-smi info``: two rows a chip. Columns are told by their heads, so that a version may add or drop one."""
    version = re.search(r"npu-smi\s+(\S+)", text)
    card: tuple[int, str | None, str | None, list[str]] | None = None
    memory_heads: list[str] = []
    second_head: str | None = None
    pending = False
    found: list[Sighting] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 3 or set(line.strip()) <= set("+-=|"):
            continue
        if re.match(r"NPU\s+Chip", cells[0]) or "Process" in cells[1]:
            break
        if re.match(r"Chip\b", cells[0]):
            words = cells[0].split()
            second_head = words[1].lower() if len(words) > 1 else None
            memory_heads = [head.lower() for head in re.findall(r"([A-Za-z]+)-Usage", cells[2])]
            continue
        first = re.match(r"^(\d{1,5})\s+(\S.*)$", cells[0])
        numbers_only = re.match(r"^\d{1,5}(\s+(\d{1,5}|-|NA))?$", cells[0]) is not None
        # A name may be a bare number (310), so that a card's row is told from a chip's by what stands beside it and by their order.
        if card is not None and numbers_only and (pending or normal_bdf(cells[1]) is not None):
            found.append(_chip(card, cells, second_head, memory_heads, len(found)))
            pending = False
        elif first and normal_bdf(cells[1]) is None:
            card = (int(first.group(1)), value(first.group(2)), value(cells[1]), cells[2].split())
            pending = True
    _finish(found, version.group(1) if version else None)
    return found


def _chip(
    card: tuple[int, str | None, str | None, list[str]], cells: list[str], second_head: str | None, heads: list[str], logic: int
) -> Sighting:
    npu, name, health, readings = card
    ids = [int(word) for word in cells[0].split() if word.isdecimal()]
    pairs = [(int(used), int(total)) for used, total in _PAIR.findall(cells[2])]
    kinds = heads[-len(pairs) :] if pairs and len(heads) >= len(pairs) else ["memory", "hbm"][: len(pairs)]
    sizes = {kind: total for kind, (_, total) in zip(kinds, pairs, strict=False) if total > 0}
    kind = "hbm" if "hbm" in sizes else next(iter(sizes), None)
    found = Sighting(source="npu-smi", target="npu", vendor="huawei", key=f"ascend:{npu}.{ids[0]}", driver=True, library=True)
    found.name, found.bus_id = name, normal_bdf(cells[1])
    found.memory_bytes = sizes[kind] << 20 if kind else None
    found.package = f"npu:{npu}"
    found.details = compact(
        {
            "npu_id": npu,
            "chip_id": ids[0],
            "phy_id": ids[1] if len(ids) > 1 and second_head == "phy-id" else None,
            "device": ids[1] if len(ids) > 1 and second_head == "device" else None,
            "logic_id": ids[1] if len(ids) > 1 and second_head == "logic-id" else logic,
            "health": health,
            "memory_type": "hbm" if kind == "hbm" else "ddr" if kind else None,
            "power": compact({"draw_w": number(readings[0]) if readings else None}),
        }
    )
    if found.memory_bytes is None:
        found.unknown["memory_bytes"] = f"npu-smi prints {cells[2]!r}"
    if health is not None and health.lower() not in ("ok", "warning"):
        found.state, found.reason = "unsupported", f"npu-smi reports its health as {health}"
        found.fix = f"see `npu-smi info -t health -i {npu}`, then reset it: `npu-smi set -t reset -i {npu} -c {ids[0]}`"
    return found


def _finish(found: list[Sighting], version: str | None) -> None:
    chips: dict[str | None, int] = {}
    for item in found:
        chips[item.package] = chips.get(item.package, 0) + 1
    for item in found:
        item.arch = ascend_arch(item.name, chips[item.package])
        item.details.update(compact({"driver_version": version, "chips_of_card": chips[item.package] if chips[item.package] > 1 else None}))
