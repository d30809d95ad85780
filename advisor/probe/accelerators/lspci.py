"""The text of ``lspci -nn`` (also ``-nnk``, ``-vvv``, ``-D``): a PCI tree where sysfs was not recorded."""

from __future__ import annotations

import re

from advisor.probe.accelerators._sighting import normal_bdf
from advisor.probe.accelerators.pci import ACCELERATOR, DISPLAY, PciDevice

_HEAD = re.compile(r"^((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s+(.*)$")
_IDS = re.compile(r"\[([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\]")
_CLASS = re.compile(r"\[([0-9a-fA-F]{4})\]:")
_WIDTH = re.compile(r"Width x(\d+)")
_SPEED = re.compile(r"Speed ([\d.]+)GT/s")


def parse_lspci(text: str) -> tuple[PciDevice, ...]:
    """Return the devices whose numeric ids are printed and that are accelerators or display controllers.

    Lines without ``[vendor:device]`` (``lspci`` without ``-nn``) name products only and tell no identity; they are left out.
    The driver is known where ``-k`` or ``-v`` printed the details of a device.
    """
    found: dict[str, PciDevice] = {}
    for block in _blocks(text):
        device = _device(block)
        if device is not None and (device.identity is not None or device.base_class in (DISPLAY, ACCELERATOR)):
            found.setdefault(device.bus_id, device)  # one address, one device, however often it is printed
    return tuple(found.values())


def _blocks(text: str) -> list[list[str]]:
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if _HEAD.match(line):
            blocks.append([line])
        elif blocks and line[:1] in ("\t", " ") and line.strip():
            blocks[-1].append(line.strip())
    return blocks


def _device(block: list[str]) -> PciDevice | None:
    head = _HEAD.match(block[0])
    ids = _IDS.findall(block[0])
    if head is None or not ids:
        return None
    vendor, device = (int(part, 16) for part in ids[-1])
    kind = _CLASS.search(block[0])
    facts = {key.strip(): rest.strip() for key, sep, rest in (line.partition(":") for line in block[1:]) if sep}
    driver = facts.get("Kernel driver in use")
    revision = re.search(r"\(rev ([0-9a-fA-F]{2})\)", block[0])
    numa = facts.get("NUMA node", "")
    node = re.match(r"\d+", numa)
    named = _IDS.sub("", block[0].split("]:", 1)[-1]).strip()
    return PciDevice(
        bus_id=normal_bdf(head.group(1)),
        vendor=vendor,
        device=device,
        class_code=int(kind.group(1), 16) << 8 if kind else None,
        driver=driver or None,
        driver_known=len(block) > 1,
        revision=int(revision.group(1), 16) if revision else None,
        numa_node=int(node.group()) if node else None,
        speed_gts=_first(_SPEED, facts.get("LnkSta")),
        speed_max_gts=_first(_SPEED, facts.get("LnkCap")),
        width=_lanes(facts.get("LnkSta")),
        width_max=_lanes(facts.get("LnkCap")),
        source="lspci",
        name=re.sub(r"\s*\(rev [0-9a-fA-F]{2}\).*$", "", named).strip() or None,
    )


def _first(pattern: re.Pattern[str], text: str | None) -> float | None:
    match = pattern.search(text or "")
    try:
        return float(match.group(1)) if match else None
    except ValueError:
        return None


def _lanes(text: str | None) -> int | None:
    lanes = _first(_WIDTH, text)
    return int(lanes) if lanes is not None and 0 < lanes < 64 else None
