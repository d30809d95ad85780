"""NVML, asked in a child with a deadline, and its answers as sightings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from advisor.probe.accelerators._sighting import Sighting, normal_bdf
from advisor.probe.accelerators._text import compact
from advisor.probe.records import DeviceLink, State
from microbench.child import python_child, run_child

NVML_DEADLINE_S = 6.0

# nvmlReturn_t, from the NVML API reference.
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, LOST, UNKNOWN = 3, 4, 13, 15, 999
ERRORS = {
    1: "not initialised", 2: "invalid argument", 3: "not supported", 4: "no permission", 6: "not found", 9: "driver not loaded",
    10: "timeout", 12: "library not found", 13: "function not in this library", 15: "the GPU is lost", 16: "the GPU requires a reset",
    17: "blocked by the operating system", 18: "driver and library versions differ", 999: "unknown error",
}  # fmt: skip
INIT_STATES: dict[int, State] = {
    4: "permission_denied",
    9: "no_driver",
    12: "no_library",
    17: "permission_denied",
    18: "version_mismatch",
    15: "lost",
}

# nvmlClocksEventReasons, from nvml.h. Idle (0x1), clocks the user set (0x2), boost in step (0x10) and display clocks (0x100) are no fault.
THROTTLES = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
COMPUTE_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
VIRTUALIZATION = {0: "None", 1: "Pass-Through", 2: "VGPU", 3: "Host VGPU", 4: "Host VSGA"}


# What a line of another shape makes of reading it.
SHAPES = (KeyError, TypeError, ValueError, AttributeError, IndexError)


@dataclass(slots=True)
class NvmlAnswer:
    """How NVML answered: ``state`` is None where it did, else what is wrong; what came before a hang is kept."""

    state: State | None = None
    reason: str | None = None
    driver_version: str | None = None
    library_version: str | None = None
    sightings: list[Sighting] = field(default_factory=list)
    complete: bool = False
    p2p: dict[str, int] = field(default_factory=dict)


def ask_nvml(environ: Mapping[str, str], deadline_s: float = NVML_DEADLINE_S) -> NvmlAnswer:
    """Ask NVML in a child that gets ``environ``; a hang costs ``deadline_s``, an abort nothing but the child."""
    result = run_child(python_child("advisor.probe.accelerators._nvml_child"), timeout_s=deadline_s, env=unhidden(environ))
    answer = read_nvml(result.stdout)
    if result.status == "timeout":
        answer.state, answer.reason = "timeout", f"NVML gave no answer within {deadline_s:g} s"
    elif result.status == "crashed":
        answer.state, answer.reason = "crashed", f"NVML ended the process that asked it ({result.reason})"
    elif result.status != "ok":
        answer.state, answer.reason = "unknown", f"NVML could not be asked: {result.reason}"
    return answer


def unhidden(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a library sees every GPU: what the user hides is told apart from what is there."""
    hidden = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
    return {name: text for name, text in environ.items() if name not in hidden}


def read_nvml(output: str) -> NvmlAnswer:
    """Read the lines of the child; a line that was cut off, or that the library itself wrote in between, is left out."""
    answer = NvmlAnswer()
    common: dict[str, Any] = {}
    for line in output.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        try:
            if record["kind"] == "init":
                common = _init(record, answer)
            elif record["kind"] == "gpu":
                answer.sightings += _gpu(record, common)
            elif record["kind"] == "end":
                answer.complete, answer.p2p = True, dict(record.get("p2p") or {})
        except SHAPES:
            continue
    return answer


def _init(record: dict[str, Any], answer: NvmlAnswer) -> dict[str, Any]:
    if not record.get("ok"):
        code = int(record.get("code", UNKNOWN))
        answer.state = INIT_STATES.get(code, "unknown")
        answer.reason = f"NVML does not start: {ERRORS.get(code, record.get('text'))} (NVML error {code})"
        return {}
    answer.driver_version, answer.library_version = record.get("driver_version"), record.get("nvml_version")
    version = record.get("cuda_driver_version")
    cuda = f"{version // 1000}.{version % 1000 // 10}" if isinstance(version, int) and version else None
    return {"driver_version": answer.driver_version, "nvml_version": answer.library_version, "cuda_driver_version": cuda}


def _gpu(record: dict[str, Any], common: dict[str, Any]) -> list[Sighting]:
    index, errors = record["index"], record.get("errors") or {}
    address = record.get("pci") or {}
    found = Sighting(source="nvml", target="cuda", vendor="nvidia", key=f"nvidia:{index}", driver=True, library=True)
    found.name, found.uuid = record.get("name"), record.get("uuid")
    found.bus_id = normal_bdf(address.get("bus_id"))
    found.pci_id = f"{address['vendor']:04x}:{address['device']:04x}" if address.get("vendor") and address.get("device") else None
    found.package = found.uuid or found.bus_id
    found.arch = sm_name(record.get("compute_capability"))
    found.memory_bytes = record.get("memory") or None
    found.details = compact({**common, "nvml_index": index, **_facts(record)})
    found.links = _links(record.get("nvlinks") or {})
    _problems(found, record, errors)
    slices = [_slice(part, found) for part in record.get("slices") or []]
    found.replaced = bool(slices)
    return [found, *slices]


def sm_name(capability: Any) -> str | None:
    """Return ``sm_90`` for a compute capability ``[9, 0]``, or None for anything else."""
    if not isinstance(capability, list) or len(capability) != 2 or not all(isinstance(part, int) for part in capability):
        return None
    return f"sm_{capability[0]}{capability[1]}" if capability[0] > 0 else None


def _problems(found: Sighting, record: dict[str, Any], errors: dict[str, int]) -> None:
    """Set the state of a GPU that does not answer, and why a value is missing. Lost is never mistaken for unified memory."""
    asked = [errors.get(name) for name in ("handle", "memory", "name", "uuid", "pci")]
    if LOST in asked or 16 in asked:
        found.state = "lost"
        found.reason = "NVML says that the GPU is lost" if LOST in asked else "NVML says that the GPU requires a reset"
        found.memory_bytes = None
    elif record.get("lost"):
        denied = errors.get("handle") == NO_PERMISSION
        found.state = "permission_denied" if denied else "lost"
        found.reason = f"NVML cannot open GPU {record['index']}: {ERRORS.get(errors.get('handle', UNKNOWN), 'unknown error')}"
    elif errors.get("memory") == NO_PERMISSION:
        found.details["not_readable"] = "parent not readable: insufficient permissions"
    code = errors.get("memory")
    if found.memory_bytes is None:
        found.unknown["memory_bytes"] = f"NVML: {ERRORS.get(code, f'error {code}')}" if code is not None else "NVML reports no memory"
        found.details["memory_error"] = code


def _facts(record: dict[str, Any]) -> dict[str, Any]:
    power, ecc, links = record.get("power_mw") or {}, record.get("ecc") or {}, record.get("nvlinks") or {}
    states, mig, remapped = links.get("states") or [], record.get("mig") or [], ecc.get("remapped") or []
    bits, modes, limits = record.get("reasons"), ecc.get("mode") or [], power.get("range") or []
    known_mode, numa = record.get("persistence"), record.get("numa_node")

    def watts(milliwatts: Any) -> float | None:
        return milliwatts / 1000 if isinstance(milliwatts, int) and 0 < milliwatts < 0xFFFFFFFF else None

    return {
        "minor": record.get("minor"),
        "gpu_numa_node": numa if isinstance(numa, int) and 0 <= numa < 0xFFFFFFFF else None,
        "persistence_mode": bool(known_mode) if known_mode is not None else None,
        "compute_mode": COMPUTE_MODES.get(record.get("compute_mode", -1)),
        "virtualization": VIRTUALIZATION.get(record.get("virtualization", -1)),
        "compute_capability": ".".join(str(part) for part in record.get("compute_capability") or []) or None,
        "pcie": compact(record.get("pcie") or {}),
        "power": compact(
            {
                "limit_w": watts(power.get("limit")),
                "default_w": watts(power.get("default")),
                "min_w": watts(limits[0]) if len(limits) == 2 else None,
                "max_w": watts(limits[1]) if len(limits) == 2 else None,
                "draw_w": watts(power.get("draw")),
            }
        ),
        "clocks_mhz": compact(record.get("clocks") or {}),
        "clocks_max_mhz": compact(record.get("clocks_max") or {}),
        "temperature_c": record.get("temperature"),
        "utilization_pct": record.get("utilization"),
        "processes": record.get("processes"),
        "throttle": [name for bit, name in THROTTLES.items() if bits & bit] if isinstance(bits, int) else None,
        "ecc": compact(
            {
                "mode": bool(modes[0]) if len(modes) == 2 else None,
                "pending_mode": bool(modes[1]) if len(modes) == 2 else None,
                "volatile_uncorrected": ecc.get("volatile"),
                "aggregate_uncorrected": ecc.get("aggregate"),
                "pending_retirement": bool(ecc["retirement"]) if ecc.get("retirement") is not None else None,
                "remap_pending": bool(remapped[2]) if len(remapped) >= 4 else None,
                "remap_failure": bool(remapped[3]) if len(remapped) >= 4 else None,
            }
        ),
        "mig": {"mode": bool(mig[0]), "pending": bool(mig[1])} if len(mig) == 2 else None,
        "nvlink": compact(
            {"active": sum(states), "total": len(states), "version": links.get("version"), "mb_per_s_per_link": links.get("mb_per_s")}
        )
        if states
        else None,
    }


def _links(links: dict[str, Any]) -> tuple[DeviceLink, ...]:
    """Join the NVLinks by their other end; the bandwidth of one link is what the driver reports, in MB/s per direction."""
    speed = links.get("mb_per_s")
    ends: dict[str, int] = {}
    for peer in links.get("peers") or []:
        if peer:
            ends[peer] = ends.get(peer, 0) + 1
    return tuple(
        DeviceLink(to=peer, kind="nvlink", bandwidth_bytes_per_s=count * speed * 1e6 if speed else None) for peer, count in ends.items()
    )


def _slice(part: dict[str, Any], parent: Sighting) -> Sighting:
    instance, compute = part.get("gpu_instance"), part.get("compute_instance")
    errors = part.get("errors") or {}
    found = Sighting(
        source="nvml",
        target="cuda",
        vendor="nvidia",
        part=f"{instance}/{compute}",
        name=part.get("name") or (f"{parent.name} MIG" if parent.name else None),
        arch=parent.arch,
        memory_bytes=part.get("memory") or None,
        memory_kind="dedicated" if part.get("memory") else None,
        bus_id=parent.bus_id,
        pci_id=parent.pci_id,
        uuid=part.get("uuid"),
        compute_units=part.get("multiprocessors"),
        package=parent.package or parent.key,
        driver=True,
        library=True,
        details=compact(
            {
                "driver_version": parent.details.get("driver_version"),
                "cuda_driver_version": parent.details.get("cuda_driver_version"),
                "parent_index": parent.details.get("nvml_index"),
                "parent": parent.details.get("not_readable"),
                "mig_slice": compact({"gpu_instance": instance, "compute_instance": compute, "index": part.get("index")}),
            }
        ),
    )
    if found.memory_bytes is None:
        found.unknown["memory_bytes"] = f"NVML: {ERRORS.get(errors.get('memory', UNKNOWN), 'unknown error')}"
    return found
