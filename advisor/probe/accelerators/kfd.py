"""The KFD topology in sysfs: what the AMD compute driver offers, partitions and links included.

Node properties are documented in the kernel (``drivers/gpu/drm/amd/amdkfd/kfd_topology.c``); ``simd_count / simd_per_cu`` is the
number of compute units in use, while arrays times units per array counts those that are fused off too.
"""

from __future__ import annotations

from advisor.probe.accelerators._sighting import Sighting, slot
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators.ids import identify_text
from advisor.probe.records import DeviceLink
from advisor.probe.root import Root

NODES = "/sys/class/kfd/kfd/topology/nodes"
LINK_KINDS = {2: "pcie", 11: "xgmi"}  # CRAT_IOLINK_TYPE_PCIEXPRESS, CRAT_IOLINK_TYPE_XGMI
VENDORS = {0x1002: "amd", 0x1D94: "hygon"}
VRAM_HEAPS = (1, 2)  # HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC and _PRIVATE
WIDE_LINK_MB_PER_S = 200_000  # the links between the two dies of one MI250 package; links to other packages are narrower


def properties(root: Root, name: str) -> dict[str, int]:
    """Read a file of ``name number`` lines; a line of another form is left out."""
    found = {}
    for line in (root.text(name) or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[1].lstrip("-").isdecimal() and len(words[1]) < 40:
            found[words[0]] = int(words[1])
    return found


def gfx_name(version: int | None) -> str | None:
    """Return the LLVM name of a ``gfx_target_version``: 90010 is gfx90a (minor and step are hex digits), 110501 is gfx1151."""
    if version is None or not 0 < version < 1_000_000:
        return None
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def read_kfd(root: Root) -> tuple[list[Sighting], int]:
    """Return the GPU nodes, and how many nodes may not be read (a container without the device)."""
    found: dict[int, tuple[Sighting, dict[str, int]]] = {}
    denied = 0
    for name in sorted(root.names(NODES), key=lambda text: (len(text), text)):
        if not name.isdecimal():
            continue
        if root.denied(f"{NODES}/{name}/gpu_id") or root.denied(f"{NODES}/{name}/properties"):
            denied += 1
            continue
        facts = properties(root, f"{NODES}/{name}/properties")
        gpu_id = root.integer(f"{NODES}/{name}/gpu_id")
        if gpu_id == 0 or facts.get("simd_count", 0) <= 0:
            continue
        found[int(name)] = (_node(root, int(name), facts), facts)
    keys = {node: item.key for node, (item, _) in found.items() if item.key}
    for node, (item, _) in found.items():
        item.links = _links(root, node, keys)
    _pair_packages([item for item, _ in found.values()])
    _count_partitions([item for item, _ in found.values()])
    return [item for item, _ in found.values()], denied


def _node(root: Root, node: int, facts: dict[str, int]) -> Sighting:
    unique, per_cu = facts.get("unique_id", 0), facts.get("simd_per_cu", 0)
    vendor = VENDORS.get(facts.get("vendor_id", 0), "amd")
    found = Sighting(source="kfd", target="rocm", vendor=vendor, key=f"kfd:{node}", driver=True)
    found.arch = gfx_name(facts.get("gfx_target_version"))
    found.bus_id = _bus_id(facts)
    found.pci_id = (
        f"{facts['vendor_id']:04x}:{facts['device_id']:04x}" if 0 < facts.get("vendor_id", 0) < 65536 and "device_id" in facts else None
    )
    found.uuid = f"{unique:016x}" if 0 < unique < 1 << 64 else None
    found.package = found.uuid or (slot(found.bus_id) if found.bus_id else None)
    found.compute_units = facts["simd_count"] // per_cu if per_cu > 0 else None
    found.memory_bytes = _memory(root, node, facts)
    render = facts.get("drm_render_minor", 0)
    found.details = compact(
        {
            "kfd_node": node,
            "codename": root.line(f"{NODES}/{node}/name"),
            "render": f"renderD{render}" if render > 0 else None,
            "wavefront": facts.get("wave_front_size"),
            "num_xcc": facts.get("num_xcc"),
            "clocks_max_mhz": compact({"engine": facts.get("max_engine_clk_fcompute")}),
            "hive_id": f"{facts['hive_id']:016x}" if facts.get("hive_id", 0) > 0 else None,
            "lds_kb": facts.get("lds_size_in_kb"),
            # The first APUs are one node with processors and SIMDs.
            "integrated": True if facts.get("cpu_cores_count", 0) > 0 else None,
        }
    )
    known = identify_text(found.pci_id)
    if known is not None and known.kind == "apu":
        found.memory_kind, found.details["integrated"] = "unified", True
    if found.memory_bytes is None:
        found.unknown["memory_bytes"] = "this kernel's topology holds no memory bank of the node"
    if found.arch is None:
        found.unknown["arch"] = "this kernel's topology has no gfx_target_version"
    return found


def _bus_id(facts: dict[str, int]) -> str | None:
    """``location_id`` is bus << 8 | device << 3 | function; ``domain`` is 0 where an old kernel has none."""
    location, domain = facts.get("location_id", 0), facts.get("domain", 0)
    if not 0 < location < 1 << 16 or not 0 <= domain < 1 << 32:
        return None
    return f"{domain:04x}:{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _memory(root: Root, node: int, facts: dict[str, int]) -> int | None:
    """Sum the video memory banks; ``local_mem_size`` is 0 on today's kernels and counts only where there are no banks."""
    total = 0
    for bank in root.names(f"{NODES}/{node}/mem_banks"):
        heap = properties(root, f"{NODES}/{node}/mem_banks/{bank}/properties")
        if heap.get("heap_type") in VRAM_HEAPS:
            total += max(0, heap.get("size_in_bytes", 0))
    return total or max(0, facts.get("local_mem_size", 0)) or None


def _links(root: Root, node: int, keys: dict[int, str]) -> tuple[DeviceLink, ...]:
    """Read the links of a node; bandwidths are MB/s per direction. A link to a processor node ends at ``host``."""
    links = []
    for folder in ("io_links", "p2p_links"):
        for name in root.names(f"{NODES}/{node}/{folder}"):
            facts = properties(root, f"{NODES}/{node}/{folder}/{name}/properties")
            to, most = facts.get("node_to", -1), facts.get("max_bandwidth", 0)
            if folder == "p2p_links" and to not in keys:
                continue
            kind = LINK_KINDS.get(facts.get("type", 0), "other")
            links.append(DeviceLink(to=keys.get(to, "host"), kind=kind, bandwidth_bytes_per_s=most * 1e6 if most > 0 else None))
    return tuple(links)


def _pair_packages(items: list[Sighting]) -> None:
    """Give the two dies of an MI250 or MI250X one package: they are joined by the widest xGMI link of the node."""
    by_key = {item.key: item for item in items}
    for item in items:
        if item.pci_id not in ("1002:7408", "1002:740c"):
            continue
        wide = [link.to for link in item.links if link.kind == "xgmi" and (link.bandwidth_bytes_per_s or 0) >= WIDE_LINK_MB_PER_S * 1e6]
        partner = by_key.get(wide[0]) if len(wide) == 1 else None
        if partner is not None:
            item.package = min(item.bus_id or "", partner.bus_id or "") or item.package


def _count_partitions(items: list[Sighting]) -> None:
    """Say how many logical devices a package is split into (1 is not said)."""
    sizes: dict[str, int] = {}
    for item in items:
        if item.uuid:
            sizes[item.uuid] = sizes.get(item.uuid, 0) + 1
    for item in items:
        if item.uuid and sizes[item.uuid] > 1:
            item.details["partitions_of_package"] = sizes[item.uuid]
