"""From ``--hardware`` to Platforms: sheets and topology, joined with what was measured on this machine or this product."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from advisor.errors import DatabaseError, UsageError
from advisor.hardware.platform import KernelPoint, Platform

if TYPE_CHECKING:
    from advisor.hardware.records import HardwareProfile
    from advisor.probe.records import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedHardware:
    """A ``--hardware`` value, understood."""

    text: str
    platform: Platform
    local: bool = False
    machine: Machine | None = None
    assumed_system: str | None = None
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the ``hardware`` object of the answer."""
        p = self.platform
        return {
            "name": p.name,
            "devices": p.devices,
            "nodes": p.nodes,
            "system": p.system.id if p.system is not None else None,
            "profile": p.profile.id,
            "device_name": p.profile.name,
            "memory_bytes": p.memory_bytes,
        }


def resolve_hardware(text: str, *, prices: Mapping[str, float] | None = None, database_url: str | None = None) -> ResolvedHardware:
    """Return the platform that ``text`` names; UsageError or UnknownName if it names none."""
    if text.strip().lower() == "local":
        return local_hardware(database_url)
    from advisor.hardware.spec import parse_spec
    from advisor.hardware.topology import platforms_for

    terms = parse_spec(text)
    platforms = platforms_for(terms)
    platform, notes = (platforms[0], ()) if len(platforms) == 1 else _weakest(platforms)
    price = price_for(platform.profile, prices or {})
    points = stored_points(platform.profile, database_url)
    platform = replace(platform, name=text.strip(), usd_per_device_hour=price, points=points)
    system = platform.system
    named = "@" in text or (system is not None and _names_system(text, system.id, system.aliases))
    return ResolvedHardware(
        text=text.strip(), platform=platform, assumed_system=None if named or system is None else system.id, notes=notes
    )


def local_hardware(database_url: str | None = None) -> ResolvedHardware:
    """Return this machine as a platform, with its own measurements where there are any."""
    from advisor.hardware.topology import local_platform
    from advisor.usecases.probe import probe

    machine = probe(save=False)
    platform = local_platform(machine, ())
    device = next((d.id for d in machine.devices if _is_main(d.target, platform)), None)
    points = _machine_points(machine.fingerprint, device, database_url) if device else ()
    platform = replace(local_platform(machine, points), points=points, frameworks=usable_frameworks(machine, platform.profile.target))
    notes = ()
    if not points:
        notes = ("this machine has not been measured: `advisor bench --quick` makes the answer its own",)
    return ResolvedHardware(text="local", platform=platform, local=True, machine=machine, notes=notes)


def usable_frameworks(machine: Machine, target: str) -> tuple[str, ...]:
    """Return the frameworks of this machine that can use ``target``; one not asked yet counts as usable if it is installed."""
    return tuple(
        f.name
        for f in machine.frameworks
        if (f.state == "usable" and (target in f.targets or not f.targets)) or (f.state == "unknown" and f.version)
    )


def price_for(profile: HardwareProfile, prices: Mapping[str, float]) -> float | None:
    """Return the price of a device-hour among ``prices`` (keys are names or aliases of profiles)."""
    from advisor.hardware.load import profile as find_profile

    for name, usd in prices.items():
        if not 0 <= usd < 1e6:
            raise UsageError(f"--price {name} must be between 0 and a million USD an hour, not {usd}", code="OUT-OF-RANGE")
        if find_profile(name).id == profile.id:
            return usd
    return None


def stored_points(profile: HardwareProfile, database_url: str | None) -> tuple[KernelPoint, ...]:
    """Return what users measured on this product, if the database can be read; its failure costs the points, not the answer."""
    from advisor.usecases.points import product_points

    return _from_store(database_url, lambda store: product_points(store, profile.id))


def _machine_points(fingerprint: str, device: str, database_url: str | None) -> tuple[KernelPoint, ...]:
    from advisor.usecases.points import machine_points

    return _from_store(database_url, lambda store: machine_points(store, fingerprint, device))


def _from_store(database_url: str | None, ask: Any) -> tuple[KernelPoint, ...]:
    if database_url is None:
        return ()
    from advisor.results.store import Store

    try:
        with Store.open(database_url) as store:
            points: tuple[KernelPoint, ...] = ask(store)
            return points
    except DatabaseError as error:
        warnings.warn(f"no stored measurements are used: {error.message}; {error.hint or 'see `advisor db status`'}", stacklevel=2)
        return ()


def _is_main(target: str, platform: Platform) -> bool:
    return target == platform.profile.target or (platform.is_cpu and target.startswith("cpu"))


def _names_system(text: str, system: str, aliases: tuple[str, ...]) -> bool:
    low = text.lower()
    return any(name.lower() in low for name in (system, *aliases))


def _weakest(platforms: tuple[Platform, ...]) -> tuple[Platform, tuple[str, ...]]:
    """Return a mixed set of devices as so many of the weakest: a step is as fast as its slowest rank, and as large as its smallest."""
    weakest = min(platforms, key=lambda p: (p.memory_bytes or 0, max(p.profile.dense_tflops.values(), default=0.0)))
    devices, nodes = sum(p.devices for p in platforms), sum(p.nodes for p in platforms)
    slowest = tuple(min((p.tiers[-1] for p in platforms if p.tiers), key=lambda t: t.bandwidth_bytes_per_s, default=None) for _ in (0,))
    tiers = weakest.tiers
    if slowest[0] is not None:
        tiers = (*weakest.tiers[:-1], replace(slowest[0], group=devices))
    note = f"mixed devices: every device is treated as a {weakest.profile.name}, the weakest of them; a plan per kind may do better"
    return replace(weakest, devices=devices, nodes=nodes, tiers=tiers), (note,)
