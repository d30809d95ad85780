"""Tenstorrent: PCI ids, /dev/tenstorrent, and the snapshot of ``tt-smi -s``, whose board id groups the chips of a board."""

from __future__ import annotations

import re
from typing import Any

from advisor.probe.accelerators._common import from_pci, try_nodes
from advisor.probe.accelerators._sighting import Reading, Sighting, normal_bdf
from advisor.probe.accelerators._text import compact, loose_json, value
from advisor.probe.accelerators._tools import recorded, run_tool
from advisor.probe.accelerators.pci import PciDevice
from advisor.probe.root import Root


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return the chips: those on PCI, and those that only another chip of the board reaches (an n300's right one)."""
    seen = [device for device in pci if (known := device.identity) is not None and known.vendor == "tenstorrent"]
    text = recorded(root, "tt-smi.json")
    if not seen and text is None:
        return Reading()
    if root.is_live:
        text = run_tool(["tt-smi", "-s", "--snapshot_no_tty"], root.environ).text
    sightings = [*parse_tt_smi(text or ""), *(from_pci(device, "other", ("tenstorrent",), "tenstorrent") for device in seen)]
    names = [name for name in root.names("/dev/tenstorrent") if name.isdecimal()]
    for item in sightings:
        if item.source == "pci" and item.driver and names:
            try_nodes(root, item, [f"/dev/tenstorrent/{names[0]}"])
    return Reading(sightings=sightings)


def parse_tt_smi(text: str) -> list[Sighting]:
    """Read the JSON of ``tt-smi -s``; a chip without a bus address is reached through its neighbour."""
    document = loose_json(text)
    entries = document.get("device_info") if isinstance(document, dict) else None
    found: list[Sighting] = []
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        board: Any = entry.get("board_info") if isinstance(entry, dict) else None
        if not isinstance(board, dict):
            continue
        kind, board_id = value(board.get("board_type")), value(board.get("board_id"))
        item = Sighting(source="tt-smi", target="other", vendor="tenstorrent", key=f"tenstorrent:{number}", driver=True, library=True)
        item.name = f"Tenstorrent {kind}" if kind else None
        item.arch = _arch(kind)
        item.bus_id = normal_bdf(value(board.get("bus_id")))
        item.package = board_id or item.bus_id or item.key
        item.details = compact({"board_id": board_id, "remote": True if item.bus_id is None else None})
        item.unknown["memory_bytes"] = "tt-smi tells no memory size"
        found.append(item)
    return found


def _arch(kind: str | None) -> str | None:
    match = re.match(r"(e|n|p|tt-galaxy)", (kind or "").lower())
    return {"e": "grayskull", "n": "wormhole", "p": "blackhole"}.get(match.group(1)) if match else None
