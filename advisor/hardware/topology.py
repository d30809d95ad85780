"""Lay out a Platform: of named hardware (``platform_for``), or of the machine that was probed (``local_platform``, ``cpu_platform``)."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.errors import UsageError
from advisor.hardware.local import cpu_platform, local_platform
from advisor.hardware.platform import Platform
from advisor.hardware.spec import Term
from advisor.hardware.tiers import host_link_bytes_per_s, tiers_of
from advisor.units import GIB

__all__ = ["cpu_platform", "local_platform", "platform_for", "platforms_for"]


def platform_for(terms: Sequence[Term], *, usd_per_hour: float | None = None) -> Platform:
    """Return the Platform of terms that are all of one kind; UsageError where they differ (see ``platforms_for``).

    ``usd_per_hour`` is the price of one device for one hour.
    """
    groups = platforms_for(terms, usd_per_hour=usd_per_hour)
    if len(groups) != 1:
        names = " and ".join(group.name for group in groups)
        raise UsageError(f"one job over different kinds of hardware ({names}) is not priced", "ask for one kind, or compare them")
    return groups[0]


def platforms_for(terms: Sequence[Term], *, usd_per_hour: float | None = None) -> tuple[Platform, ...]:
    """Return one Platform for each homogeneous group of terms (equal profile, system and devices of a node), in order."""
    if not terms:
        raise UsageError("no hardware given")
    groups: dict[tuple[str, str | None, int], list[Term]] = {}
    for term in terms:
        groups.setdefault((term.profile.id, term.system.id if term.system else None, term.devices_per_node), []).append(term)
    return tuple(_platform(group, usd_per_hour) for group in groups.values())


def _platform(terms: Sequence[Term], usd_per_hour: float | None) -> Platform:
    first = terms[0]
    devices, nodes = sum(t.devices for t in terms), sum(t.nodes for t in terms)
    sheet, system = first.profile, first.system
    return Platform(
        name="+".join(t.label for t in terms),
        profile=sheet,
        devices=devices,
        nodes=nodes,
        memory_bytes=None if sheet.memory_gib is None else round(sheet.memory_gib * GIB),
        tiers=tiers_of(sheet, system, devices, nodes, first.devices_per_node),
        system=system,
        host_link_bytes_per_s=host_link_bytes_per_s(sheet),
        host_memory_bytes=None if system is None or system.host_memory_gib is None else round(system.host_memory_gib * GIB),
        usd_per_device_hour=usd_per_hour,
    )
