"""AMD GPUs: KFD, DRM, the PCI tree and, where recorded or needed, the JSON of rocm-smi and amd-smi, joined."""

from __future__ import annotations

import os

from advisor.probe.accelerators._libs import find_library, in_packages
from advisor.probe.accelerators._sighting import Reading, Sighting, slot
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators._tools import recorded, run_tool
from advisor.probe.accelerators.drm_amd import read_drm
from advisor.probe.accelerators.kfd import read_kfd
from advisor.probe.accelerators.pci import AMD, PciDevice, pcie_facts
from advisor.probe.accelerators.rocm_smi import parse_amd_smi, parse_rocm_smi
from advisor.probe.root import Root

KFD = "/dev/kfd"
HIP = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so")


def read(root: Root, pci: tuple[PciDevice, ...]) -> Reading:
    """Return the AMD GPUs: one device per partition as the compute driver shows them."""
    seen = [device for device in pci if device.vendor == AMD and device.is_gpu]
    nodes, denied = read_kfd(root)
    cards = read_drm(root)
    tools = _tools(root, seen, nodes, cards)
    if not (seen or nodes or cards or denied or tools.sightings):
        return Reading()
    if nodes:
        # On a partitioned card the DRM total is that of the whole package: the partition's own comes from its banks.
        for card in cards:
            _attach(card, nodes)
    reading = Reading(sightings=[*_ordered(nodes, cards), *tools.sightings], findings=tools.findings)
    known = {item.bus_id for item in reading.sightings}
    roots = {slot(item.bus_id) for item in reading.sightings if item.bus_id}
    for device in seen:
        if device.bus_id in known or device.bus_id is None or slot(device.bus_id) not in roots:
            reading.sightings.append(_from_pci(device, bool(denied) and device.bus_id not in known))
    if denied and not seen and not nodes:
        reading.sightings += [_hidden(number) for number in range(denied)]
    _checks(root, reading)
    return reading


def _tools(root: Root, seen: list[PciDevice], nodes: list[Sighting], cards: list[Sighting]) -> Reading:
    """Read the recorded JSON; on this machine run rocm-smi only where sysfs shows a card with its driver and nothing of it."""
    reading = Reading()
    for name, parse in (("amd-smi.json", parse_amd_smi), ("rocm-smi.json", parse_rocm_smi)):
        text = recorded(root, name)
        if text is not None:
            reading.add(parse(text))
    if root.is_live and any(device.driver == "amdgpu" for device in seen) and not nodes and not cards:
        reading.add(parse_rocm_smi(run_tool(["rocm-smi", "-a", "--json"], root.environ, extra=("/opt/rocm/bin",)).text))
    return reading


def _attach(card: Sighting, nodes: list[Sighting]) -> None:
    """Find the KFD node of a DRM card by bus address or render node, and let go what holds for the whole package only."""
    render = card.details.get("render")
    mine = [node for node in nodes if (card.bus_id and node.bus_id == card.bus_id) or (render and node.details.get("render") == render)]
    if not mine:
        return
    node = mine[0]
    card.bus_id, card.uuid = node.bus_id or card.bus_id, node.uuid or card.uuid
    if node.details.get("partitions_of_package") and card.memory_bytes is not None:
        card.details["package_vram_bytes"], card.memory_bytes = card.memory_bytes, None
        node.unknown.setdefault("memory_bytes", "the memory of one partition is not told, only that of the package")


def _ordered(nodes: list[Sighting], cards: list[Sighting]) -> list[Sighting]:
    """DRM knows an APU's memory better than its topology does; for a card the topology comes first."""
    unified = [card for card in cards if card.memory_kind == "unified"]
    buses = {card.bus_id for card in unified if card.bus_id}
    for node in nodes:
        if node.bus_id in buses or node.details.get("integrated"):
            node.memory_kind = "unified"
            if node.bus_id in buses:
                node.memory_bytes = None
    return [*nodes, *cards]


def _from_pci(device: PciDevice, denied: bool) -> Sighting:
    known = device.identity
    found = Sighting(source=device.source, target="rocm", vendor="amd", bus_id=device.bus_id, pci_id=device.pci_id)
    found.arch = known.arch if known else None
    found.name = known.name if known else device.name
    found.package = device.bus_id
    if known is not None and known.kind == "apu":
        found.memory_kind, found.details["integrated"] = "unified", True
    found.details.update(compact({"kernel_driver": device.driver, "numa_node": device.numa_node, "pcie": pcie_facts(device)}))
    if device.driver == "amdgpu":
        found.driver = True
        if denied:
            found.state, found.reason = "permission_denied", "its KFD node cannot be read: the device was not granted to this container"
    elif device.driver == "radeon":
        found.driver, found.state, found.reason = True, "unsupported", "bound to radeon, the driver of cards without compute support"
    elif device.driver is not None:
        found.driver, found.state, found.reason = False, "no_driver", f"bound to {device.driver}, not to amdgpu"
    else:
        found.driver = None if device.source == "iommu" else False
    return found


def _hidden(number: int) -> Sighting:
    found = Sighting(source="kfd", target="rocm", vendor="amd", key=f"kfd:denied:{number}", driver=True, node=False)
    found.state, found.reason = "permission_denied", "its KFD node cannot be read: the device was not granted to this container"
    return found


def _checks(root: Root, reading: Reading) -> None:
    """Answer node and library: /dev/kfd and the render node must open, and a HIP runtime must lie somewhere."""
    has_dev = bool(root.names("/dev"))
    library = _library(root) if root.is_live else None
    for item in reading.sightings:
        if item.driver is False or item.state is not None:
            continue
        item.library = item.library if item.library is not None else library
        if not has_dev or item.source not in ("kfd", "pci"):
            continue
        render = item.details.get("render")
        needed = [KFD, *([f"/dev/dri/{render}"] if render else [])]
        refused = [node for node in needed if root.access(node) is False]
        absent = [node for node in needed if root.access(node) is None]
        if absent == needed and not root.is_live:
            continue  # a recorded machine may hold a part of /dev only
        item.node = not (refused or absent)
        if refused:
            item.state, item.reason = "permission_denied", f"no permission on {' and '.join(refused)} ({_owner(root, refused[0])})"
        elif absent and item.source == "kfd":
            item.state, item.reason = "permission_denied", f"not here, so not granted to this container: {' and '.join(absent)}"
        elif absent:
            item.reason = f"{absent[0]} is not here: not granted to this container, or the kernel was built without amdkfd"
    versions = root.line("/sys/module/amdgpu/version")
    for item in reading.sightings:
        version = versions or _in_tree(root)
        if version and item.driver:
            item.details.setdefault("driver_version", version)


def _library(root: Root) -> bool:
    folders = ("/opt/rocm/lib", "/opt/rocm/lib64")
    return any(find_library(root, name, folders) for name in HIP) or in_packages(root, "torch/lib/libamdhip64.so") is not None


def _in_tree(root: Root) -> str | None:
    """The driver of the kernel itself has no version file: its version is the kernel's."""
    kernel = root.line("/proc/sys/kernel/osrelease")
    return f"in-tree driver of kernel {kernel}" if kernel else None


def _owner(root: Root, node: str) -> str:
    """Say whose the node is and which groups this process has."""
    try:
        status = os.stat(root.path(node))
        groups = sorted({*os.getgroups(), os.getgid()})
    except (OSError, AttributeError):
        return "owner unknown"
    mine = ", ".join(_group_name(group) for group in groups)
    return f"mode {status.st_mode & 0o777:o}, group {_group_name(status.st_gid)}; this process has {mine}"


def _group_name(number: int) -> str:
    try:
        import grp

        return grp.getgrgid(number).gr_name
    except (ImportError, KeyError):
        return str(number)
