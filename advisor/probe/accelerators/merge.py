"""Many sightings, one device each: joined by identity, compared, and judged.

Identity is a UUID, else a bus address, else the index by which a driver counts. Two sightings of one source are never one device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from advisor.probe.accelerators._fixes import fix_for
from advisor.probe.accelerators._sighting import Sighting
from advisor.probe.accelerators.ids import identify_text
from advisor.probe.records import Checks, Device, DeviceLink, Finding, State

# The worst first: what decides when sources tell different states.
_WORST: tuple[State, ...] = (
    "lost", "version_mismatch", "timeout", "crashed", "permission_denied", "no_driver",
    "no_library", "no_kernel", "unsupported", "unknown", "usable",
)  # fmt: skip
_COMPARED = ("memory_bytes", "arch", "pci_id")
_FIELDS = ("name", "arch", "memory_bytes", "memory_kind", "bus_id", "pci_id", "uuid", "compute_units")
MEMORY_TOLERANCE = 0.05  # libraries differ in whether they count what the driver and ECC reserve


@dataclass(slots=True)
class Group:
    """The sightings of one device, best source first."""

    members: list[Sighting] = field(default_factory=list)

    def first(self, name: str) -> Any:
        """Return the field of the best source that knows it."""
        return next((found for item in self.members if (found := getattr(item, name)) is not None), None)

    def accepts(self, item: Sighting) -> bool:
        """Tell whether ``item`` may be the same device: no source twice, no contradicting identity."""
        if any(member.source == item.source for member in self.members):
            return False
        return all(
            getattr(item, name) is None or (known := self.first(name)) is None or known == getattr(item, name)
            for name in ("uuid", "bus_id", "target")
        )


def join(sightings: Iterable[Sighting]) -> list[Group]:
    """Return the groups in order of first sight. Slices of a GPU are joined by their parent and their number."""
    groups: list[Group] = []
    known: dict[tuple[str, str], list[Group]] = {}
    whole, slices = [], []
    for item in sightings:
        (slices if item.details.get("mig_slice") else whole).append(item)
    for item in whole:
        _place(item, _names(item), groups, known)
    for item in slices:
        parent = next((group for name in ("uuid", "bus", "key") for group in known.get((name, item.package or ""), ())), None)
        package = (parent.first("uuid") or parent.first("bus_id")) if parent else None
        item.package = package or item.package
        numbers = item.details["mig_slice"]
        names = [("uuid", item.uuid)] if item.uuid else []
        if item.part and "None" not in item.part:
            names.append(("part", f"{item.package}/{item.part}"))
        if numbers.get("index") is not None:
            names.append(("slice", f"{item.package}/{numbers['index']}"))
        _place(item, names, groups, known)
    return groups


def _names(item: Sighting) -> list[tuple[str, str]]:
    pairs = (("uuid", item.uuid), ("bus", item.bus_id), ("key", item.key))
    return [(name, text) for name, text in pairs if text]


def _place(item: Sighting, names: list[tuple[str, str]], groups: list[Group], known: dict[tuple[str, str], list[Group]]) -> None:
    group = next((found for name in names for found in known.get(name, ()) if found.accepts(item)), None)
    if group is None:
        group = Group()
        groups.append(group)
    group.members.append(item)
    for name in names:
        if group not in known.setdefault(name, []):
            known[name].append(group)


@dataclass(slots=True)
class Built:
    """Devices with their reasons for what is unknown (``<id>.<field>``) and what the comparison found."""

    devices: list[Device] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def build(sightings: Iterable[Sighting]) -> Built:
    """Join, compare and judge. A parent whose slices are listed is left out."""
    groups = join(sightings)
    listed = [group for group in groups if not any(item.replaced for item in group.members)]
    ids = _ids(listed)
    aliases = {
        name: ids[index]
        for index, group in enumerate(listed)
        for item in reversed(group.members)
        for name in (item.uuid, item.key, item.bus_id)
        if name
    }
    built = Built()
    _inherit(groups, listed)
    for index, group in enumerate(listed):
        built.devices.append(_device(group, ids[index], aliases, built.unknown))
        built.findings += _conflicts(group, ids[index])
    return built


# What holds for a slice because it holds for the whole GPU.
_INHERITED = (
    "driver_version", "cuda_driver_version", "pcie", "power", "throttle", "ecc", "persistence_mode", "virtualization", "recovery_action",
)  # fmt: skip


def _inherit(groups: list[Group], listed: list[Group]) -> None:
    """Give slices the health of their parent, which is not listed itself; a parent that is lost takes its slices with it."""
    parents: dict[str, Group] = {}
    for group in groups:
        if any(item.replaced for item in group.members):
            parents |= {name: group for item in group.members for name in (item.uuid, item.bus_id, item.key) if name}
    for group in listed:
        parent = parents.get(str(group.first("package"))) if any(item.details.get("mig_slice") for item in group.members) else None
        if parent is None:
            continue
        best = group.members[0]
        for item in parent.members:
            for name in _INHERITED:
                if name in item.details:
                    best.details.setdefault(name, item.details[name])
            if item.state is not None and best.state is None:
                best.state, best.reason, best.fix = item.state, item.reason, item.fix


def _ids(groups: list[Group]) -> list[str]:
    found: list[str] = []
    taken: set[str] = set()
    for number, group in enumerate(groups):
        is_slice = any(item.details.get("mig_slice") for item in group.members)
        order = ("uuid", "package", "bus_id") if is_slice else ("bus_id", "uuid", "key")
        text = next((name for field_ in order if (name := group.first(field_))), f"{group.first('target')}:{number}")
        if is_slice and not group.first("uuid"):
            text = f"{text}/{group.first('part')}"
        unique, count = text, 1
        while unique in taken:
            unique = f"{text}#{count}"
            count += 1
        taken.add(unique)
        found.append(unique)
    return found


def _device(group: Group, device_id: str, aliases: dict[str, str], unknown: dict[str, str]) -> Device:
    state, reason, fix = judge(group)
    target, vendor, memory = group.first("target"), group.first("vendor"), group.first("memory_bytes")
    if state == "lost":
        memory = None
    kind = group.first("memory_kind") or ("dedicated" if memory is not None else None)
    values = {name: group.first(name) for name in _FIELDS} | {"memory_bytes": memory, "memory_kind": kind}
    details = _details(group)
    known = identify_text(values["pci_id"])
    if values["name"] is None and known is not None:
        # A hint for people: the id of a chip may belong to several products.
        values["name"] = f"NVIDIA {known.name}" if known.vendor == "nvidia" else known.name
        details["name_source"] = "pci id table"
    for name, found in values.items():
        if found is None:
            unknown[f"{device_id}.{name}"] = _why(group, name, state)
    return Device(
        id=device_id,
        target=target,
        vendor=vendor,
        state=state,
        reason=reason,
        fix=fix,
        package=group.first("package") or values["uuid"] or values["bus_id"] or device_id,
        checks=Checks(
            present=True,
            driver=group.first("driver"),
            node=group.first("node"),
            library=group.first("library"),
            runtime=group.first("runtime"),
        ),
        links=_links(group, device_id, aliases),
        details=details,
        **values,
    )


def _why(group: Group, name: str, state: State) -> str:
    if name == "memory_bytes" and state == "lost":
        return "the device is lost"
    told = next((item.unknown[name] for item in group.members if name in item.unknown), None)
    return told or f"no source here tells it (asked: {', '.join(dict.fromkeys(item.source for item in group.members))})"


def judge(group: Group) -> tuple[State, str | None, str | None]:
    """Return state, reason and fix: the worst that a source says, else what the separate answers amount to."""
    said = [item for item in group.members if item.state is not None]
    target, vendor = group.first("target"), group.first("vendor")
    if said:
        worst = min(said, key=lambda item: _WORST.index(item.state or "unknown"))
        state: State = worst.state or "unknown"
        return state, worst.reason, None if state == "usable" else worst.fix or fix_for(target, vendor, state)
    state, reason = _from_checks(group)
    return state, reason, None if state == "usable" else group.first("fix") or fix_for(target, vendor, state)


def _from_checks(group: Group) -> tuple[State, str | None]:
    given = group.first("reason")
    if group.first("driver") is False:
        return "no_driver", given or "no kernel driver is bound to it"
    if group.first("node") is False:
        return "permission_denied", given or "its device node cannot be opened"
    if group.first("library") is False:
        return "no_library", given or "the vendor's library is not installed"
    if group.first("runtime") is False:
        return "unsupported", given or "the vendor's runtime does not start"
    if group.first("driver") or group.first("runtime"):
        return "usable", None
    return "unknown", given or "nothing here tells whether a driver is bound"


def _links(group: Group, device_id: str, aliases: dict[str, str]) -> tuple[DeviceLink, ...]:
    """Resolve the other ends to device ids; of two sources on one link the one that knows its bandwidth counts."""
    found: dict[tuple[str, str], DeviceLink] = {}
    for item in group.members:
        for link in item.links:
            to = aliases.get(link.to, link.to)
            if to == device_id:
                continue
            known = found.get((to, link.kind))
            if known is None or (known.bandwidth_bytes_per_s is None and link.bandwidth_bytes_per_s is not None):
                found[(to, link.kind)] = DeviceLink(to=to, kind=link.kind, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s)
    return tuple(found.values())


def _details(group: Group) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for item in group.members:
        for name, fact in item.details.items():
            if isinstance(fact, dict) and isinstance(merged.get(name), dict):
                merged[name] = {**fact, **merged[name]}
            else:
                merged.setdefault(name, fact)
    return {**merged, "sources": list(dict.fromkeys(item.source for item in group.members))}


def _conflicts(group: Group, device_id: str) -> list[Finding]:
    found = []
    for name in _COMPARED:
        told = {item.source: getattr(item, name) for item in group.members if getattr(item, name) is not None}
        values = list(told.values())
        if len(values) < 2 or _agree(name, values):
            continue
        found.append(
            Finding(
                code="SOURCES_DISAGREE",
                severity="warning",
                message=f"{device_id}: sources disagree about {name}",
                fix="attach `advisor probe --record DIR` to a bug report; the first source named is used",
                evidence=", ".join(f"{source}: {value}" for source, value in told.items()),
            )
        )
    return found


def _agree(name: str, values: list[Any]) -> bool:
    if name == "memory_bytes":
        return max(values) <= min(values) * (1 + MEMORY_TOLERANCE)
    return len(set(values)) == 1
