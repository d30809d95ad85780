"""Put the machine together: host, devices, frameworks, findings, and why a value is missing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from advisor.probe.accelerators import find_devices
from advisor.probe.findings import find_all
from advisor.probe.findings._context import Context
from advisor.probe.host import HostReport, read_host
from advisor.probe.packages import installed_packages
from advisor.probe.records import Checks, Device, Finding, Framework, Machine, Target
from advisor.probe.root import Root

_SEVERITY = {"error": 0, "warning": 1, "info": 2}

#: MemTotal moves by some MiB with every kernel; identity needs a coarser step.
_MEMORY_STEP = 1 << 30


def probe_machine(root: Root, frameworks_of: Callable[[Sequence[Device]], tuple[Framework, ...]] | None = None) -> Machine:
    """Return the machine on ``root``.

    ``frameworks_of`` is asked for the frameworks, given the devices; it is not asked on a recorded machine. Findings that one of their
    sources could not make (a defect in it) are replaced by one that says so: the answer always comes.
    """
    report = read_host(root)
    accelerators = find_devices(root)
    devices = (cpu_device(report, root.is_live), *accelerators.devices)
    frameworks = frameworks_of(devices) if frameworks_of is not None and root.is_live else ()
    context = Context(
        root=root,
        host=report.host,
        facts=report.facts,
        devices=devices,
        frameworks=frameworks,
        packages=installed_packages() if root.is_live else {},
    )
    findings = (*accelerators.findings, *find_all(context))
    return Machine(
        fingerprint=fingerprint(root, report, devices),
        host=report.host,
        devices=devices,
        frameworks=frameworks,
        findings=sort_findings(findings),
        unknown={**report.unknown, **device_paths(devices, accelerators.unknown)},
    )


def cpu_device(report: HostReport, live: bool) -> Device:
    """Return the host's processors as one device; its memory is what this process may use."""
    host, cpu, facts = report.host, report.host.cpu, report.facts
    details: dict[str, object] = {"usable_cpus": cpu.usable_cpus, "logical_cpus": cpu.logical_cpus}
    further = {
        "isa_level": facts.isa_level,
        "board": facts.board,
        "amx_permission": facts.amx_permission,
        "amx_reason": facts.amx_reason,
    }
    details.update({name: value for name, value in {**further, **facts.details}.items() if value is not None})
    return Device(
        id="cpu0",
        target=cpu_target(host.arch),
        vendor=cpu.vendor,
        name=cpu.model,
        arch=host.arch,
        state="usable",
        memory_bytes=host.memory.usable_bytes,
        compute_units=cpu.physical_cores,
        package="cpu0",
        checks=Checks(present=True, runtime=True if live else None),
        details=details,
    )


def cpu_target(arch: str | None) -> Target:
    """Return the target a host architecture belongs to."""
    if re.fullmatch(r"x86_64|amd64|i[3-6]86", arch or "", re.IGNORECASE):
        return "cpu-x86"
    return "cpu-arm" if re.match(r"aarch64|arm", arch or "", re.IGNORECASE) else "cpu-other"


def sort_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings by severity, errors first, each said once."""
    unique = {(finding.code, finding.message): finding for finding in findings}
    return tuple(sorted(unique.values(), key=lambda finding: (_SEVERITY.get(finding.severity, 3), finding.code, finding.message)))


def device_paths(devices: Sequence[Device], unknown: dict[str, str]) -> dict[str, str]:
    """Return ``{"0000:c1:00.0.memory_bytes": why}`` with the device's place for its id: ``devices[1].memory_bytes``.

    A key that belongs to no device is kept as it is.
    """
    places = {device.id: index for index, device in enumerate(devices)}
    paths: dict[str, str] = {}
    for key, reason in unknown.items():
        # An id may hold dots (0000:c1:00.0): of all beginnings of the key that end before one, the shortest that is an id.
        heads = (key[: dot.start()] for dot in re.finditer(r"\.", key))
        owner = next((head for head in heads if head in places), None)
        paths[key if owner is None else f"devices[{places[owner]}]{key[len(owner) :]}"] = reason
    return paths


def fingerprint(root: Root, report: HostReport, devices: Sequence[Device]) -> str:
    """Return a hash of what identifies the machine: the same after a driver breaks, a container is started or memory fills.

    The machine's own id goes in hashed with the rest; it cannot be read back.
    """
    host, cpu = report.host, report.host.cpu
    total = host.memory.total_bytes
    identity = {
        "os": host.os,
        "arch": host.arch,
        "cpu": [cpu.vendor, cpu.model, cpu.microarchitecture, cpu.sockets, cpu.physical_cores, cpu.logical_cpus],
        "memory": None if total is None else round(total / _MEMORY_STEP),
        "machine": root.line("/etc/machine-id"),
        "devices": sorted(
            {f"{device.target} {device.pci_id or device.name} {device.bus_id or ''}" for device in devices if device.id != "cpu0"}
        ),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


def with_profiles(machine: Machine, profiles: Sequence[str | None], reasons: dict[int, str]) -> Machine:
    """Return the machine with each device's profile; ``reasons`` says by place why one has none."""
    devices = tuple(replace(device, profile=profile) for device, profile in zip(machine.devices, profiles, strict=True))
    unknown = {**machine.unknown, **{f"devices[{index}].profile": reason for index, reason in reasons.items()}}
    return replace(machine, devices=devices, unknown=unknown)
