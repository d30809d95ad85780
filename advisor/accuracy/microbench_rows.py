"""Predict published kernel measurements with the kernel curves: one vectorised call a device, kind and dtype."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from advisor.accuracy.kernel_queries import KernelQuery, UndescribedError, query_of
from advisor.accuracy.records import Prediction, skip
from advisor.cost.calibration import Calibration
from advisor.cost.curves import DeviceCurves, attention_seconds, collective_seconds, curves_for, gemm_seconds, stream_seconds
from advisor.hardware.platform import Platform
from advisor.hardware.tiers import host_link_bytes_per_s

Floats = npt.NDArray[np.float64]

#: Standard normal quantile that leaves 10 % above.
_Z80 = 1.2816
#: Reached share of a host link for large pinned copies (CUDA bandwidthTest on PCIe 4 and 5: 0.80 to 0.85 of the line rate).
_HOST_LINK = 0.82


def predict_rows(rows: Iterable[Mapping[str, str]], calibration: Calibration) -> Iterator[Prediction]:
    """Yield a Prediction for each row, in groups of equal device, kind and dtype; rows that say too little are skipped with the reason."""
    groups: dict[tuple[str, ...], list[KernelQuery]] = defaultdict(list)
    for row in rows:
        try:
            query = query_of(row)
        except UndescribedError as error:
            yield skip(row, error.message)
            continue
        groups[query.kind, query.sheet.id, query.dtype, query.op, str(query.tiers), f"{query.switch}{query.issued}"].append(query)
    for members in groups.values():
        yield from _predict(members, calibration)


def _predict(members: Sequence[KernelQuery], calibration: Calibration) -> Iterator[Prediction]:
    first = members[0]
    platform = Platform(name=first.sheet.id, profile=first.sheet, devices=1, nodes=1, memory_bytes=None, tiers=first.tiers)
    curves = curves_for(platform, "torch", calibration)
    predicted = predicted_seconds(members, curves)
    sigma = _sigma(first.kind, curves, calibration)
    for query, seconds in zip(members, predicted, strict=True):
        if not seconds > 0:
            yield Prediction(
                id=query.id,
                group=query.group,
                hardware=query.hardware,
                measured=query.measured_s,
                predicted=None,
                skipped="no curve covers it",
                stratum=query.kind,
            )
            continue
        yield Prediction(
            id=query.id,
            group=query.group,
            hardware=query.hardware,
            measured=query.measured_s,
            predicted=float(seconds),
            low=float(seconds * np.exp(-_Z80 * sigma)),
            high=float(seconds * np.exp(_Z80 * sigma)),
            stratum=query.kind,
        )


def _sigma(kind: str, curves: DeviceCurves, calibration: Calibration) -> float:
    """Return the standard deviation of log(measured / predicted) for a kind of kernel and the evidence of the curves."""
    fitted = calibration.section("kernels").get("sigma", {}).get(f"{kind}.{curves.evidence}")
    return float(fitted) if fitted is not None else {"calibrated": 0.12, "transferred": 0.25}.get(curves.evidence, 0.4)


def predicted_seconds(members: Sequence[KernelQuery], curves: DeviceCurves) -> Floats:
    """Return seconds of queries that share device, kind, dtype, operation and network."""
    first = members[0]
    sizes = {name: np.array([q.sizes[name] for q in members]) for name in first.sizes}
    if first.kind == "gemm":
        return gemm_seconds(curves, sizes["m"], sizes["n"], sizes["k"], first.dtype)
    if first.kind == "attention":
        names = ("batch", "heads", "kv_heads", "query", "keys", "head_dim")
        batch, heads, kv_heads, query, keys, head_dim = (sizes[name] for name in names)
        return attention_seconds(
            curves, batch=batch, heads=heads, kv_heads=kv_heads, query=query, keys=keys, head_dim=head_dim, causal=True, dtype=first.dtype
        )
    if first.kind == "collective":
        reducible = first.dtype != "int8" and first.switch is not False
        return collective_seconds(first.op, sizes["bytes"], sizes["group"], first.tiers, curves, reducible=reducible, issued=first.issued)
    if first.kind == "memory_bandwidth":
        return stream_seconds(curves, sizes["bytes"])
    link = first.sheet.link.gb_per_s_per_direction if first.sheet.link else None
    rate = link * 1e9 if "D2D" in first.op and link else host_link_bytes_per_s(first.sheet)
    return sizes["bytes"] / (rate * _HOST_LINK) if rate else np.zeros(len(members))
