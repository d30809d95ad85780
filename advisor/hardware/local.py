"""The Platform of a probed machine: its accelerators where any can be used, else its CPU."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.errors import EnvironmentLacks, UsageError
from advisor.hardware import cpu_peaks, load
from advisor.hardware.match import match_device, reason_without
from advisor.hardware.platform import KernelPoint, NetworkTier, Platform
from advisor.hardware.records import HardwareProfile
from advisor.hardware.tiers import host_link_bytes_per_s, latency_s, tiers_of
from advisor.probe.records import Device, Machine
from advisor.units import GIB


def local_platform(machine: Machine, points: Sequence[KernelPoint] = (), *, usd_per_hour: float | None = None) -> Platform:
    """Return the largest group of equal usable accelerators that have a sheet (whole ones before slices), else the CPU.

    EnvironmentLacks if there is neither.
    """
    groups: dict[tuple[str, bool, int | None], list[Device]] = {}
    for device in machine.devices:
        if device.state == "usable" and not device.target.startswith("cpu"):
            match = match_device(device)
            if match is not None:
                groups.setdefault((match.profile.id, match.confident, device.memory_bytes), []).append(device)
    if not groups:
        return cpu_platform(machine, points, usd_per_hour=usd_per_hour)
    (identity, whole, _), devices = max(groups.items(), key=lambda item: (item[0][1], len(item[1]), item[0][2] or 0))
    sheet = load.all_profiles()[identity]
    if not whole:
        # Slices of one GPU cannot talk to each other past the host: a job runs on one of them.
        sheet, devices = part_of(sheet, devices[0]), devices[:1]
    return _accelerators(machine, sheet, devices, points, usd_per_hour)


def part_of(sheet: HardwareProfile, device: Device) -> HardwareProfile:
    """Return the sheet of a slice (MIG): peaks by its share of the compute units, bandwidth and cache by its share of the memory.

    A share that the probe did not see is unknown, and so is what depends on it.
    """
    memory = None if device.memory_bytes is None or not sheet.memory_gib else min(1.0, device.memory_bytes / (sheet.memory_gib * GIB))
    units = None if device.compute_units is None or not sheet.compute_units else min(1.0, device.compute_units / sheet.compute_units)
    return replace_sheet(
        sheet,
        name=device.name or sheet.name,
        dense_tflops={} if units is None else {dtype: peak * units for dtype, peak in sheet.dense_tflops.items()},
        memory_gib=None if device.memory_bytes is None else device.memory_bytes / GIB,
        memory_gb_per_s=None if memory is None or sheet.memory_gb_per_s is None else sheet.memory_gb_per_s * memory,
        l2_mib=None if memory is None or sheet.l2_mib is None else sheet.l2_mib * memory,
        compute_units=device.compute_units,
        tdp_w=None,
        link=None,
        peer_to_peer=False,
        default_system=None,
        notes=f"A slice of {sheet.id}: shares of its peaks, bandwidth and cache.",
    )


def cpu_platform(machine: Machine, points: Sequence[KernelPoint] = (), *, usd_per_hour: float | None = None) -> Platform:
    """Return the machine's CPU as one device with what this process may use of it.

    Peaks are those of the usable cores (see ``cpu_peaks``); memory is ``host.memory.usable_bytes``; the bandwidth is the best
    that ``points`` hold for their largest working set (smaller ones sit in caches), else the sheet's, else unknown.
    """
    cpu, memory = machine.host.cpu, machine.host.memory
    device = next((d for d in machine.devices if d.target.startswith("cpu")), None)
    if device is None:
        raise EnvironmentLacks("NO-DEVICE", "the probe shows no CPU and no usable accelerator with a sheet", "advisor probe --explain")
    match = match_device(device)
    cores = cpu_peaks.usable_cores(cpu)
    profile = cpu_peaks.profile_of(machine, device, cores, match.profile if match else None)
    measured = _memory_rate(points)
    if measured is not None:
        profile = replace_sheet(profile, memory_gb_per_s=measured / 1e9)
    return Platform(
        name="local",
        profile=profile,
        devices=1,
        nodes=1,
        memory_bytes=memory.usable_bytes,
        host_memory_bytes=memory.usable_bytes,
        threads=max(1, int(cores)) if cores else 1,
        usd_per_device_hour=usd_per_hour,
        points=tuple(points),
        frameworks=_frameworks(machine, device.target),
        isa=cpu.isa,
    )


def unmatched(machine: Machine) -> dict[str, str]:
    """Return, by device id, why a usable accelerator of the machine has no sheet."""
    found = (d for d in machine.devices if d.state == "usable" and not d.target.startswith("cpu") and match_device(d) is None)
    return {device.id: reason_without(device) for device in found}


def replace_sheet(profile: HardwareProfile, **changes: object) -> HardwareProfile:
    """Return the sheet with some fields replaced."""
    fields = {name: getattr(profile, name) for name in profile.__struct_fields__}
    return HardwareProfile(**{**fields, **changes})


def _accelerators(
    machine: Machine, sheet: HardwareProfile, devices: Sequence[Device], points: Sequence[KernelPoint], usd_per_hour: float | None
) -> Platform:
    memory = devices[0].memory_bytes or (round(sheet.memory_gib * GIB) if sheet.memory_gib else None)
    default = load.all_systems().get(sheet.default_system) if sheet.default_system else None
    system = default if default is not None and len(devices) <= default.devices_per_node else None
    try:
        tiers = _seen_tiers(sheet, devices) or tiers_of(sheet, system, len(devices), 1, len(devices))
    except UsageError:
        # What joins them is neither seen nor on the sheet: one device is all that can be answered for.
        devices, tiers = devices[:1], ()
    return Platform(
        name=f"{len(devices)}x{sheet.id}",
        profile=sheet,
        devices=len(devices),
        nodes=1,
        memory_bytes=memory,
        tiers=tiers,
        system=system,
        host_link_bytes_per_s=host_link_bytes_per_s(sheet),
        host_memory_bytes=machine.host.memory.usable_bytes,
        usd_per_device_hour=usd_per_hour,
        points=tuple(points),
        frameworks=_frameworks(machine, devices[0].target),
        threads=max(1, int(cpu_peaks.usable_cores(machine.host.cpu) or 1)),
    )


def _seen_tiers(sheet: HardwareProfile, devices: Sequence[Device]) -> tuple[NetworkTier, ...]:
    """Return the tier the probe saw: links of every device to all others of the group, with their bandwidth; empty if it did not."""
    ids = {device.id for device in devices}
    totals = []
    for device in devices:
        links = [link for link in device.links if link.to in ids and link.bandwidth_bytes_per_s]
        if len(devices) == 1 or {link.to for link in links} != ids - {device.id}:
            return ()
        # Behind a switch every pair shares the device's links; in a mesh each pair has its own.
        rates = [link.bandwidth_bytes_per_s or 0.0 for link in links]
        full = sheet.link.gb_per_s_per_direction if sheet.link else None
        totals.append(max(rates) if full is None or max(rates) >= 0.9 * full * 1e9 else min(sum(rates), full * 1e9))
    kind = next(link.kind for link in devices[0].links if link.to in ids)
    return (
        NetworkTier(
            name="node", kind=kind.lower(), group=len(devices), bandwidth_bytes_per_s=min(totals), latency_s=latency_s(kind.lower())
        ),
    )


def _memory_rate(points: Sequence[KernelPoint]) -> float | None:
    """Return bytes/s of the fastest point over the largest working set measured, or None."""
    sizes = [(point.shape.get("bytes", 0.0), point.rate) for point in points if point.kind == "bandwidth"]
    return max((rate for size, rate in sizes if size == max(sizes)[0]), default=None)


def _frameworks(machine: Machine, target: str) -> tuple[str, ...] | None:
    """Return the frameworks known to use ``target``; None where none was queried (then every one that knows the target counts)."""
    asked = [f for f in machine.frameworks if f.version is not None and f.state != "unknown"]
    return tuple(f.name for f in asked if f.state == "usable" and target in f.targets) if asked else None
