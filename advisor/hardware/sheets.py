"""Read one YAML sheet: size-limited, strictly typed, every error naming the file and the key."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from advisor.errors import UsageError
from advisor.hardware.records import HardwareProfile, System
from advisor.yamlio import parse_yaml, read_text

MAX_SHEET_BYTES = 64 << 10
MAX_SHEETS = 5000

_ID = re.compile(r"^[a-z0-9][a-z0-9.-]*$")
_PCI = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{4}(?::[0-9a-f]{4})?$")
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<key>[^`]*)`)?$", re.DOTALL)
#: Keys of ``dense_tflops``; the ``_vector`` ones are the rates of the vector units where those of matrix units differ.
PEAKS = frozenset({"fp64", "fp64_vector", "fp32", "fp32_vector", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"})


def sheet_files(folder: Path) -> list[Path]:
    """Return the sheets below ``folder`` (``devices/`` and ``systems/``), sorted; UsageError for an absurd number of files."""
    found: list[str] = []
    for part in ("devices", "systems"):
        for base, folders, names in os.walk(folder / part):
            folders.sort()
            found += [os.path.join(base, name) for name in sorted(names) if name.endswith((".yaml", ".yml"))]
            if len(found) > MAX_SHEETS:
                raise UsageError(f"{folder} holds more than {MAX_SHEETS} sheets", code="TOO-LARGE")
    return [Path(name) for name in found]


def read_sheet(path: Path) -> HardwareProfile | System:
    """Return the sheet in ``path``: a System below ``systems/``, else a HardwareProfile; UsageError naming file and key."""
    document = parse_yaml(read_text(path, MAX_SHEET_BYTES), str(path))
    kind: type[HardwareProfile] | type[System] = System if "systems" in path.parts[-3:-1] else HardwareProfile
    try:
        sheet = msgspec.convert(document, kind, strict=True)
    except msgspec.ValidationError as error:
        match = _WHERE.match(str(error))
        key = (match["key"] or "$").removeprefix("$").lstrip(".") if match else ""
        raise _bad(path, key or "the sheet", match["what"] if match else str(error)) from error
    _check_values(path, msgspec.to_builtins(sheet))
    if isinstance(sheet, HardwareProfile):
        _check_device(path, sheet)
    elif not _ID.match(sheet.device):
        raise _bad(path, "device", "must be the id of a device sheet")
    return sheet


def _bad(path: Path, key: str, what: str) -> UsageError:
    return UsageError(f"{path}: {key}: {what}", code="BAD-SHEET")


def _check_values(path: Path, document: dict[str, Any], above: str = "") -> None:
    """Refuse what no sheet may say: a number that is not finite and positive, an empty name, an id that is not lower case."""
    for key, value in document.items():
        where = f"{above}{key}"
        if isinstance(value, dict):
            _check_values(path, value, f"{where}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and not (math.isfinite(value) and value > 0):
            raise _bad(path, where, f"must be a positive number, not {value} (leave out what is not known)")
        elif key == "id" and not above and not _ID.match(value):
            raise _bad(path, where, f"{value!r} must be lower-case letters, digits, dots and hyphens")
        elif isinstance(value, list | tuple) and any(isinstance(item, str) and not item.strip() for item in value):
            raise _bad(path, where, "holds an empty name")


def _check_device(path: Path, sheet: HardwareProfile) -> None:
    for dtype in sheet.dense_tflops:
        if dtype not in PEAKS:
            raise _bad(path, f"dense_tflops.{dtype}", f"unknown dtype; one of {', '.join(sorted(PEAKS))}")
    for identity in sheet.pci_ids:
        if not _PCI.match(identity):
            raise _bad(path, "pci_ids", f"{identity!r} is not vendor:device or vendor:device:subsystem in lower-case hexadecimal")
