"""Find the sheet of a probed device, or say that there is none and which is nearest. A wrong sheet is worse than none.

A name or a PCI id proposes a sheet; every fact that the probe and the sheet both know must then agree with it: the
architecture, the memory within what tools hold back, the compute units (a partition or a cut-down part has fewer).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from advisor.hardware import load
from advisor.hardware.names import lookup_keys, normalise
from advisor.hardware.records import HardwareProfile
from advisor.probe.records import Device
from advisor.units import GIB, format_bytes

#: Memory a device reports over memory of its sheet: ECC, firmware and frame buffers take up to 15 %; rounding adds a little.
_MEMORY_RATIO = (0.85, 1.05)
#: Least likeness of a sheet worth naming.
_ALIKE = 0.6
_CPU_NOISE = re.compile(r"\s*@.*$|\bcpu\b|\bprocessor\b|\b\d+-core\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Match:
    """A sheet for a device. ``confident`` is False where the sheet is right about the chip but not about this device as a whole."""

    profile: HardwareProfile
    confident: bool
    how: str


def match_device(device: Device) -> Match | None:
    """Return the sheet of a probed device: by PCI id, by the tool's exact name, else by architecture, memory and compute units."""
    if device.target.startswith("cpu"):
        return _match_cpu(device)
    if _is_slice(device):
        return _match_slice(device)
    for how, candidates in (("PCI id", _by_pci_id(device)), ("name", _by_name(device))):
        agreeing = [sheet for sheet in candidates if contradiction(sheet, device) is None]
        if len(agreeing) == 1:
            return Match(agreeing[0], True, f"{how} {device.pci_id if how == 'PCI id' else device.name!r}")
        if candidates and not agreeing:
            return None
    return _match_facts(device)


def nearest(device: Device) -> HardwareProfile | None:
    """Return the sheet most like a device that has none, for the message; None where nothing is alike."""
    same = [sheet for sheet in load.all_profiles().values() if sheet.target == device.target]
    proposed = [sheet for sheet in (*_by_name(device), *_by_pci_id(device)) if sheet.target == device.target]
    if proposed:
        return max(proposed, key=lambda sheet: _likeness(sheet, device))
    best = max(same, key=lambda sheet: _likeness(sheet, device), default=None)
    return best if best is not None and _likeness(best, device) >= _ALIKE else None


def reason_without(device: Device) -> str:
    """Return why a device has no sheet, in one clause: what contradicts the one proposed, and the nearest."""
    if not (device.name or device.arch or device.pci_id):
        return "unknown: the probe saw neither its name, nor its architecture, nor a PCI id"
    proposed = next(iter((*_by_pci_id(device), *_by_name(device))), None)
    why = contradiction(proposed, device) if proposed else None
    if proposed is not None and why is not None:
        return f"unknown, nearest {proposed.id}, but {why}"
    near = nearest(device)
    return f"unknown, nearest {near.id}" if near else "unknown, and no sheet is alike"


def contradiction(sheet: HardwareProfile, device: Device) -> str | None:
    """Return what the probe saw that the sheet denies, or None. What either does not know contradicts nothing."""
    if device.target not in (sheet.target, "other") and sheet.target != "other":
        return f"the device is a {device.target} target, not {sheet.target}"
    if sheet.arch and device.arch and not _same_arch(sheet.arch, device.arch):
        return f"its architecture is {device.arch}, not {sheet.arch}"
    if sheet.memory_gib and device.memory_bytes and sheet.memory_kind == "dedicated":
        ratio = device.memory_bytes / (sheet.memory_gib * GIB)
        if not _MEMORY_RATIO[0] <= ratio <= _MEMORY_RATIO[1]:
            return f"its memory is {format_bytes(device.memory_bytes)}, not {sheet.memory_gib:g} GiB"
    if sheet.compute_units and device.compute_units and abs(device.compute_units / sheet.compute_units - 1) > 0.02:
        return f"it has {device.compute_units} compute units, not {sheet.compute_units}"
    return None


def _same_arch(a: str, b: str) -> bool:
    """Compare ``sm_80`` with ``8.0``, ``gfx90a`` with ``gfx90a:sramecc+:xnack-``, ``910B`` with ``Ascend910B2``."""
    plain = [re.sub(r"^(?:ascend|tpu|cc)[-_ ]?", "", text.lower().partition(":")[0]) for text in (a, b)]
    plain = [f"sm_{text.replace('.', '')}" if re.fullmatch(r"\d+\.\d", text) else text for text in plain]
    return plain[0] == plain[1] or plain[0].startswith(plain[1]) or plain[1].startswith(plain[0])


def _by_pci_id(device: Device) -> list[HardwareProfile]:
    if not device.pci_id:
        return []
    subsystem = str(device.details.get("subsystem_device") or device.details.get("subsystem_id") or "").lower().removeprefix("0x")
    plain = device.pci_id.lower()
    exact = [sheet for sheet in load.all_profiles().values() if subsystem and f"{plain}:{subsystem[-4:]}" in sheet.pci_ids]
    return exact or [sheet for sheet in load.all_profiles().values() if plain in sheet.pci_ids]


def _by_name(device: Device) -> list[HardwareProfile]:
    known = load.catalog()
    for key in lookup_keys(device.name or ""):
        if key in known.tool_names:
            return [known.devices[identity] for identity in known.tool_names[key]]
    return []


def _match_facts(device: Device) -> Match | None:
    """Match a device without a name by memory and compute units, and architecture or vendor: if one sheet alone agrees."""
    if device.name or not device.memory_bytes or not device.compute_units or not (device.arch or device.vendor):
        # A device that says its name and is not in any sheet is another product, however alike.
        return None
    alike = [
        sheet
        for sheet in load.all_profiles().values()
        if sheet.target == device.target
        and sheet.memory_gib
        and sheet.compute_units
        and (device.arch is None or sheet.arch)
        and (device.vendor is None or sheet.vendor == device.vendor.lower())
        and contradiction(sheet, device) is None
    ]
    return Match(alike[0], True, f"{device.arch or device.vendor}, memory and compute units") if len(alike) == 1 else None


def _is_slice(device: Device) -> bool:
    return bool(device.details.get("mig_slice")) or bool(re.search(r"\bMIG\b", device.name or ""))


def _match_slice(device: Device) -> Match | None:
    parent = re.split(r"\s*\bMIG\b", device.name or "")[0]
    known = load.catalog()
    sheets: Iterable[HardwareProfile] = _by_pci_id(device) or [
        known.devices[identity] for key in lookup_keys(parent) for identity in known.tool_names.get(key, ())
    ]
    for sheet in sheets:
        if device.arch is None or sheet.arch is None or _same_arch(sheet.arch, device.arch):
            return Match(sheet, False, f"a slice of {sheet.id}: its peaks, memory and bandwidth are a part of the sheet's")
    return None


def _match_cpu(device: Device) -> Match | None:
    wanted = _cpu_name(device.name or "")
    if not wanted:
        return None
    for sheet in load.all_profiles().values():
        if sheet.target == device.target and wanted in {_cpu_name(name) for name in (sheet.name, *sheet.aliases)}:
            return Match(sheet, True, f"name {device.name!r}")
    return None


def _cpu_name(name: str) -> str:
    keys = list(lookup_keys(_CPU_NOISE.sub(" ", re.sub(r"\((?:r|tm)\)", " ", name, flags=re.IGNORECASE))))
    return keys[-1]


def _likeness(sheet: HardwareProfile, device: Device) -> float:
    """Return 0 to 2.5: how alike the names are, 1 for the same architecture, up to 0.5 for the memory."""
    name = normalise(device.name or "")
    names = (sheet.id, *(normalise(text) for text in (sheet.name, *sheet.aliases)))
    score = max(difflib.SequenceMatcher(None, name, text).ratio() for text in names) if name else 0.0
    if sheet.arch and device.arch and _same_arch(sheet.arch, device.arch):
        score += 1.0
        if sheet.memory_gib and device.memory_bytes:
            ratio = device.memory_bytes / (sheet.memory_gib * GIB)
            score += 0.5 * min(ratio, 1 / ratio)
    return score
