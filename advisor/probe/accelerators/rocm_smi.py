"""The JSON of rocm-smi (``--json``) and amd-smi (``static``/``list --json``): fall-back where sysfs does not tell."""

from __future__ import annotations

import re
from typing import Any

from advisor.probe.accelerators._sighting import Reading, Sighting, normal_bdf, slot
from advisor.probe.accelerators._text import compact, counter, integer, loose_json, number, size_bytes, value
from advisor.probe.records import Finding

_UNIT = re.compile(r"\(([KMGT]?i?B)\)\s*:?$", re.IGNORECASE)


class Card:
    """One card's fields by name without case, punctuation or unit, since every release spells them its own way."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.units: dict[str, str] = {}
        self.fields: dict[str, Any] = {}
        for name, found in fields.items():
            unit = _UNIT.search(str(name).strip())
            bare = re.sub(r"\s*\([^)]*\)\s*:?$", "", str(name)) if unit else str(name)
            key = re.sub(r"[^a-z0-9]+", " ", bare.lower()).strip()
            self.fields.setdefault(key, found)
            if unit:
                self.units[key] = unit.group(1)

    def get(self, *names: str) -> str | None:
        """Return the first of these fields that says something."""
        return next((found for name in names if (found := value(self.fields.get(name))) is not None), None)

    def size(self, *names: str) -> int | None:
        """Return a size in bytes, by the unit in the field's name (bytes where it has none)."""
        return next((found for name in names if (found := size_bytes(self.fields.get(name), self.units.get(name, "b"))) is not None), None)


def parse_rocm_smi(text: str) -> Reading:
    """Read ``rocm-smi -a --json`` of any release; warnings around the JSON are left out."""
    found = loose_json(text)
    reading = Reading()
    if not isinstance(found, dict):
        return reading
    system = Card(found["system"]) if isinstance(found.get("system"), dict) else Card({})
    for name, fields in found.items():
        match = re.fullmatch(r"(?:card|gpu)\s*(\d+)", str(name).strip().lower())
        if match and isinstance(fields, dict):
            reading.sightings.append(_rocm_card(int(match.group(1)), Card(fields), system.get("driver version")))
    return reading


def _rocm_card(index: int, card: Card, driver: str | None) -> Sighting:
    found = Sighting(source="rocm-smi", target="rocm", vendor="amd", key=f"rocm-smi:{index}", driver=True, library=True)
    found.name = next((name for field in ("card series", "device name", "card model") if (name := _product(card.get(field)))), None)
    found.bus_id = normal_bdf(card.get("pci bus", "pci bus id", "bdf"))
    device = next((number_ for name in ("device id", "gpu id") if (number_ := _pci_number(card.get(name))) is not None), None)
    found.pci_id = f"1002:{device:04x}" if device is not None else None
    found.arch = _gfx(card.get("gfx version", "target graphics version"))
    found.memory_bytes = card.size("vram total memory", "vram total", "total vram memory")
    unique = _unique(card.get("unique id"))
    found.uuid = unique
    found.package = unique or (slot(found.bus_id) if found.bus_id else None)
    cap = number(card.get("max graphics package power w", "max graphics package power", "power cap w"))
    found.details = compact(
        {
            "rocm_smi_index": index,
            "driver_version": driver,
            "kfd_node": integer(card.get("node id")),
            "power": compact({"limit_w": cap if cap and counter(cap) is not None and cap < 1e5 else None}),
            "numa_node": numa if (numa := counter(card.get("topology numa node"))) is not None and 0 <= numa < 4096 else None,
            "sku": card.get("card sku"),
            "gtt_bytes": card.size("gtt total memory"),
            "compute_partition": card.get("compute partition"),
            "memory_partition": card.get("memory partition"),
        }
    )
    if found.memory_bytes is None:
        found.unknown["memory_bytes"] = "rocm-smi prints no VRAM total"
    return found


def _product(text: str | None) -> str | None:
    """A bare number is an id that the tool could not name."""
    return None if text is None or re.fullmatch(r"0x[0-9a-fA-F]+|\d+", text) else text


def _pci_number(text: str | None) -> int | None:
    found = integer(text)
    return found if found is not None and text is not None and text.lower().startswith("0x") and 0 < found < 65536 else None


def _unique(text: str | None) -> str | None:
    match = re.fullmatch(r"0x([0-9a-fA-F]{1,16})", text or "")
    return match.group(1).lower().zfill(16) if match and int(match.group(1), 16) else None


def _gfx(text: str | None) -> str | None:
    match = re.search(r"gfx[0-9a-f]{3,5}\b", (text or "").lower())
    return match.group() if match else None


def parse_amd_smi(text: str) -> Reading:
    """Read ``amd-smi static --json`` or ``list --json``: a list of GPUs, or an object with one; sentinels are "not supported"."""
    found = loose_json(text)
    if isinstance(found, dict):
        found = found.get("gpu_data") or found.get("gpus") or [found]
    reading = Reading()
    for place, item in enumerate(found if isinstance(found, list) else []):
        if isinstance(item, dict):
            reading.sightings.append(_amd_gpu(place, item))
    failed = [item for item in reading.sightings if not (item.bus_id or item.uuid or item.name)]
    if failed:
        reading.sightings = [item for item in reading.sightings if item not in failed]
        reading.findings.append(
            Finding(code="AMD_SMI_INCOMPLETE", severity="info", message=f"amd-smi lists {len(failed)} entries without identity")
        )
    return reading


def _amd_gpu(place: int, item: dict[str, Any]) -> Sighting:
    asic, bus, vram = (_table(item, name) for name in ("asic", "bus", "vram"))
    driver, partition, power = (_table(item, name) for name in ("driver", "partition", "limit"))
    found = Sighting(source="amd-smi", target="rocm", vendor="amd", driver=True, library=True)
    index = integer(item.get("gpu"))
    found.key = f"rocm-smi:{index if index is not None else place}"
    found.name = _product(value(asic.get("market_name")))
    found.bus_id = normal_bdf(value(bus.get("bdf")) or value(item.get("bdf")))
    device = _pci_number(value(asic.get("device_id")))
    found.pci_id = f"1002:{device:04x}" if device is not None else None
    found.arch = _gfx(value(asic.get("target_graphics_version")))
    units = counter(asic.get("num_compute_units"))
    found.compute_units = units if units and 0 < units < 0xFFFF else None
    size = vram.get("size")
    found.memory_bytes = size_bytes(size.get("value"), str(size.get("unit", "MB"))) if isinstance(size, dict) else size_bytes(size, "MB")
    found.uuid = _unique(value(asic.get("asic_serial")))
    found.package = found.uuid or (slot(found.bus_id) if found.bus_id else None)
    limit = power.get("max_power")
    watts = number(limit.get("value") if isinstance(limit, dict) else limit)
    found.details = compact(
        {
            "amd_smi_index": index,
            "driver_version": value(driver.get("version")),
            "power": compact({"max_w": watts if watts and counter(watts) is not None and watts < 1e5 else None}),
            "compute_partition": value(partition.get("compute_partition") or partition.get("accelerator_partition")),
            "memory_partition": value(partition.get("memory_partition")),
        }
    )
    if found.memory_bytes is None:
        found.unknown["memory_bytes"] = "amd-smi prints no VRAM size"
    return found


def _table(item: dict[str, Any], name: str) -> dict[str, Any]:
    found = item.get(name)
    return found if isinstance(found, dict) else {}
