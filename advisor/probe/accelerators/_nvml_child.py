"""Runs in a child: asks NVML everything, one JSON object a line, so that what came before a hang or an abort is kept.

Each field has a guard of its own: a function that an old library lacks, or that one GPU refuses, costs that field alone.
Lines: ``{"kind": "init", …}``, then one ``{"kind": "gpu", …}`` per index, then ``{"kind": "end"}``.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

MAX_LINKS = 18
P2P_READ = 0  # NVML_P2P_CAPS_INDEX_READ of nvml.h; some bindings spell it as a tuple


def say(record: dict[str, Any]) -> None:
    """Write one line at once: the process may not live to write another."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


class Asker:
    """Calls NVML functions for one device and keeps the error number of each that fails, by field."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.errors: dict[str, int] = {}
        # What the binding raises by itself where a library is older than it; not an NVMLError.
        self.mismatch = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)

    def __call__(self, field: str, name: str, *args: Any, read: Callable[[Any], Any] | None = None, **named: Any) -> Any:
        function = getattr(self.nvml, name, None)
        if function is None:  # an older binding
            self.errors[field] = self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND
            return None
        try:
            found = function(*args, **named)
            found = read(found) if read is not None else found
        except self.nvml.NVMLError as error:
            self.errors[field] = int(getattr(error, "value", self.nvml.NVML_ERROR_UNKNOWN))
            return None
        except self.mismatch:
            self.errors[field] = self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND
            return None
        except (TypeError, ValueError, AttributeError, IndexError, ctypes.ArgumentError):
            self.errors[field] = self.nvml.NVML_ERROR_UNKNOWN
            return None
        self.errors.pop(field, None)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found


def memory(ask: Asker, handle: Any) -> int | None:
    """Total bytes: the versioned call first (it counts what the driver reserves apart), the old one where that fails."""
    version = getattr(ask.nvml, "nvmlMemory_v2", None)
    total = None
    if version is not None:
        total = ask("memory", "nvmlDeviceGetMemoryInfo", handle, version=version, read=lambda found: int(found.total))
    if total is None:
        total = ask("memory", "nvmlDeviceGetMemoryInfo", handle, read=lambda found: int(found.total))
    return total


def pci(found: Any) -> dict[str, Any]:
    """Read nvmlPciInfo: the address from its numbers, which no version spells differently."""
    return {
        "bus_id": f"{found.domain:04x}:{found.bus:02x}:{found.device:02x}.0",
        "device": int(found.pciDeviceId) >> 16,
        "vendor": int(found.pciDeviceId) & 0xFFFF,
    }


def gpu(ask: Asker, handle: Any) -> dict[str, Any]:
    """Return what one GPU answers."""
    nvml = ask.nvml
    facts: dict[str, Any] = {
        "uuid": ask("uuid", "nvmlDeviceGetUUID", handle),
        "name": ask("name", "nvmlDeviceGetName", handle),
        "pci": ask("pci", "nvmlDeviceGetPciInfo", handle, read=pci),
        "memory": memory(ask, handle),
        "compute_capability": ask("compute_capability", "nvmlDeviceGetCudaComputeCapability", handle, read=list),
        "minor": ask("minor", "nvmlDeviceGetMinorNumber", handle),
        "numa_node": ask("numa_node", "nvmlDeviceGetNumaNodeId", handle),
        "persistence": ask("persistence", "nvmlDeviceGetPersistenceMode", handle),
        "compute_mode": ask("compute_mode", "nvmlDeviceGetComputeMode", handle),
        "virtualization": ask("virtualization", "nvmlDeviceGetVirtualizationMode", handle),
        "mig": ask("mig", "nvmlDeviceGetMigMode", handle, read=list),
        "pcie": {
            "gen": ask("pcie.gen", "nvmlDeviceGetCurrPcieLinkGeneration", handle),
            "gen_max": ask("pcie.gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", handle),
            "width": ask("pcie.width", "nvmlDeviceGetCurrPcieLinkWidth", handle),
            "width_max": ask("pcie.width_max", "nvmlDeviceGetMaxPcieLinkWidth", handle),
        },
        "power_mw": {
            "limit": ask("power.limit", "nvmlDeviceGetPowerManagementLimit", handle),
            "default": ask("power.default", "nvmlDeviceGetPowerManagementDefaultLimit", handle),
            "range": ask("power.range", "nvmlDeviceGetPowerManagementLimitConstraints", handle, read=list),
            "draw": ask("power.draw", "nvmlDeviceGetPowerUsage", handle),
        },
        "clocks": {
            name: ask(f"clock.{name}", "nvmlDeviceGetClockInfo", handle, kind)
            for name, kind in (("sm", nvml.NVML_CLOCK_SM), ("mem", nvml.NVML_CLOCK_MEM))
        },
        "clocks_max": {
            name: ask(f"clock_max.{name}", "nvmlDeviceGetMaxClockInfo", handle, kind)
            for name, kind in (("sm", nvml.NVML_CLOCK_SM), ("mem", nvml.NVML_CLOCK_MEM))
        },
        "temperature": ask("temperature", "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
        "utilization": ask("utilization", "nvmlDeviceGetUtilizationRates", handle, read=lambda found: int(found.gpu)),
        "reasons": reasons(ask, handle),
        "ecc": ecc(ask, handle),
        "processes": ask("processes", "nvmlDeviceGetComputeRunningProcesses", handle, read=len),
        "nvlinks": nvlinks(ask, handle),
    }
    facts["slices"] = slices(ask, handle) if facts["mig"] and facts["mig"][0] else []
    facts["errors"] = dict(ask.errors)
    return facts


def reasons(ask: Asker, handle: Any) -> int | None:
    """The bits of what holds the clock down, by the function's new name or its old one."""
    found = ask("reasons", "nvmlDeviceGetCurrentClocksEventReasons", handle)
    return found if found is not None else ask("reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", handle)


def ecc(ask: Asker, handle: Any) -> dict[str, Any]:
    """Modes, uncorrected counts, and memory that waits for retirement or could not be remapped."""
    nvml = ask.nvml

    def count(field: str, scope: int) -> int | None:
        return ask(field, "nvmlDeviceGetTotalEccErrors", handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, scope)

    return {
        "mode": ask("ecc", "nvmlDeviceGetEccMode", handle, read=list),
        "volatile": count("ecc.volatile", nvml.NVML_VOLATILE_ECC),
        "aggregate": count("ecc.aggregate", nvml.NVML_AGGREGATE_ECC),
        "retirement": ask("ecc.retirement", "nvmlDeviceGetRetiredPagesPendingStatus", handle),
        "remapped": ask("ecc.remapped", "nvmlDeviceGetRemappedRows", handle, read=lambda found: [int(part) for part in found]),
    }


def nvlinks(ask: Asker, handle: Any) -> dict[str, Any]:
    """Which links are up, what is at their other end, and the speed of one link in MB/s per direction."""
    states, peers, version = [], [], None
    for link in range(MAX_LINKS):
        state = ask("nvlink", "nvmlDeviceGetNvLinkState", handle, link)
        if state is None:
            break
        states.append(int(state))
        if state:
            remote = ask("nvlink.remote", "nvmlDeviceGetNvLinkRemotePciInfo", handle, link, read=pci)
            peers.append(remote["bus_id"] if remote else None)
            version = version or ask("nvlink.version", "nvmlDeviceGetNvLinkVersion", handle, link)
    speed = None
    field = getattr(ask.nvml, "NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON", None)
    if any(states) and field is not None:
        speed = ask("nvlink.speed", "nvmlDeviceGetFieldValues", handle, [field], read=_first_value)
    return {"states": states, "peers": peers, "version": version, "mb_per_s": speed}


def _first_value(values: Any) -> int | None:
    return int(values[0].value.uiVal) if values and values[0].nvmlReturn == 0 and values[0].value.uiVal > 0 else None


def slices(ask: Asker, handle: Any) -> list[dict[str, Any]]:
    """Return the MIG devices of a GPU, each with its own memory and multiprocessors."""
    found = []
    for index in range(ask("mig.count", "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        child = ask("mig.handle", "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if child is None:
            continue  # holes are normal: the count is the most that could be there
        mine = Asker(ask.nvml)
        found.append(
            {
                "index": index,
                "uuid": mine("uuid", "nvmlDeviceGetUUID", child),
                "name": mine("name", "nvmlDeviceGetName", child),
                "memory": memory(mine, child),
                "gpu_instance": mine("gpu_instance", "nvmlDeviceGetGpuInstanceId", child),
                "compute_instance": mine("compute_instance", "nvmlDeviceGetComputeInstanceId", child),
                "multiprocessors": mine("attributes", "nvmlDeviceGetAttributes", child, read=lambda item: int(item.multiprocessorCount)),
                "errors": dict(mine.errors),
            }
        )
    return found


def peers(nvml: Any, handles: dict[int, Any]) -> dict[str, int]:
    """Return the P2P read status of each pair (0 is fine), for machines of ordinary size."""
    found: dict[str, int] = {}
    if len(handles) > 16:
        return found
    ask = Asker(nvml)
    for first in handles:
        for second in handles:
            if first < second:
                status = ask("p2p", "nvmlDeviceGetP2PStatus", handles[first], handles[second], P2P_READ)
                if status is not None:
                    found[f"{first},{second}"] = int(status)
    return found


def main() -> int:
    """Ask, and print; the exit status is 0 however NVML answers."""
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        say({"kind": "init", "ok": False, "code": int(getattr(error, "value", -1)), "text": str(error)})
        return 0
    ask = Asker(nvml)
    system = {
        "driver_version": ask("driver", "nvmlSystemGetDriverVersion"),
        "nvml_version": ask("nvml", "nvmlSystemGetNVMLVersion"),
        "cuda_driver_version": ask("cuda", "nvmlSystemGetCudaDriverVersion"),
        "count": ask("count", "nvmlDeviceGetCount") or 0,
    }
    say({"kind": "init", "ok": True, **system, "errors": ask.errors})
    handles: dict[int, Any] = {}
    for index in range(min(int(system["count"]), 1024)):
        each = Asker(nvml)
        handle = each("handle", "nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            say({"kind": "gpu", "index": index, "lost": True, "errors": each.errors})
            continue
        handles[index] = handle
        say({"kind": "gpu", "index": index, **gpu(each, handle)})
    say({"kind": "end", "p2p": peers(nvml, handles)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
