"""nvidia-smi: the table it prints without options, ``-L``, and what it says instead when it fails."""

from __future__ import annotations

import re

from advisor.probe.accelerators._sighting import Reading, Sighting, normal_bdf
from advisor.probe.accelerators._text import compact, number, size_bytes, yes
from advisor.probe.records import State

_LISTED = re.compile(r"^\s*GPU\s+(\d+):\s*(.*?)\s*\((?:UUID|uuid):\s*([^)\s]+)\s*\)?")
_SLICE = re.compile(r"^\s*MIG\s+(\S+)\s+Device\s+(\d+):\s*\((?:UUID|uuid):\s*([^)\s]+)\s*\)?")
_VERSIONS = (
    ("driver_version", re.compile(r"(?:Driver|KMD) Version:\s*([\d.]+)")),
    ("cuda_driver_version", re.compile(r"CUDA(?: UMD)? Version:\s*([\d.]+)")),
    ("tool_version", re.compile(r"NVIDIA-SMI\s+([\d.]+)")),
)


def parse_smi_list(text: str) -> Reading:
    """Read ``nvidia-smi -L``: names and UUIDs, MIG slices below their GPU; both styles of MIG UUID."""
    reading = Reading()
    parent: Sighting | None = None
    for line in text.splitlines():
        gpu, part = _LISTED.match(line), _SLICE.match(line)
        if gpu:
            index, name, uuid = gpu.groups()
            parent = _seen("nvidia-smi -L", key=f"nvidia:{index}", name=name or None, uuid=uuid, package=uuid)
            parent.details["nvml_index"] = int(index)
            reading.sightings.append(parent)
        elif part and parent is not None:
            profile, index, uuid = part.groups()
            parent.replaced = True
            child = _seen("nvidia-smi -L", uuid=uuid, package=parent.uuid)
            child.name = f"{parent.name} MIG {profile}" if parent.name else f"MIG {profile}"
            child.details["mig_slice"] = {"profile": profile, "index": int(index), **_legacy(uuid)}
            child.part = "/".join(uuid.split("/")[1:]) or None
            child.unknown["memory_bytes"] = "nvidia-smi -L tells a slice's profile, not its memory"
            reading.sightings.append(child)
    return reading


def _legacy(uuid: str) -> dict[str, int]:
    """Read the instance numbers of ``MIG-GPU-<uuid>/<gpu instance>/<compute instance>`` (drivers before 470)."""
    match = re.search(r"/(\d+)/(\d+)$", uuid)
    return {"gpu_instance": int(match.group(1)), "compute_instance": int(match.group(2))} if match else {}


def parse_smi_table(text: str) -> Reading:
    """Read the table that ``nvidia-smi`` prints: two or three lines a GPU, then one line or more a MIG slice."""
    reading = Reading()
    versions = compact({name: match.group(1) if (match := pattern.search(text)) else None for name, pattern in _VERSIONS})
    gpus: dict[str, Sighting] = {}
    section, current, row = "gpus", None, 0
    for line in text.splitlines():
        if line.startswith("+") or set(line.strip()) <= {"+", "-", "=", "|"}:
            current, row = (None, 0) if section == "gpus" else (current, 0)
            continue
        if re.search(r"\|\s*MIG devices", line):
            section = "mig"
            continue
        if re.search(r"\|\s*Processes", line):
            break
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if section == "mig":
            _slice_row(cells, gpus, reading)
        elif len(cells) >= 3 and current is None:
            current = _first_row(cells, versions)
            if current is not None:
                gpus[str(current.key)] = current
                reading.sightings.append(current)
        elif len(cells) >= 3 and current is not None:
            row += 1
            _next_row(cells, current, row)
    return reading


def _first_row(cells: list[str], versions: dict[str, str]) -> Sighting | None:
    match = re.match(r"^(\d+)\s+(.+?)\s+(\S+)$", cells[0])
    if match is None or match.group(2).startswith("Name"):
        return None
    index, name, last = match.groups()
    found = _seen("nvidia-smi", key=f"nvidia:{index}", name=name, bus_id=normal_bdf(cells[1]))
    found.package = found.bus_id
    found.details = compact(
        {
            **versions,
            "nvml_index": int(index),
            "persistence_mode": yes(last),
            "driver_model": last if last in ("WDDM", "TCC", "MCDM") else None,
            "name_truncated": True if name.endswith("...") else None,
        }
    )
    return found


def _next_row(cells: list[str], found: Sighting, row: int) -> None:
    memory = re.search(r"(\S+)\s*/\s*(\d+\s*[KMGT]i?B)", cells[1])
    if row == 1:
        if memory:
            found.memory_bytes = size_bytes(memory.group(2), "MiB")
        else:
            found.unknown["memory_bytes"] = f"nvidia-smi prints {cells[1] or 'nothing'!r} for the memory"
            if "lost" in cells[1].lower():
                found.state, found.reason = "lost", "nvidia-smi says that the GPU is lost"
        power = re.search(r"(\S+)\s*/\s*(\S+)\s*$", cells[0])
        cap = number(power.group(2)) if power else None
        mode = re.split(r"\s{2,}", cells[2])[-1]
        found.details.update(
            compact({"power": {"limit_w": cap} if cap else None, "compute_mode": mode if mode and mode != "N/A" else None})
        )
    elif row == 2 and yes(cells[2]) is not None:
        found.details["mig"] = {"mode": yes(cells[2])}


def _slice_row(cells: list[str], gpus: dict[str, Sighting], reading: Reading) -> None:
    """Read ``|  0    7   0   0  |  12MiB / 9856MiB | 14      0 | …``: GPU, GPU instance, compute instance, slice."""
    match = re.match(r"^(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$", cells[0])
    if match is None or len(cells) < 3:
        return
    index, instance, compute, number_ = match.groups()
    parent = gpus.get(f"nvidia:{index}")
    memory = re.search(r"/\s*(\d+\s*[KMGT]i?B)", cells[1])
    units = re.match(r"^(\d+)", cells[2])
    child = _seen("nvidia-smi", part=f"{instance}/{compute}")
    child.memory_bytes = size_bytes(memory.group(1), "MiB") if memory else None
    child.compute_units = int(units.group(1)) if units else None
    child.details["mig_slice"] = {"gpu_instance": int(instance), "compute_instance": int(compute), "index": int(number_)}
    if parent is not None:
        parent.replaced = True
        child.bus_id, child.package = parent.bus_id, parent.package or parent.key
        child.name = f"{parent.name} MIG" if parent.name else None
    reading.sightings.append(child)


def _seen(source: str, **facts: str | None) -> Sighting:
    found = Sighting(source=source, target="cuda", vendor="nvidia", driver=True, library=True)
    for name, fact in facts.items():
        setattr(found, name, fact)
    return found


# What nvidia-smi prints in place of a table, and the state that tells of.
_FAILURES: tuple[tuple[str, State], ...] = (
    (r"Driver/library version mismatch", "version_mismatch"),
    (r"couldn't communicate with the NVIDIA driver", "no_driver"),
    (r"Driver Not Loaded", "no_driver"),
    (r"couldn't find libnvidia-ml", "no_library"),
    (r"Insufficient Permissions", "permission_denied"),
    (r"GPU is lost", "lost"),
    (r"Unable to determine the device handle", "lost"),
    (r"GPU access blocked by the operating system", "permission_denied"),
    (r"Failed to initialize NVML", "unknown"),
)


def failure(text: str) -> tuple[State, str, str | None] | None:
    """Return the state, the tool's own words and the bus address they name, if the text is an error of nvidia-smi; else None."""
    for line in text.splitlines():
        if line.lstrip().startswith(("|", "+", "<")):
            continue
        for pattern, state in _FAILURES:
            if re.search(pattern, line, re.IGNORECASE):
                return state, " ".join(line.split())[:200], normal_bdf(line)
    return None


def library_version(text: str) -> str | None:
    """Return the library version that a mismatch message names (``NVML library version: 550.144``), or None."""
    match = re.search(r"NVML library version:\s*([\d.]+)", text)
    return match.group(1) if match else None
