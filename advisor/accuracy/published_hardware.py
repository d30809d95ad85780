"""Which data sheet a published row means: its printed hardware name, else the class it was filed under."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from advisor.hardware import load
from advisor.hardware.records import HardwareProfile

#: The usual member of a class of hardware that a source does not name further.
_BY_CLASS: Mapping[str, str] = {
    "A100-80": "a100-sxm4-80gb",
    "A100-40": "a100-sxm4-40gb",
    "A100-unspecified": "a100-sxm4-80gb",
    "H100-80": "h100-sxm5-80gb",
    "H100-PCIe": "h100-pcie-80gb",
    "H200": "h200-sxm5-141gb",
    "B200": "b200-sxm",
    "B300": "b300-sxm",
    "GB200": "gb200",
    "GH200": "gh200-96gb",
    "L40S": "l40s",
    "MI250X": "mi250x",
    "MI300X": "mi300x",
    "MI355X": "mi355x",
    "PVC": "max-1550",
    "Gaudi2": "gaudi2",
    "Gaudi3": "gaudi3",
    "V100-16": "v100-sxm2-16gb",
    "V100-32": "v100-sxm2-32gb",
    "V100-unspecified": "v100-sxm2-32gb",
    "T4": "t4",
    "A10": "a10",
    "Trainium": "trainium1",
}
_BY_WORDS: tuple[tuple[str, str], ...] = (
    ("rtx 6000 pro blackwell", "rtx-pro-6000-blackwell"),
    ("a100 pcie", "a100-pcie-80gb"),
    ("a100 40gb pcie", "a100-pcie-40gb"),
)


@lru_cache(maxsize=512)
def _resolve(hardware: str, hw_class: str) -> HardwareProfile | None:
    printed = hardware.lower()
    if printed.startswith(("not stated", "unspecified")):
        return None
    for words, name in _BY_WORDS:
        if words in printed:
            return load.find_profile(name)
    plain = re.sub(r"\s*\(.*?\)|,.*$", "", hardware).strip()
    found = load.find_profile(hardware) or load.find_profile(plain)
    if found is not None:
        return found
    name_of_class = _BY_CLASS.get(hw_class)
    return load.find_profile(name_of_class) if name_of_class else None


def profile_of(row: Mapping[str, str]) -> HardwareProfile | None:
    """Return the data sheet of a row's device, None where the source does not name one that is known."""
    return _resolve(row.get("hardware", ""), row.get("hw_class", ""))
