"""Published kernel measurements as questions to the kernel curves: what was run, on what, and how long it took."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from advisor.accuracy.published_hardware import profile_of
from advisor.errors import AdvisorError
from advisor.hardware.platform import NetworkTier
from advisor.hardware.records import HardwareProfile
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for

KINDS: Final = ("gemm", "attention", "collective", "memory_bandwidth", "link_bandwidth")
_DTYPES: Final[Mapping[str, str]] = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "fp16": "fp16",
    "half": "fp16",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "fp4",
    "int8": "int8",
}
_OPERATIONS: Final = (
    (("all_reduce", "allreduce", "all-reduce"), "all_reduce"),
    (("all_gather", "all-gather"), "all_gather"),
    (("reduce_scatter", "reduce-scatter"), "reduce_scatter"),
    (("alltoall", "all2all"), "all_to_all"),
)
#: "Large payload" tables print a bandwidth without its size: that of ml-engineering's bandwidth script.
_LARGE_BYTES: Final = 4.0 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelQuery:
    """One measurement: ``sizes`` by name (m, n, k; batch, heads …; bytes, group), ``measured_s`` in seconds."""

    id: str
    group: str
    hardware: str
    kind: str
    sheet: HardwareProfile
    dtype: str
    sizes: Mapping[str, float]
    measured_s: float
    op: str = ""
    tiers: tuple[NetworkTier, ...] = field(default=())
    switch: bool | None = None
    """Whether the switch reduced, where the source says so."""
    issued: bool = False
    """A collective launched alone from the host, not inside a captured graph as in the kernel database."""


class UndescribedError(AdvisorError):
    """A row that does not say what was run; the message is the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__("ROW", reason)


def query_of(row: Mapping[str, str]) -> KernelQuery:
    """Return the question a row answers; UndescribedError with the reason where its columns do not say."""
    kind = row["kind"]
    if kind not in KINDS:
        raise UndescribedError(f"{kind} rows are no kernel")
    sheet = profile_of(row)
    if sheet is None:
        raise UndescribedError("the device is not named")
    read = {"gemm": _gemm, "attention": _attention, "collective": _collective}.get(kind, _bandwidth)
    return read(row, sheet)


def _numbers(text: str) -> dict[str, float]:
    return {name.lower(): float(value) for name, value in re.findall(r"([A-Za-z_]+)\s*=\s*(\d+(?:\.\d+)?)", text)}


def _time_s(row: Mapping[str, str], work: float | None = None) -> float:
    if row["time_ms"]:
        return float(row["time_ms"]) * 1e-3
    if work is not None and row["tflops"]:
        return work / (float(row["tflops"]) * 1e12)
    raise UndescribedError("no time is given")


def _make(
    row: Mapping[str, str], sheet: HardwareProfile, dtype: str, sizes: Mapping[str, float], measured: float, **more: object
) -> KernelQuery:
    if not measured > 0:
        raise UndescribedError("no time is given")
    hardware = row["hw_class"] or row["hardware"]
    return KernelQuery(
        id=row["id"],
        group=row["group"],
        hardware=hardware,
        kind=row["kind"],
        sheet=sheet,
        dtype=dtype,
        sizes=sizes,
        measured_s=measured,
        **more,  # type: ignore[arg-type]
    )


def _gemm(row: Mapping[str, str], sheet: HardwareProfile) -> KernelQuery:
    sizes = _numbers(row["shape"])
    joined = re.match(r"MxNxK=(\d+)x(\d+)x(\d+)", row["shape"])
    if joined:
        sizes = dict(zip("mnk", map(float, joined.groups()), strict=True))
    if not {"m", "n", "k"} <= sizes.keys():
        raise UndescribedError("the shape of the product is not given")
    dtype = _DTYPES.get(row["dtype"].split(" ")[0])
    if dtype == "fp8" and not joined and "Lt" not in row["dtype"]:
        dtype = "fp8_rows"  # The kernel database measured the open row-scaled kernels, the others the vendor's library.
    if joined:
        dtype = _searched_dtype(row, sheet)
    if dtype is None:
        raise UndescribedError(f"dtype {row['dtype']!r} is not known")
    mnk = {name: sizes[name] for name in "mnk"}
    return _make(row, sheet, dtype, mnk, _time_s(row, 2.0 * sizes["m"] * sizes["n"] * sizes["k"]))


def _searched_dtype(row: Mapping[str, str], sheet: HardwareProfile) -> str:
    """Return the dtype of a best-of-search row: the table files all under one; the peak each was divided by tells it.

    Without that peak, a rate above the 16-bit one must be fp8.
    """
    wide = sheet.dense_tflops.get("bf16", sheet.dense_tflops.get("fp16", 0.0))
    stated = re.search(r"theory (\d+(?:\.\d+)?)", row.get("notes", ""))
    if stated is None:
        return "fp8" if float(row["tflops"]) > wide else "bf16"
    return "fp8" if float(stated[1]) > 1.5 * wide else "bf16"


def _attention(row: Mapping[str, str], sheet: HardwareProfile) -> KernelQuery:
    sizes = _numbers(row["shape"])
    if "b" not in sizes or "heads" not in sizes:
        raise UndescribedError("the heads of the attention are not given")
    prefill = "prefill" in row["op"]
    new = sizes.get("s", 1.0) if prefill else 1.0
    keys = new + sizes.get("prefix", 0.0) if prefill else sizes["kv_len_step"] + 1.0
    shape = {
        "batch": sizes["b"],
        "heads": sizes["heads"],
        "kv_heads": sizes["kv_heads"] or sizes["heads"],
        "query": new,
        "keys": keys,
        "head_dim": sizes["head_dim"],
    }
    return _make(row, sheet, _DTYPES.get(row["dtype"], "bf16"), shape, _time_s(row))


def _layout(row: Mapping[str, str], devices: int) -> tuple[int, int]:
    """Return nodes and devices of a node that took part; nodes of eight where the row does not say."""
    both = re.search(r"(\d+) devices per node \((\d+) node", row.get("notes", ""))
    if both:
        return int(both[2]), int(both[1])
    nodes = re.match(r"(\d+) node\(s\)", row.get("notes", ""))
    count = int(nodes[1]) if nodes else -(-devices // 8)
    return count, max(devices // count, 1)


def _tiers(row: Mapping[str, str], sheet: HardwareProfile, devices: int) -> tuple[NetworkTier, ...]:
    if "pairwise" in row["hardware"].lower():
        # A server of PCIe cards whose NVLink bridges join two each.
        link = sheet.link.gb_per_s_per_direction if sheet.link else None
        bridge = NetworkTier(name="bridge", kind="nvlink-pair", group=2, bandwidth_bytes_per_s=(link or 300.0) * 1e9, latency_s=1.9e-6)
        host = NetworkTier(name="pcie", kind="pcie", group=8, bandwidth_bytes_per_s=31.5e9, latency_s=2.5e-6)
        return (bridge, host)
    nodes, each = _layout(row, devices)
    spec = f"{nodes}x{each}x{sheet.id}" if nodes > 1 else f"{max(devices, 2)}x{sheet.id}"
    tiers = platform_for(parse_spec(spec)).tiers
    if nodes > 1 and "AWS" in row["hardware"]:  # Its nodes are joined by Elastic Fabric Adapters of the same rate.
        return (*tiers[:-1], replace(tiers[-1], kind="efa"))
    return tiers


def _collective(row: Mapping[str, str], sheet: HardwareProfile) -> KernelQuery:
    text = row["op"].lower()
    op = next((name for words, name in _OPERATIONS if any(word in text for word in words)), None)
    if op is None or not row["n_devices"]:
        raise UndescribedError("the operation or its devices are not given")
    group = int(row["n_devices"])
    size = float(row["size_bytes"]) if row["size_bytes"] else _LARGE_BYTES
    if row["time_ms"]:
        measured = float(row["time_ms"]) * 1e-3
    elif row["gb_per_s"] and float(row["gb_per_s"]) > 0:
        measured = (2.0 if op == "all_reduce" else 1.0) * (group - 1) / group * size / (float(row["gb_per_s"]) * 1e9)
    else:
        raise UndescribedError("no time is given")
    notes = f"{text} {row['hardware'].lower()} {row.get('notes', '').lower()}"
    ring = "ring" in text or "nvls_enable=0" in notes or ", ring" in notes
    switch = False if ring else (True if "nvls" in notes or "sharp" in notes else None)
    try:
        tiers = _tiers(row, sheet, group)
    except AdvisorError as error:
        raise UndescribedError(error.message) from error
    return _make(
        row,
        sheet,
        _DTYPES.get(row["dtype"], "bf16"),
        {"bytes": size, "group": float(group)},
        measured,
        op=op,
        tiers=tiers,
        switch=switch,
        issued="kernel database" not in row["source"],
    )


def _bandwidth(row: Mapping[str, str], sheet: HardwareProfile) -> KernelQuery:
    """One gigabyte at the printed rate. The TB/s of the memory table were filed without their decimal point ("17" is 1.7)."""
    if not row["gb_per_s"]:
        raise UndescribedError("no rate is given")
    if row["kind"] == "memory_bandwidth" and "TB/s" in row["bandwidth_kind"]:
        rate = float(f"{row['gb_per_s'][0]}.{row['gb_per_s'][1:]}") * 1e12
    else:
        rate = float(row["gb_per_s"]) * 1e9
    return _make(row, sheet, "fp32", {"bytes": 1e9}, 1e9 / rate, op=row["op"])
