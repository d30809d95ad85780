"""GPUs that run slower than they could, or are about to fail: links, power, clocks, memory errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from advisor.probe.findings._context import Context
from advisor.probe.findings.accelerators import accelerators, names
from advisor.probe.records import Device, Finding

POWER_TOLERANCE = 0.98  # limits are set in watts and read back in milliwatts


def _facts(device: Device, name: str) -> dict[str, Any]:
    found = device.details.get(name)
    return found if isinstance(found, dict) else {}


def _chosen(context: Context, test: Callable[[Device], object]) -> list[Device]:
    return [device for device in accelerators(context) if device.state == "usable" and test(device)]


def pcie(context: Context) -> Iterator[Finding]:
    """The link has fewer lanes than it could. Its generation falls at idle by design and is never a fault by itself."""

    def narrow(device: Device) -> bool:
        link = _facts(device, "pcie")
        return bool(link.get("width") and link.get("width_max") and link["width"] < link["width_max"])

    devices = _chosen(context, narrow)
    if devices:
        link = _facts(devices[0], "pcie")
        yield Finding(
            code="PCIE_WIDTH_DEGRADED",
            severity="warning",
            message=f"{names(devices)}: the PCIe link has {link['width']} of {link['width_max']} lanes, so transfers take longer.",
            evidence=f"link width now x{link['width']}, at most x{link['width_max']}",
            fix="re-seat the card, use a slot with all its lanes wired, check risers and bifurcation; normal in some virtual machines",
        )


def power(context: Context) -> Iterator[Finding]:
    """The power limit was set below the product's own."""

    def capped(device: Device) -> bool:
        facts = _facts(device, "power")
        return bool(facts.get("limit_w") and facts.get("default_w") and facts["limit_w"] < POWER_TOLERANCE * facts["default_w"])

    devices = _chosen(context, capped)
    if devices:
        facts = _facts(devices[0], "power")
        yield Finding(
            code="POWER_CAP_LOWERED",
            severity="warning",
            message=f"{names(devices)}: the power limit is {facts['limit_w']:.0f} W, {facts['default_w']:.0f} W by default; "
            "peaks of the data sheet cannot be reached.",
            evidence="power limit against its default",
            fix=f"sudo nvidia-smi -pl {facts['default_w']:.0f}",
        )


def throttled(context: Context) -> Iterator[Finding]:
    """Clocks are held down now. Idle clocks and clocks that the user set are no throttling."""
    devices = _chosen(context, lambda device: device.details.get("throttle"))
    reasons = sorted({str(reason) for device in devices for reason in device.details["throttle"]})
    if devices:
        thermal = any("thermal" in reason for reason in reasons)
        cause = (
            "cool it: check fans, dust and inlet temperature"
            if thermal
            else "check power limit, power supply and `nvidia-smi -q -d PERFORMANCE`"
        )
        yield Finding(
            code="THROTTLED_NOW",
            severity="warning",
            message=f"{names(devices)}: clocks are held down now ({', '.join(reasons)}).",
            evidence="clock event reasons",
            fix=cause,
        )


def ecc(context: Context) -> Iterator[Finding]:
    """Memory errors since boot, memory that waits for a reset to be retired, rows that could not be remapped."""
    errors = _chosen(context, lambda device: (_facts(device, "ecc").get("volatile_uncorrected") or 0) > 0)
    if errors:
        count = sum(_facts(device, "ecc")["volatile_uncorrected"] for device in errors)
        yield Finding(
            code="ECC_ERRORS",
            severity="error",
            message=f"{names(errors)}: {count} uncorrectable memory errors since the driver was loaded.",
            evidence="volatile uncorrected ECC errors",
            fix="sudo nvidia-smi --gpu-reset; if they return, have the card replaced",
        )
    waiting = _chosen(context, lambda device: _facts(device, "ecc").get("pending_retirement") or _facts(device, "ecc").get("remap_pending"))
    if waiting:
        yield Finding(
            code="ECC_RETIREMENT_PENDING",
            severity="warning",
            message=f"{names(waiting)}: faulty memory waits to be retired at the next reset.",
            evidence="pending page retirement or row remapping",
            fix="sudo nvidia-smi --gpu-reset (with no process on it), or reboot",
        )
    failed = _chosen(context, lambda device: _facts(device, "ecc").get("remap_failure"))
    if failed:
        yield Finding(
            code="ECC_REMAP_FAILED",
            severity="error",
            message=f"{names(failed)}: a faulty row of memory could not be remapped.",
            evidence="row remapping failure",
            fix="have the card replaced",
        )
    pending = _chosen(context, lambda device: _facts(device, "ecc").get("pending_mode") not in (None, _facts(device, "ecc").get("mode")))
    if pending:
        yield Finding(
            code="ECC_MODE_PENDING",
            severity="info",
            message=f"{names(pending)}: the ECC mode changes at the next reset, and with it the memory there is.",
            evidence="ECC mode pending differs from current",
            fix="reboot",
        )


def nvlink(context: Context) -> Iterator[Finding]:
    """Some links of a GPU are up and others are not, or its neighbours have more."""
    active = {device.id: _facts(device, "nvlink").get("active") for device in accelerators(context)}
    most = {device.name: 0 for device in accelerators(context)}
    for device in accelerators(context):
        most[device.name] = max(most[device.name], active[device.id] or 0)
    down = _chosen(context, lambda device: active[device.id] is not None and active[device.id] < most[device.name])
    if down:
        yield Finding(
            code="NVLINK_DOWN",
            severity="error",
            message=f"{names(down)}: {active[down[0].id]} NVLinks are up, {most[down[0].name]} on its equals.",
            evidence="nvidia-smi nvlink --status",
            fix="check the fabric manager (`systemctl status nvidia-fabricmanager`), bridges and dmesg; then reset the GPU",
        )
    alone = _chosen(context, lambda device: _facts(device, "nvlink").get("total") and active[device.id] == 0 and most[device.name] == 0)
    if len(alone) > 1:
        yield Finding(
            code="NVLINK_INACTIVE",
            severity="warning",
            message=f"{names(alone)}: none of their NVLinks is up, so they talk over PCIe.",
            evidence="nvidia-smi nvlink --status",
            fix="start the fabric manager (`sudo systemctl start nvidia-fabricmanager`) or fit the bridges",
        )


def recovery(context: Context) -> Iterator[Finding]:
    """The driver itself asks for a reset, or an accelerator reports bad health."""
    asked = _chosen(context, lambda device: str(device.details.get("recovery_action", "None")).lower() not in ("none", "n/a"))
    if asked:
        yield Finding(
            code="GPU_NEEDS_RESET",
            severity="error",
            message=f"{names(asked)}: the driver asks for: {asked[0].details['recovery_action']}.",
            evidence="GPU recovery action",
            fix="sudo nvidia-smi --gpu-reset, or reboot",
        )
    sick = [device for device in accelerators(context) if str(device.details.get("health", "OK")).upper() not in ("OK", "WARNING")]
    if sick:
        yield Finding(
            code="NPU_UNHEALTHY",
            severity="error",
            message=f"{names(sick)}: health is {sick[0].details['health']}.",
            evidence="npu-smi info",
            fix=sick[0].fix,
        )


FINDERS = (pcie, power, throttled, ecc, nvlink, recovery)
