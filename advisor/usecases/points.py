"""Stored measurements of a device as the points that its curves go through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from advisor.hardware.platform import KernelPoint

if TYPE_CHECKING:
    from advisor.results.store import Store

KINDS = ("gemm", "attention", "bandwidth")
#: The newest measurements that are read for one device: far more than a full bench leaves (about 2,000).
LIMIT = 20_000


def points_of(measurements: Iterable[Mapping[str, Any]]) -> tuple[KernelPoint, ...]:
    """Return the kernel points in ``measurements`` (dictionaries of ``Store.measurements``); what is not a rate is left out."""
    points = []
    for m in measurements:
        rate = m.get("value")
        if m.get("benchmark") not in KINDS or m.get("status") != "ok" or m.get("metric") not in ("flops_per_s", "bytes_per_s") or not rate:
            continue
        params = m.get("params") or {}
        points.append(
            KernelPoint(
                id=str(m["id"]),
                kind=str(m["benchmark"]),
                backend=str(m["backend"]),
                dtype=str(m["dtype"]),
                threads=int(params.get("threads") or 1),
                shape={key: value for key, value in params.items() if isinstance(value, int | float | str | bool) and key != "threads"},
                rate=float(rate),
            )
        )
    return tuple(points)


def machine_points(store: Store, fingerprint: str, device: str) -> tuple[KernelPoint, ...]:
    """Return the points of one device of one machine, the newest of each series."""
    rows = store.measurements(machine=fingerprint, status="ok", latest=True, limit=LIMIT)
    return points_of(m for m in rows if m.get("device") == device)


def product_points(store: Store, profile: str) -> tuple[KernelPoint, ...]:
    """Return the points that users measured on devices of ``profile``, on whatever machine (published rows are in the calibration)."""
    rows = store.measurements(device=profile, origin="local,shared", status="ok", latest=True, limit=LIMIT)
    return points_of(m for m in rows if m.get("device_profile") == profile or m.get("device") == profile)
