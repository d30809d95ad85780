"""The generation of a device, and the calibrated kernel parameters its members share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.cost.calibration import Calibration
from advisor.hardware.records import HardwareProfile

_BY_ARCH = {
    "sm_60": "pascal",
    "sm_61": "pascal",
    "sm_70": "volta",
    "sm_75": "turing",
    "sm_80": "ampere",
    "sm_86": "ampere-consumer",
    "sm_89": "ada",
    "sm_90": "hopper",
    "sm_100": "blackwell",
    "sm_103": "blackwell",
    "sm_120": "blackwell-consumer",
    "gfx906": "cdna1",
    "gfx908": "cdna1",
    "gfx90a": "cdna2",
    "gfx942": "cdna3",
    "gfx950": "cdna4",
}

#: A generation without measurements of its own takes the parameters of its nearest relative before the mean over all.
RELATIVES: Mapping[str, tuple[str, ...]] = {
    "volta": ("ampere",),
    "turing": ("ada", "ampere"),
    "ampere-consumer": ("ada", "ampere"),
    "blackwell-consumer": ("ada", "blackwell"),
    "cdna2": ("cdna3",),
    "cdna4": ("cdna3",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParameter:
    """One parameter of a kernel formula: its prior, physical bounds, unit and meaning."""

    name: str
    prior: float
    low: float
    high: float
    unit: str
    meaning: str


def declare(name: str, prior: float, low: float, high: float, unit: str, meaning: str) -> KernelParameter:
    """Return a KernelParameter; a short spelling for the tables of the kernel modules."""
    return KernelParameter(name=name, prior=prior, low=low, high=high, unit=unit, meaning=meaning)


def generation_of(sheet: HardwareProfile) -> str:
    """Return the name under which parameters of the device's relatives are kept (``hopper``, ``cdna3``, ``tpu`` …)."""
    arch = (sheet.arch or "").lower()
    arch = arch.removesuffix("a") if arch.startswith("sm_") else arch
    if arch in _BY_ARCH:
        return _BY_ARCH[arch]
    return sheet.target if sheet.target != "other" else "any"


def fitted(calibration: Calibration, name: str) -> float | None:
    """Return the calibrated kernel parameter ``name``, None where nothing was fitted under that name."""
    entry = calibration.section("kernels").get("parameters", {}).get(name)
    return None if entry is None else float(entry["value"])


def shared(calibration: Calibration, name: str, generation: str, prior: float) -> float:
    """Return ``name.<generation>`` where it was fitted, else that of a relative, else the mean ``name.any``, else ``prior``."""
    for key in (generation, *RELATIVES.get(generation, ()), "any"):
        value = fitted(calibration, f"{name}.{key}")
        if value is not None:
            return value
    return prior
