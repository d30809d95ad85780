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
    from advisor.hardware.spec import Term
    from advisor.probe.records import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedHardware:
    """A ``--hardware`` value, understood."""

    text: str
    platform: Platform
    local: bool = False
    machine: Machine | None = None
    assumed_system: str | None = None
    assumed_network: str | None = None
    """The network between nodes that was taken, where no sheet names one."""
    parts: tuple[ResolvedHardware, ...] = ()
    """Each kind alone, where the devices are of several kinds."""
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


def resolve_hardware(
    text: str, *, prices: Mapping[str, float] | None = None, database_url: str | None = None, strict: bool = False
) -> ResolvedHardware:
    """Return the platform that ``text`` names; UsageError or UnknownName if it names none.

    A network between nodes that no sheet names is assumed, and said so; with ``strict`` it is a UsageError.
    """
    if text.strip().lower() == "local":
        return local_hardware(database_url)
    from advisor.hardware.spec import parse_spec
    from advisor.hardware.topology import platforms_for

    terms = parse_spec(text)
    network = None
    if not strict:
        terms, network = _networked(terms)
    platforms = platforms_for(terms)
    parts: tuple[ResolvedHardware, ...] = ()
    if len(platforms) > 1:
        parts = tuple(resolve_hardware(p.name, prices=prices, database_url=database_url) for p in platforms)
    platform = platforms[0] if len(platforms) == 1 else _weakest(platforms)
    price = price_for(platform.profile, prices or {})
    points = stored_points(platform.profile, database_url)
    platform = replace(platform, name=text.strip(), usd_per_device_hour=price, points=points)
    system = platform.system
    named = "@" in text or (system is not None and _names_system(text, system.id, system.aliases))
    return ResolvedHardware(
        text=text.strip(),
        platform=platform,
        assumed_system=None if named or system is None or len(platforms) > 1 else system.id,
        assumed_network=network,
        parts=parts,
    )


#: Network between nodes where no sheet names one: one port of 100 Gbit/s a node, the usual offer of clouds for servers of PCIe cards.
_ASSUMED_GBIT = 100.0


def _networked(terms: tuple[Term, ...]) -> tuple[tuple[Term, ...], str | None]:
    """Return the terms with a network between nodes wherever one is needed, and what was assumed (None: nothing)."""
    import msgspec

    from advisor.hardware.records import NetworkSpec, System

    kinds = len({(term.profile.id, term.system.id if term.system else None, term.devices_per_node) for term in terms})
    network = NetworkSpec(kind="ethernet", ports=1, gbit_per_s_per_port=_ASSUMED_GBIT)
    made, assumed = [], None
    for term in terms:
        system = term.system
        several = term.nodes > 1 or (kinds == 1 and len(terms) > 1)
        if several and (system is None or (system.network is None and system.torus is None and system.nodes_per_fast_domain < term.nodes)):
            joined = "pcie" if term.profile.link is None or term.profile.link.kind.endswith("bridge") else "fabric"
            base = system or System(
                id=f"{term.profile.id}-server",
                name=f"server of {term.profile.name}",
                device=term.profile.id,
                devices_per_node=max(term.devices_per_node, 1),
                intra_node=joined,  # type: ignore[arg-type]
            )
            term = replace(term, system=msgspec.structs.replace(base, network=network))
            assumed = f"{_ASSUMED_GBIT:.0f} Gbit/s Ethernet between nodes"
        made.append(term)
    return tuple(made), assumed


def local_hardware(database_url: str | None = None) -> ResolvedHardware:
    """Return this machine as a platform, with its own measurements where there are any."""
    from advisor.hardware.topology import local_platform
    from advisor.usecases.probe import probe

    machine = probe(save=False)
    platform = local_platform(machine, ())
    device = next((d.id for d in machine.devices if _is_main(d.target, platform)), None)
    points = _machine_points(machine, device, database_url) if device else ()
    platform = replace(local_platform(machine, points), points=points, frameworks=usable_frameworks(machine, platform.profile.target))
    notes: tuple[str, ...] = ()
    if not points:
        notes = ("this machine has not been measured: `advisor bench --quick` makes the answer its own",)
    return ResolvedHardware(text="local", platform=platform, local=True, machine=machine, notes=notes)


def usable_frameworks(machine: Machine, target: str) -> tuple[str, ...]:
    """Return the frameworks of this machine that can use ``target``; one not asked yet counts as usable if it is installed.

    Those of managed environments are there too, on the CPU, for which their environments are made.
    """
    from advisor.bench.environments import usable_python
    from advisor.frameworks import all_frameworks

    found = [
        f.name
        for f in machine.frameworks
        if (f.state == "usable" and (target in f.targets or not f.targets)) or (f.state == "unknown" and f.version)
    ]
    if target.startswith("cpu"):
        found += [f.name for f in all_frameworks() if f.name not in found and f.environment and usable_python(f.environment)]
    return tuple(found)


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


def _machine_points(machine: Machine, device: str, database_url: str | None) -> tuple[KernelPoint, ...]:
    from advisor.usecases.points import machine_points, now_of

    return _from_store(database_url, lambda store: machine_points(store, machine.fingerprint, device, now_of(machine, device)))


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


def _weakest(platforms: tuple[Platform, ...]) -> Platform:
    """Return a mixed set of devices as so many of the weakest: a step is as fast as its slowest rank, and as large as its smallest."""
    weakest = min(platforms, key=lambda p: (p.memory_bytes or 0, max(p.profile.dense_tflops.values(), default=0.0)))
    devices, nodes = sum(p.devices for p in platforms), sum(p.nodes for p in platforms)
    slowest = tuple(min((p.tiers[-1] for p in platforms if p.tiers), key=lambda t: t.bandwidth_bytes_per_s, default=None) for _ in (0,))
    tiers = weakest.tiers
    if slowest[0] is not None:
        tiers = (*weakest.tiers[:-1], replace(slowest[0], group=devices))
    return replace(weakest, devices=devices, nodes=nodes, tiers=tiers)
