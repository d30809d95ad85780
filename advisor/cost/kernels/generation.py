"""The generation of a device: devices of one generation share their calibrated kernel parameters."""

from __future__ import annotations

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


def generation_of(sheet: HardwareProfile) -> str:
    """Return the name under which calibrated parameters of the device's relatives are kept (``hopper``, ``cdna3``, ``tpu`` …)."""
    arch = (sheet.arch or "").lower().removesuffix("a") if (sheet.arch or "").lower().startswith("sm_") else (sheet.arch or "").lower()
    if arch in _BY_ARCH:
        return _BY_ARCH[arch]
    if sheet.target in ("tpu", "gaudi", "neuron", "npu", "xpu", "ipu", "mps"):
        return sheet.target
    return sheet.target if sheet.target.startswith("cpu") else "any"


def fitted(calibration: Calibration, name: str) -> float | None:
    """Return the calibrated kernel parameter ``name``, None where nothing was fitted under that name."""
    entry = calibration.section("kernels").get("parameters", {}).get(name)
    return None if entry is None else float(entry["value"])


def shared(calibration: Calibration, name: str, generation: str, prior: float) -> float:
    """Return ``name.generation`` where it was fitted, else the mean over generations ``name.any``, else ``prior``."""
    for key in (f"{name}.{generation}", f"{name}.any"):
        value = fitted(calibration, key)
        if value is not None:
            return value
    return prior
