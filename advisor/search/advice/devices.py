"""What a device's name counts: graphics dies, chips or cores, slices of a card."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.search.advice._case import Case
from advisor.search.records import Reason

_CORES = re.compile(r"(?:tpu-?)?(v2|v3|v4|v5p)-(\d+)", re.IGNORECASE)


def device_advice(case: Case) -> Iterator[Reason]:
    """Yield how the devices were counted, where names mislead."""
    p = case.platform
    sheet = p.profile
    if sheet.logical_devices_per_package > 1:
        packages = p.devices / sheet.logical_devices_per_package
        bf16 = sheet.dense_tflops.get("bf16") or sheet.dense_tflops.get("fp16")
        text = f"{p.devices} devices as the system shows them are {packages:g} packages of {sheet.logical_devices_per_package}"
        if bf16:
            text += (
                f"; peaks and memory are of one device ({bf16:g} TFLOP/s dense 16-bit, {sheet.memory_gib:g} GiB), half of "
                f"what the data sheet prints"
            )
        yield Reason(code="LOGICAL-DEVICES", text=text, value=float(p.devices))
    match = _CORES.fullmatch(p.name.strip())
    if match is not None:
        text = f"{p.name} counts TensorCores: {match[2]} of them are {p.devices} chips (v5e and v6e names count chips)"
        yield Reason(code="CHIPS", text=text, value=float(p.devices))
    if "slice" in (sheet.notes or "").lower() and sheet.notes and sheet.notes.startswith("A slice of"):
        text = (
            f"a slice of a card: its own memory ({sheet.memory_gib:.1f} GiB), not the card's, is what counts"
            if sheet.memory_gib
            else sheet.notes
        )
        yield Reason(code="SLICE", text=text, value=sheet.memory_gib)
