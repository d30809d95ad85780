"""Stored measurements of a device as the points that its curves go through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.hardware.platform import KernelPoint

if TYPE_CHECKING:
    from advisor.probe.records import Machine
    from advisor.results.store import Store

KINDS = ("gemm", "attention", "bandwidth")
#: The newest measurements that are read for one device: far more than a full bench leaves (about 2,000).
LIMIT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What is installed now: versions by backend, and the driver of the device (None for a CPU, which has none)."""

    versions: Mapping[str, str]
    driver: str | None = None

    def stale(self, m: Mapping[str, Any]) -> str | None:
        """Return why a measurement is no longer one of this machine as it is, None where nothing is known to have changed."""
        backend, then = str(m.get("backend")), m.get("backend_version")
        now = self.versions.get(backend)
        if now and then and not same_version(str(then), now):
            return f"measured with {backend} {then}, {now} is installed now"
        driver = (m.get("conditions") or {}).get("driver")
        if driver and self.driver and driver != self.driver:
            return f"measured under driver {driver}, {self.driver} is loaded now"
        return None


def now_of(machine: Machine, device: str) -> Now:
    """Return what a probe found: the version of each framework under the name of its backend, and the device's driver.

    Frameworks that only a managed environment has come in the version it was built with.
    """
    from advisor.frameworks import framework as descriptor
    from advisor.usecases.env import managed_versions

    versions = managed_versions()
    for found in machine.frameworks:
        spec = descriptor(found.name)
        if found.version:
            versions[spec.bench_backend if spec is not None and spec.bench_backend else found.name] = found.version
    driver = next((d.details.get("driver_version") for d in machine.devices if d.id == device), None)
    return Now(versions=versions, driver=driver)


def same_version(one: str, other: str) -> bool:
    """Tell whether two versions are the same; a local part (``+cpu``, PEP 440) counts where both have one."""
    (first, _, build), (second, _, built) = one.partition("+"), other.partition("+")
    return first == second and (not build or not built or build == built)


def points_of(measurements: Iterable[Mapping[str, Any]], now: Now | None = None) -> tuple[KernelPoint, ...]:
    """Return the kernel points in ``measurements`` (dictionaries of ``Store.measurements``); what is not a rate is left out.

    Reading a disk and copying over a link are no kernels. With ``now`` each point says whether it is stale.
    """
    points = []
    for m in measurements:
        rate = m.get("value")
        if m.get("benchmark") not in KINDS or m.get("status") != "ok" or m.get("metric") not in ("flops_per_s", "bytes_per_s") or not rate:
            continue
        params = m.get("params") or {}
        if params.get("level") in ("disk", "link"):
            continue
        points.append(
            KernelPoint(
                id=str(m["id"]),
                kind=str(m["benchmark"]),
                backend=str(m["backend"]),
                dtype=str(m["dtype"]),
                threads=int(params.get("threads") or 1),
                shape={key: value for key, value in params.items() if isinstance(value, int | float | str | bool) and key != "threads"},
                rate=float(rate),
                stale=None if now is None else now.stale(m),
            )
        )
    return tuple(points)


def machine_points(store: Store, fingerprint: str, device: str, now: Now | None = None) -> tuple[KernelPoint, ...]:
    """Return the points of one device of one machine, the newest of each series; against ``now`` some are stale."""
    rows = store.measurements(machine=fingerprint, status="ok", latest=True, limit=LIMIT)
    return points_of((m for m in rows if m.get("device") == device), now)


def product_points(store: Store, profile: str) -> tuple[KernelPoint, ...]:
    """Return the points that users measured on devices of ``profile``, on whatever machine (published rows are in the calibration)."""
    rows = store.measurements(device=profile, origin="local,shared", status="ok", latest=True, limit=LIMIT)
    return points_of(m for m in rows if m.get("device_profile") == profile or m.get("device") == profile)
