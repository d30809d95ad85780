"""Accelerators that cannot be used, and why: one finding for each cause, naming all devices it holds for."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.probe.findings._context import Context
from advisor.probe.records import Device, Finding, Severity, State

#: State to code, severity and what it means. ``unknown`` says nothing worth a finding.
_STATES: dict[State, tuple[str, Severity, str]] = {
    "lost": ("GPU_LOST", "error", "fell off the bus or does not answer"),
    "version_mismatch": ("DRIVER_LIBRARY_MISMATCH", "error", "cannot be used: kernel module and library are of two versions"),
    "timeout": ("DRIVER_HANGS", "error", "cannot be asked: the driver does not answer"),
    "crashed": ("DRIVER_LIBRARY_CRASHES", "error", "cannot be asked: the driver's library ends the process"),
    "permission_denied": ("DEVICE_PERMISSION", "error", "may not be opened by this process"),
    "no_library": ("DEVICE_LIBRARY_MISSING", "warning", "lacks its library"),
    "no_kernel": ("DEVICE_NO_KERNEL", "error", "is not served by the code that is installed"),
}


def accelerators(context: Context) -> list[Device]:
    """Return the devices other than the processor."""
    return [device for device in context.devices if not device.target.startswith("cpu")]


def names(devices: list[Device], most: int = 4) -> str:
    """Return the devices' ids and common name, shortened."""
    listed = ", ".join(device.id for device in devices[:most]) + (f" and {len(devices) - most} more" if len(devices) > most else "")
    product = {device.name for device in devices if device.name}
    return f"{product.pop()} ({listed})" if len(product) == 1 else listed


def broken(context: Context) -> Iterator[Finding]:
    """A device is in a state that can be mended."""
    causes: dict[tuple[State, str | None, str | None], list[Device]] = {}
    for device in accelerators(context):
        if device.state in _STATES:
            # A reason that names the device itself is the same cause as its neighbour's.
            general = None if device.state == "lost" else device.reason
            causes.setdefault((device.state, general, device.fix), []).append(device)
    for (state, _, fix), devices in causes.items():
        code, severity, meaning = _STATES[state]
        yield Finding(code=code, severity=severity, message=f"{names(devices)}: {meaning}.", evidence=devices[0].reason, fix=fix)


def no_driver(context: Context) -> Iterator[Finding]:
    """No driver, or another one, is bound."""
    groups: dict[str, list[Device]] = {}
    for device in accelerators(context):
        if device.state == "no_driver":
            groups.setdefault(str(device.details.get("kernel_driver") or ""), []).append(device)
    for driver, devices in groups.items():
        code, severity = "DEVICE_NO_DRIVER", "warning"
        if driver in ("nouveau", "nova_core"):
            code = "NOUVEAU_BOUND"
        elif driver in ("vfio-pci", "pci-stub"):
            code, severity = "GPU_PASSED_THROUGH", "info"
        yield Finding(
            code=code,
            severity="info" if severity == "info" else "warning",
            message=f"{names(devices)}: {f'bound to {driver}' if driver else 'no driver is bound'}, so nothing here can use it.",
            evidence=devices[0].reason,
            fix=devices[0].fix,
        )


def unsupported(context: Context) -> Iterator[Finding]:
    """MIG without slices, and a CUDA that does not start although the driver answers."""
    for device in accelerators(context):
        mig = device.details.get("mig") or {}
        if device.state == "unsupported" and mig.get("mode"):
            yield Finding(
                code="MIG_WITHOUT_SLICES",
                severity="error",
                message=f"{names([device])}: MIG is on and no slice was made, so nothing can run on it.",
                evidence="MIG mode enabled, no MIG device listed",
                fix=device.fix,
            )
        elif device.target == "cuda" and device.state == "unsupported" and device.checks.runtime is False:
            yield Finding(
                code="CUDA_DOES_NOT_START",
                severity="error",
                message=f"{names([device])}: the driver answers, but CUDA does not start.",
                evidence=device.reason,
                fix=device.fix,
            )


FINDERS = (broken, no_driver, unsupported)
