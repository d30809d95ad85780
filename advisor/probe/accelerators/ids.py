"""The table of accelerators by PCI id (``pci_ids.csv``): what a pair of numbers is, with the source of each row."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Identity:
    """What a PCI id tells: the target, whether it is a ``gpu``, an ``apu`` (part of the processor), an ``npu``, a ``bridge`` …

    ``arch`` is None where devices of one id differ. Memory, peaks and the like are never derived from it.
    """

    target: str
    kind: str
    arch: str | None
    name: str
    vendor: str


@cache
def _rows() -> tuple[dict[tuple[int, int], Identity], dict[int, list[tuple[int, int, Identity]]]]:
    exact: dict[tuple[int, int], Identity] = {}
    ranges: dict[int, list[tuple[int, int, Identity]]] = {}
    text = files("advisor.probe.accelerators").joinpath("pci_ids.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        vendor, first, last = (int(row[name], 16) for name in ("vendor_id", "device_first", "device_last"))
        found = Identity(row["target"], row["kind"], row["arch"] or None, row["name"], row["vendor"])
        if first == last:
            exact[(vendor, first)] = found
        else:
            ranges.setdefault(vendor, []).append((first, last, found))
    return exact, ranges


def identify(vendor: int | None, device: int | None) -> Identity | None:
    """Return what the table says about a PCI id: an exact row before a range, or None."""
    if vendor is None or device is None:
        return None
    exact, ranges = _rows()
    found = exact.get((vendor, device))
    if found is not None:
        return found
    return next((item for first, last, item in ranges.get(vendor, ()) if first <= device <= last), None)


def identify_text(pci_id: str | None) -> Identity | None:
    """Return what the table says about an id written ``10de:2330``, or None."""
    if not pci_id or ":" not in pci_id:
        return None
    vendor, _, device = pci_id.partition(":")
    try:
        return identify(int(vendor, 16), int(device, 16))
    except ValueError:
        return None
