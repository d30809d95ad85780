"""NVIDIA: what holds for the driver as a whole, given to every GPU, and the PCI tree compared with what the driver lists."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from advisor.probe.accelerators._sighting import Reading, Sighting
from advisor.probe.accelerators.cuda import CudaAnswer
from advisor.probe.accelerators.nvidia_proc import KernelModule
from advisor.probe.accelerators.nvml import NOT_FOUND, NOT_SUPPORTED
from advisor.probe.accelerators.pci import PciDevice
from advisor.probe.records import Finding, State
from advisor.probe.root import Root

# Products whose memory is the machine's own although they sit on a PCI bus: by PCI id table, else by the name the driver prints.
# Only for these does "memory not supported" mean unified memory.
_INTEGRATED_NAME = re.compile(r"\bGB10\b|\(nvgpu\)|\b(?:Orin|Xavier|Thor)\b|\bTegra\b")
_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


@dataclass(slots=True)
class Library:
    """What the driver's library or its tool said: a general failure, if any, its version, and the GPUs it listed."""

    state: State | None = None
    reason: str | None = None
    version: str | None = None
    asked: bool = False
    complete: bool = False
    reading: Reading = field(default_factory=Reading)
    cuda: CudaAnswer | None = None
    p2p: dict[str, int] = field(default_factory=dict)


def judge(reading: Reading, root: Root, library: Library, module: KernelModule, seen: list[PciDevice], *, wsl: bool) -> None:
    """Fill in states and reasons. Where several hold for one GPU the merge takes the worst."""
    for item in reading.sightings:
        _unified(item, root)
        if item.source in ("nvml", "proc") and not wsl:
            _node(item, root)
        _library_failure(item, library)
        _cuda_failure(item, library.cuda)
        _empty_mig(item)
    _versions(reading, root, library, module, wsl)
    _cross_check(reading, root, library, module, seen)
    _peers(reading, library)


def _unified(item: Sighting, root: Root) -> None:
    integrated = bool(item.details.get("integrated")) or _INTEGRATED_NAME.search(item.name or "") is not None
    not_told = item.details.get("memory_error", NOT_SUPPORTED) in (NOT_SUPPORTED, NOT_FOUND)
    if not integrated or item.memory_bytes is not None or item.state == "lost" or not not_told:
        return
    item.memory_kind = item.memory_kind or "unified"
    if item.memory_kind == "unified":
        match = re.search(r"^MemTotal:\s+(\d{1,15}) kB", root.text("/proc/meminfo") or "", re.MULTILINE)
        if match:
            item.details.setdefault("pool_bytes", int(match.group(1)) * 1024)
        item.memory_bytes = item.details.get("cuda_memory_bytes")
        item.unknown["memory_bytes"] = "unified memory: the GPU has none of its own and shares the machine's"


def _node(item: Sighting, root: Root) -> None:
    minor = item.details.get("minor")
    if not isinstance(minor, int) or not root.names("/dev") or not root.exists("/dev/nvidiactl"):
        return
    node = f"/dev/nvidia{minor}"
    reachable = root.access(node)
    item.node = bool(reachable)
    if reachable is False and item.state is None:
        item.state, item.reason = "permission_denied", f"no permission on {node}"
        item.fix = f"sudo chmod 666 {node} /dev/nvidiactl /dev/nvidia-uvm (or set NVreg_DeviceFileMode=0666 for the nvidia module)"


def _library_failure(item: Sighting, library: Library) -> None:
    """A failure of the library as a whole holds for each GPU that the kernel shows; what NVML told before a hang is kept."""
    if library.state is None or item.state is not None or item.driver is False:
        return
    if item.source == "nvml" and library.state in ("timeout", "crashed"):
        item.details["library_incomplete"] = library.reason
        return
    item.state, item.reason = library.state, library.reason
    if library.state in ("version_mismatch", "no_library"):
        item.library = False
    if library.state == "no_driver":
        item.driver = False


def _cuda_failure(item: Sighting, cuda: CudaAnswer | None) -> None:
    """NVML may answer where CUDA cannot start."""
    if cuda is None or cuda.usable is not False or item.source != "nvml" or item.state is not None:
        return
    item.runtime = False
    item.state, item.reason = cuda.state or "unsupported", cuda.reason
    item.fix = (
        "check `nvidia-smi -q`, that nvidia_uvm is loaded (`sudo modprobe nvidia_uvm`), and for a vGPU that its profile allows compute"
    )


def _empty_mig(item: Sighting) -> None:
    mode = (item.details.get("mig") or {}).get("mode")
    if not mode or item.replaced or item.state is not None or item.details.get("mig_slice"):
        return
    item.state, item.reason = "unsupported", "MIG is on, and no slice was made: nothing can run here"
    item.fix = "sudo nvidia-smi mig -cgi <profile> -C (nvidia-smi mig -lgip lists them), or sudo nvidia-smi -mig 0"


def _versions(reading: Reading, root: Root, library: Library, module: KernelModule, wsl: bool) -> None:
    if module.version:
        for item in reading.sightings:
            item.details.setdefault("driver_version", module.version)
    # On WSL the two numbers are those of two systems and always differ.
    if library.state != "version_mismatch" or wsl:
        return
    ours = library.version or _library_file_version(root)
    words = f"library {ours or 'of another version'}, kernel module {module.version or 'of unknown version'}"
    for item in reading.sightings:
        if item.state == "version_mismatch":
            item.reason = f"driver and library versions differ: {words}"


def _library_file_version(root: Root) -> str | None:
    """Return the version in the name of the file that ``libnvidia-ml.so.1`` links to, or None."""
    for folder in _LIBRARY_FOLDERS:
        match = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", root.link(f"{folder}/libnvidia-ml.so.1") or "")
        if match:
            return match.group(1)
    return None


def _cross_check(reading: Reading, root: Root, library: Library, module: KernelModule, seen: list[PciDevice]) -> None:
    """A GPU that only the PCI tree knows is lost, or was not granted to this container; one that only the driver knows is odd."""
    listed = {item.bus_id for item in library.reading.sightings if item.bus_id}
    if not listed or library.state is not None or (root.is_live and not library.complete):
        return
    held = {gpu.bus_id: gpu for gpu in module.gpus}
    for device in seen:
        if device.bus_id is None or device.bus_id in listed or device.driver not in (None, "nvidia"):
            continue
        state, reason, node = _why_missing(root, device.bus_id, held.get(device.bus_id))
        for item in reading.sightings:
            if item.bus_id == device.bus_id and item.state is None:
                item.state, item.reason, item.node = state, reason, node
    extra = sorted(listed - {device.bus_id for device in seen})
    if extra and seen and all(device.source == "pci" for device in seen):
        reading.findings.append(
            Finding(
                code="GPU_NOT_IN_PCI_TREE",
                severity="warning",
                message=f"The NVIDIA driver lists {', '.join(extra)}, and the PCI tree does not show it.",
                fix="inside a container or a virtual machine mount /sys whole; on a host check dmesg for PCI errors",
                evidence=f"{len(listed)} GPUs by the driver, {len(seen)} on the PCI bus",
            )
        )


def _why_missing(root: Root, bus_id: str, held: Sighting | None) -> tuple[State, str, bool | None]:
    minor = held.details.get("minor") if held else None
    if isinstance(minor, int) and root.names("/dev") and not root.exists(f"/dev/nvidia{minor}"):
        return "permission_denied", f"/dev/nvidia{minor} is not here: the GPU was not granted to this container", False
    if held is not None and held.details.get("gpu_excluded"):
        return "unsupported", "excluded by the driver (NVreg_ExcludedGpus)", None
    return "lost", f"the PCI tree shows {bus_id}, and the driver does not list it: fallen off the bus", None


def _peers(reading: Reading, library: Library) -> None:
    """Note with which others a GPU cannot exchange data directly, by NVML index."""
    if not library.p2p:
        return
    for item in reading.sightings:
        index = item.details.get("nvml_index")
        if item.source != "nvml" or index is None:
            continue
        pairs = [pair.split(",") for pair, status in library.p2p.items() if status != 0]
        item.details["p2p_blocked"] = sorted(int(other) for pair in pairs if str(index) in pair for other in pair if other != str(index))
