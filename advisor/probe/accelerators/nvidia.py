"""NVIDIA: which sources to ask on this machine, and what their agreement or disagreement means."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from advisor.probe.accelerators import nvidia_smi, nvidia_smi_text
from advisor.probe.accelerators._libs import find_library
from advisor.probe.accelerators._sighting import Reading, Sighting
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators._tools import recorded, run_tool
from advisor.probe.accelerators.nvidia_proc import KernelModule, read_module
from advisor.probe.accelerators.nvidia_topo import parse_topo
from advisor.probe.accelerators.nvml import CudaAnswer, NvmlAnswer, ask_cuda, ask_nvml
from advisor.probe.accelerators.pci import NVIDIA, PciDevice, pcie_facts
from advisor.probe.accelerators.tegra import read_tegra
from advisor.probe.accelerators.wsl import LIBRARIES, NODE, is_wsl, wsl_environ
from advisor.probe.records import Finding, State
from advisor.probe.root import Root

NVML = "libnvidia-ml.so.1"
CUDA = "libcuda.so.1"

# Products whose memory is the machine's own although they sit on a PCI bus, by PCI id table; by name as NVML prints it where
# no id was recorded. Only for these does "memory not supported" mean unified memory.
_INTEGRATED_NAME = re.compile(r"\bGB10\b|\(nvgpu\)|\b(?:Orin|Xavier|Thor)\b|\bTegra\b")


@dataclass(slots=True)
class Library:
    """What the driver's library or its tool said: a general failure, if any, and the versions."""

    state: State | None = None
    reason: str | None = None
    version: str | None = None
    asked: bool = False
    complete: bool = False
    reading: Reading = field(default_factory=Reading)
    cuda: CudaAnswer | None = None
    p2p: dict[str, int] = field(default_factory=dict)


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return the NVIDIA GPUs of a machine, MIG slices in place of their parents."""
    seen = [device for device in pci if device.vendor == NVIDIA and device.is_gpu]
    module = read_module(root)
    tegra, wsl = read_tegra(root), is_wsl(root)
    library = _ask(root, wsl) if root.is_live else _recorded(root)
    if root.is_live and not (seen or module.loaded or tegra or library.asked):
        return Reading()
    reading = Reading(sightings=list(library.reading.sightings))
    if library.cuda is not None:
        reading.sightings += _cuda_sightings(library)
    reading.sightings += module.gpus
    if tegra is not None:
        reading.sightings.append(tegra)
    if wsl and root.exists(NODE) and not reading.sightings and library.state is not None:
        reading.sightings.append(Sighting(source="wsl", target="cuda", vendor="nvidia", key="nvidia:0", driver=True, node=True))
    reading.sightings += [_from_pci(device, root, module) for device in seen]
    _spread(reading, root, library, module, wsl)
    _cross_check(reading, root, library, module, seen)
    return reading


def _ask(root: Root, wsl: bool) -> Library:
    """Ask the libraries of this machine in children, or nvidia-smi where NVML is not there. Nothing without a sign of NVIDIA."""
    extra = (LIBRARIES,) if wsl else ()
    signs = (NODE if wsl else "/dev/nvidiactl", "/proc/driver/nvidia", "/sys/module/nvidia", "/dev/nvhost-gpu", "/dev/nvgpu")
    environ = wsl_environ(root.environ) if wsl else root.environ
    if find_library(root, NVML, extra) is not None:
        library = _from_answer(ask_nvml(environ))
        library.asked = bool(library.reading.sightings) or any(root.exists(sign) for sign in signs)
        if library.state in ("no_driver", None) and not library.reading.sightings:
            return library
        if find_library(root, CUDA, extra) is not None and library.state in (None, "timeout", "crashed"):
            library.cuda = ask_cuda(environ)
        return library
    if not any(root.exists(sign) for sign in signs):
        return Library()
    library = Library(asked=True)
    text = run_tool(["nvidia-smi", "-q", "-x"], environ, extra=(LIBRARIES,))
    if text.status in ("timeout", "crashed"):
        library.state, library.reason = text.status, text.reason
    elif text.status == "absent":
        library.state, library.reason = "no_library", f"{NVML} and nvidia-smi are not installed"
    else:
        _take(library, text.text, nvidia_smi.parse_smi_xml)
    if find_library(root, CUDA, extra) is not None:
        library.cuda = ask_cuda(environ)
        library.state = None if library.cuda.sightings else library.state
    return library


def _from_answer(answer: NvmlAnswer) -> Library:
    library = Library(answer.state, answer.reason, answer.library_version, complete=answer.complete, p2p=answer.p2p)
    library.reading.sightings += answer.sightings
    return library


def _take(library: Library, text: str, parse: object) -> None:
    """Read a tool's text; an error message in its place becomes the library's state, or one lost GPU."""
    reading = parse(text)  # type: ignore[operator]
    library.reading.add(reading)
    failed = nvidia_smi_text.failure(text)
    if failed is None:
        return
    state, words, bus_id = failed
    if state == "lost" and bus_id is not None:
        library.reading.sightings.append(
            Sighting(source="nvidia-smi", target="cuda", vendor="nvidia", bus_id=bus_id, state="lost", reason=words, driver=True)
        )
    elif not reading.sightings:
        library.state, library.reason = state, f"nvidia-smi: {words}"
        library.version = nvidia_smi_text.library_version(text)


def _recorded(root: Root) -> Library:
    """Read every text of nvidia-smi that was recorded, the most detailed first."""
    library = Library()
    for name, parse in (
        ("nvidia-smi-q-x.xml", nvidia_smi.parse_smi_xml),
        ("nvidia-smi-q.txt", nvidia_smi.parse_smi_q),
        ("nvidia-smi-L.txt", nvidia_smi_text.parse_smi_list),
        ("nvidia-smi.txt", nvidia_smi_text.parse_smi_table),
        ("nvidia-smi-topo-m.txt", parse_topo),
    ):
        text = recorded(root, name)
        if text is not None:
            library.asked = True
            _take(library, text, parse)
    if library.reading.sightings:
        library.state = library.reason = None
    return library


def _cuda_sightings(library: Library) -> list[Sighting]:
    """Return CUDA's view, its UUIDs brought in line: for a MIG slice CUDA tells the slice's UUID without its prefix."""
    if library.cuda is None:
        return []
    uuids = {item.uuid for item in library.reading.sightings if item.uuid}
    replaced = {item.bus_id for item in library.reading.sightings if item.replaced}
    found = []
    for item in library.cuda.sightings:
        as_slice = f"MIG-{(item.uuid or '').removeprefix('GPU-')}"
        if as_slice in uuids:
            item.uuid, item.bus_id = as_slice, None
        elif item.bus_id in replaced:
            continue
        found.append(item)
    return found


def _from_pci(device: PciDevice, root: Root, module: KernelModule) -> Sighting:
    known = device.identity
    found = Sighting(source=device.source, target="cuda", vendor="nvidia", bus_id=device.bus_id, pci_id=device.pci_id)
    found.arch = known.arch if known else None
    found.name = device.name
    found.package = device.bus_id
    found.details = compact(
        {
            "kernel_driver": device.driver,
            "numa_node": device.numa_node,
            "pcie": pcie_facts(device),
            "integrated": (known is not None and known.kind == "apu") or None,
        }
    )
    driver = device.driver
    if driver == "nvidia" or (driver is None and device.bus_id in {gpu.bus_id for gpu in module.gpus}):
        found.driver = True
    elif driver is not None:
        found.driver = False
        found.state = "no_driver"
        found.reason = f"bound to {driver}, not to the NVIDIA driver"
        found.fix = _FIX_DRIVER.get(driver)
    elif device.driver_known or not (module.loaded or root.exists("/dev/nvidiactl")):
        found.driver = False
    return found


_FIX_DRIVER = {
    "nouveau": "install the NVIDIA driver and disable nouveau: echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/no-nouveau.conf && sudo update-initramfs -u",
    "nova_core": "install the NVIDIA driver in place of nova",
    "vfio-pci": "give the GPU back to the host: unbind it from vfio-pci and run sudo modprobe nvidia",
}


def _spread(reading: Reading, root: Root, library: Library, module: KernelModule, wsl: bool) -> None:
    """Give every GPU what holds for the driver as a whole: its failure, its nodes, whether CUDA starts, unified memory."""
    cuda = library.cuda
    for item in reading.sightings:
        integrated = item.details.get("integrated") or _INTEGRATED_NAME.search(item.name or "") is not None
        not_given = item.details.get("memory_error", 3) in (3, 13)
        if integrated and item.memory_bytes is None and item.memory_kind is None and not_given and item.state != "lost":
            item.memory_kind = "unified"
        if library.state is not None and item.source != "nvml" and item.state is None and item.driver is not False:
            item.state, item.reason = library.state, library.reason
            item.library = False if library.state in ("version_mismatch", "no_library") else None
            item.driver = False if library.state == "no_driver" else item.driver
        if library.state in ("timeout", "crashed") and item.source == "nvml" and item.state is None:
            item.details["library_incomplete"] = library.reason
        if item.source in ("nvml", "proc") and not wsl:
            _nodes(item, root)
        if cuda is not None and cuda.usable is False and item.source == "nvml" and item.state is None:
            item.runtime = False
            item.state = cuda.state or "unsupported"
            item.reason = cuda.reason
        if item.details.get("mig", {}).get("mode") and not item.replaced and item.state is None and item.source != "nvidia-smi topo -m":
            if "MIG" not in (item.uuid or "") and not item.details.get("mig_slice"):
                item.state, item.reason = "unsupported", "MIG is on, and no slice was made: nothing can run here"
                item.fix = "sudo nvidia-smi mig -cgi <profile> -C (nvidia-smi mig -lgip lists them), or sudo nvidia-smi -mig 0"
    if module.version and any(gpu.details.get("driver_version") is None for gpu in reading.sightings):
        for item in reading.sightings:
            item.details.setdefault("driver_version", module.version)
    if library.state == "version_mismatch" and not wsl:
        ours = library.version or _library_file_version(root)
        words = f"library {ours or 'of another version'}, kernel module {module.version or 'of unknown version'}"
        for item in reading.sightings:
            if item.state == "version_mismatch":
                item.reason = f"driver and library versions differ: {words}"


def _nodes(item: Sighting, root: Root) -> None:
    minor = item.details.get("minor")
    if not isinstance(minor, int) or not root.names("/dev"):
        return
    node = f"/dev/nvidia{minor}"
    reachable = root.access(node)
    item.node = bool(reachable)
    if reachable is False:
        item.state, item.reason = "permission_denied", f"no permission on {node}"
        item.fix = f"sudo chmod 666 {node} /dev/nvidiactl /dev/nvidia-uvm (or set NVreg_DeviceFileMode=0666 for the nvidia module)"


def _library_file_version(root: Root) -> str | None:
    """Return the version in the name of the library file that ``libnvidia-ml.so.1`` links to, or None."""
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        match = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", root.link(f"{folder}/{NVML}") or "")
        if match:
            return match.group(1)
    return None


def _cross_check(reading: Reading, root: Root, library: Library, module: KernelModule, seen: list[PciDevice]) -> None:
    """Compare the PCI tree with the library: a GPU that only one of them knows is lost, or was not granted to this container."""
    listed = {item.bus_id for item in library.reading.sightings if item.bus_id}
    if not listed or library.state is not None or (root.is_live and not library.complete):
        return
    bound = [device for device in seen if device.driver in (None, "nvidia") and device.bus_id not in listed and device.bus_id]
    held = {gpu.bus_id: gpu for gpu in module.gpus}
    for device in bound:
        minor = held[device.bus_id].details.get("minor") if device.bus_id in held else None
        masked = isinstance(minor, int) and bool(root.names("/dev")) and not root.exists(f"/dev/nvidia{minor}")
        excluded = device.bus_id in held and held[device.bus_id].details.get("gpu_excluded")
        for item in reading.sightings:
            if item.bus_id != device.bus_id or item.state is not None:
                continue
            if masked:
                item.state, item.node = "permission_denied", False
                item.reason = f"/dev/nvidia{minor} is not here: the GPU was not granted to this container"
            elif excluded:
                item.state, item.reason = "unsupported", "excluded by the driver (NVreg_ExcludedGpus)"
            else:
                item.state, item.reason = "lost", f"the PCI tree shows {device.bus_id}, and the driver does not list it: fallen off the bus"
    extra = sorted(listed - {device.bus_id for device in seen}) if seen and all(device.source == "pci" for device in seen) else []
    if extra:
        reading.findings.append(
            Finding(
                code="GPU_NOT_IN_PCI_TREE",
                severity="warning",
                message=f"the NVIDIA driver lists {', '.join(extra)}, and the PCI tree does not show it",
                fix="inside a container or a virtual machine mount /sys whole; on a host check dmesg for PCI errors",
                evidence=f"{len(listed)} GPUs by the driver, {len(seen)} on the PCI bus",
            )
        )
    blocked = sorted({pair for pair, status in library.p2p.items() if status != 0})
    if library.p2p:
        for item in reading.sightings:
            if item.source == "nvml" and "nvml_index" in item.details:
                index = str(item.details["nvml_index"])
                item.details["p2p_blocked"] = [pair for pair in blocked if index in pair.split(",")]
