"""A device's roofline: the peaks of its sheet, and what was really reached at each arithmetic intensity."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from advisor.results.frame import Frame
from advisor.results.groups import number_of
from advisor.results.schema import Device
from advisor.units import DTYPE_BITS, TERA

if TYPE_CHECKING:
    from advisor.hardware.records import HardwareProfile

#: Columns of a frame that a roofline is drawn from.
ROOFLINE_COLUMNS = ("ids", "readings", "devices", "whats", "cases")
#: Bins of arithmetic intensity a decade: the best of each is shown.
BINS = 8
_SHAPE = re.compile(r"\b([mnk])\s*=\s*(\d{1,9})\b")
_VECTOR_PEAKS = ("fp64_vector", "fp32_vector")


def roofline(frame: Frame, device_ids: Sequence[str], sheet: HardwareProfile | None) -> dict[str, Any]:
    """Return ``roofs`` (dense peaks per dtype), ``bandwidths`` (of the sheet, and measured) and ``points`` (best GEMM per intensity).

    ``frame`` has ``ROOFLINE_COLUMNS``. Intensity is FLOP per byte of a GEMM that reads both operands and writes the result once:
    2mnk / (b (mk + kn + mn)) (Williams, Waterman and Patterson 2009, Roofline).
    """
    rows, number = _fastest(frame, device_ids)
    points = _best(point for row in rows if row.benchmark == "gemm" and (point := _point(row)) is not None)
    return {
        "roofs": _roofs(sheet, {point["dtype"] for point in points}),
        "bandwidths": _bandwidths(rows, sheet),
        "points": points,
        "rows": number,
    }


@dataclass(frozen=True, slots=True)
class _Row:
    """The fastest measurement of one backend doing one thing."""

    id: str
    benchmark: str
    backend: str
    dtype: str
    metric: str
    params: dict[str, Any]
    value: float


def _fastest(frame: Frame, device_ids: Sequence[str]) -> tuple[list[_Row], int]:
    """Return the fastest GEMM and bandwidth measurements of the devices by what was measured, and how many there are in all."""
    wanted = set(device_ids)
    on, own = frame.table("devices", lambda device: device.id in wanted, frame.devices())
    kind, right = frame.table("whats", lambda what: what["status"] == "ok" and what["benchmark"] in ("gemm", "bandwidth"), frame.whats)
    frame = frame.where(np.array([*own, False])[on] & np.array([*right, False])[kind] & (frame["readings"] > 0))
    is_time, times = frame.table("whats", lambda what: what["metric"] == "seconds", frame.whats)
    speed = np.where(np.array([*times, False])[is_time], -frame["readings"], frame["readings"])
    if not len(frame):
        return [], 0
    work = number_of(frame["whats"], frame["cases"])
    fastest = np.full(int(work.max()) + 1, -np.inf)
    np.maximum.at(fastest, work, speed)
    first = np.zeros(len(fastest), dtype=np.int64)
    reached = np.flatnonzero(speed == fastest[work])[::-1]
    first[work[reached]] = reached
    chosen = first.tolist()
    cases = frame.cases(sorted({int(frame["cases"][index]) for index in chosen}))
    rows = []
    for index in chosen:
        what = frame.whats[int(frame["whats"][index])]
        facts = {name: what[name] for name in ("benchmark", "backend", "dtype", "metric")}
        params = cases[int(frame["cases"][index])]
        rows.append(_Row(id=frame.id_of(index), params=params, value=float(frame["readings"][index]), **facts))
    return rows, len(frame)


def _point(row: _Row) -> dict[str, Any] | None:
    """Return where a GEMM lies, or None where its sizes or its element are not known."""
    sizes = {name: row.params.get(name) for name in ("m", "n", "k")}
    if any(not isinstance(size, int) or size < 1 for size in sizes.values()):
        sizes = {name: int(size) for name, size in _SHAPE.findall(str(row.params.get("shape", ""))) if int(size) > 0}
    bits = DTYPE_BITS.get(row.dtype)
    if len(sizes) != 3 or bits is None:
        return None
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    work = 2.0 * m * n * k
    rate = row.value if row.metric == "flops_per_s" else work / row.value if row.metric == "seconds" else None
    if rate is None:
        return None
    intensity = work / ((m * k + k * n + m * n) * bits / 8)
    label = f"{m}×{n}×{k}, {row.backend}"
    return {"id": row.id, "dtype": row.dtype, "label": label, "intensity": intensity, "flops_per_s": rate}


def _best(points: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for point in points:
        key = (point["dtype"], round(BINS * math.log10(point["intensity"])))
        if key not in best or point["flops_per_s"] > best[key]["flops_per_s"]:
            best[key] = point
    return sorted(best.values(), key=lambda point: (point["dtype"], point["intensity"]))


def _roofs(sheet: HardwareProfile | None, measured: set[str]) -> list[dict[str, Any]]:
    """Return the peaks of the measured dtypes; where nothing was measured, those of the dtypes that training and serving use."""
    peaks = {} if sheet is None else {name: value for name, value in sheet.dense_tflops.items() if name not in _VECTOR_PEAKS}
    chosen = measured & set(peaks) or {"fp32", "tf32", "bf16", "fp16", "int8", "fp8"} & set(peaks)
    return [{"dtype": name, "flops_per_s": peaks[name] * TERA} for name in peaks if name in chosen]


def _bandwidths(rows: Sequence[Any], sheet: HardwareProfile | None) -> list[dict[str, Any]]:
    found = []
    if sheet is not None and sheet.memory_gb_per_s:
        found.append({"kind": "sheet", "bytes_per_s": sheet.memory_gb_per_s * 1e9, "id": None})
    of_memory = [r for r in rows if r.benchmark == "bandwidth" and r.metric == "bytes_per_s" and r.params.get("level") == "memory"]
    if of_memory:
        best = max(of_memory, key=lambda row: row.value)
        found.append({"kind": "measured", "bytes_per_s": best.value, "id": best.id})
    return found


def device_ids(connection: Connection, profile: str) -> list[str]:
    """Return the devices of the database that are of a sheet: probed ones by their match, published ones by their printed name."""
    rows = connection.execute(sa.select(Device.id, Device.machine_id, Device.name, Device.profile, Device.hw_class)).all()
    return [row.id for row in rows if product(row) == profile]


def product(device: Any) -> str | None:
    """Return the sheet of a device of the database, probed or printed, or None: what is one product is one class."""
    name: str | None = device.profile or (None if device.machine_id else printed_profile(device.name, device.hw_class))
    return name


@lru_cache(maxsize=4096)
def printed_profile(name: str | None, hw_class: str | None) -> str | None:
    """Return the sheet that a published row means, or None."""
    from advisor.accuracy.published_hardware import profile_of

    found = profile_of({"hardware": name or "", "hw_class": hw_class or ""})
    return None if found is None else found.id
