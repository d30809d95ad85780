"""NVIDIA: which sources to ask on this machine, and what their agreement or disagreement means."""

from __future__ import annotations

from collections.abc import Callable

from advisor.probe.accelerators import nvidia_smi, nvidia_smi_text
from advisor.probe.accelerators._libs import find_library
from advisor.probe.accelerators._sighting import Reading, Sighting
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators._tools import recorded, run_tool
from advisor.probe.accelerators.cuda import ask_cuda
from advisor.probe.accelerators.nvidia_judge import Library, judge
from advisor.probe.accelerators.nvidia_proc import KernelModule, read_module
from advisor.probe.accelerators.nvidia_topo import parse_topo
from advisor.probe.accelerators.nvml import NvmlAnswer, ask_nvml
from advisor.probe.accelerators.pci import NVIDIA, PciDevice, pcie_facts
from advisor.probe.accelerators.tegra import read_tegra
from advisor.probe.accelerators.wsl import LIBRARIES, NODE, is_wsl, wsl_environ
from advisor.probe.root import Root

NVML = "libnvidia-ml.so.1"
CUDA = "libcuda.so.1"
# Where the driver of Windows puts its libraries; no such path exists elsewhere.
WINDOWS = "/Windows/System32"


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
    judge(reading, root, library, module, seen, wsl=wsl)
    return reading


def _ask(root: Root, wsl: bool) -> Library:
    """Ask the libraries of this machine in children, or nvidia-smi where NVML is not there. Nothing without a sign of NVIDIA."""
    extra = (LIBRARIES,) if wsl else ()
    signs = (NODE if wsl else "/dev/nvidiactl", "/proc/driver/nvidia", "/sys/module/nvidia", "/dev/nvhost-gpu", "/dev/nvgpu")
    environ = wsl_environ(root.environ) if wsl else root.environ
    windows = root.exists(f"{WINDOWS}/nvml.dll")
    if windows or find_library(root, NVML, extra) is not None:
        library = _from_answer(ask_nvml(environ))
        library.asked = windows or bool(library.reading.sightings) or any(root.exists(sign) for sign in signs)
        if library.state in ("no_driver", None) and not library.reading.sightings:
            return library
        if (windows or find_library(root, CUDA, extra) is not None) and library.state in (None, "timeout", "crashed"):
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


def _take(library: Library, text: str, parse: Callable[[str], Reading]) -> None:
    """Read a tool's text; an error message in its place becomes the library's state, or one lost GPU."""
    reading = parse(text)
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
    "nouveau": "install the NVIDIA driver and disable nouveau: "
    "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/no-nouveau.conf && sudo update-initramfs -u",
    "nova_core": "install the NVIDIA driver in place of nova",
    "vfio-pci": "give the GPU back to the host: unbind it from vfio-pci and run sudo modprobe nvidia",
}
