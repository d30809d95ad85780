"""amdgpu in DRM sysfs: memory of the card, and for an APU the carve-out, the GTT and what of main memory it may really use."""

from __future__ import annotations

import re

from advisor.probe.accelerators._sighting import Sighting, normal_bdf
from advisor.probe.accelerators._text import compact
from advisor.probe.accelerators.ids import identify
from advisor.probe.accelerators.pci import AMD, PciDevice, read_device
from advisor.probe.root import Root

DRM = "/sys/class/drm"
PAGE_BYTES = 4096
LARGEST_WHOLE_CARD = 32 << 30
APU_CARVE_OUT_LIMIT = 96 << 30  # the largest carve-out that firmware offers today


def read_drm(root: Root) -> list[Sighting]:
    """Return the amdgpu cards of DRM, each once however many nodes it has."""
    found: list[Sighting] = []
    seen: set[str] = set()
    for name in root.names(DRM):
        if not re.fullmatch(r"card\d+", name):
            continue
        folder = f"{DRM}/{name}/device"
        device = read_device(root, folder)
        vram = root.integer(f"{folder}/mem_info_vram_total")
        # Only amdgpu has mem_info files; a record without ids is told by them.
        if (device is None and vram is None) or (device is not None and device.vendor != AMD):
            continue
        bus_id = device.bus_id if device else normal_bdf((root.link(folder) or "").rsplit("/", 1)[-1])
        if bus_id is not None and bus_id in seen:
            continue
        seen.add(bus_id or name)
        if vram is not None or root.exists(f"{folder}/mem_info_gtt_total"):
            found.append(_card(root, name, folder, device, bus_id, vram))
    return found


def _card(root: Root, name: str, folder: str, device: PciDevice | None, bus_id: str | None, vram: int | None) -> Sighting:
    gtt = root.integer(f"{folder}/mem_info_gtt_total")
    render = next((item for item in root.names(f"{folder}/drm") if item.startswith("renderD")), None)
    known = identify(device.vendor, device.device) if device else None
    found = Sighting(source="drm", target="rocm", vendor="amd", key=f"drm:{name}", driver=True, bus_id=bus_id)
    found.pci_id = device.pci_id if device else None
    found.arch = known.arch if known else None
    unique = root.line(f"{folder}/unique_id")
    found.uuid = unique.zfill(16) if unique and re.fullmatch(r"[0-9a-fA-F]{1,16}", unique) and int(unique, 16) else None
    found.name = root.line(f"{folder}/product_name")
    found.package = found.uuid or bus_id
    found.details = compact(
        {
            "card": name,
            "render": render,
            "vram_bytes": vram,
            "gtt_bytes": gtt,
            "compute_partition": root.line(f"{folder}/current_compute_partition"),
            "memory_partition": root.line(f"{folder}/current_memory_partition"),
        }
    )
    integrated = known.kind == "apu" if known else _looks_integrated(vram, gtt)
    if integrated:
        found.details["integrated"] = True
        found.memory_kind = "unified"
        found.memory_bytes = usable_unified(root, vram, gtt, found)
    else:
        found.memory_bytes = vram if vram and vram > 0 else None
    if found.memory_bytes is None:
        found.unknown["memory_bytes"] = "amdgpu shows no memory in sysfs"
    return found


def _looks_integrated(vram: int | None, gtt: int | None) -> bool:
    """Tell an APU where no PCI id was recorded: firmware carves out a whole power of two, or a multiple of 4 GiB.

    Cards keep some memory back, so that theirs is no whole number; the small ones before that (Polaris) have no GTT above it.
    """
    if not vram or not gtt or not 0 < vram <= APU_CARVE_OUT_LIMIT:
        return False
    whole = vram & (vram - 1) == 0 or vram % (4 << 30) == 0
    return whole and (gtt > vram or vram >= LARGEST_WHOLE_CARD)


def usable_unified(root: Root, vram: int | None, gtt: int | None, found: Sighting) -> int | None:
    """Return what an APU can use: carve-out plus GTT, never more than the machine's memory with the carve-out. Shared with the host.

    The GTT is what the driver was given; ``ttm.pages_limit`` caps what it may really pin, whatever ``amdgpu.gtt_size`` says.
    """
    carve, table = max(vram or 0, 0), max(gtt or 0, 0)
    match = re.search(r"(?:^|\s)ttm\.pages_limit=(\d{1,15})", root.text("/proc/cmdline") or "")
    limit = root.integer("/sys/module/ttm/parameters/pages_limit") or (int(match.group(1)) if match else None)
    if limit:
        found.details["ttm_limit_bytes"] = limit * PAGE_BYTES
        table = min(table, limit * PAGE_BYTES)
    total = re.search(r"^MemTotal:\s+(\d{1,15}) kB", root.text("/proc/meminfo") or "", re.MULTILINE)
    usable = carve + table
    if total:
        # MemTotal leaves the carve-out out.
        usable = min(usable, int(total.group(1)) * 1024 + carve)
    found.details["usable_rule"] = "carve-out + min(GTT, ttm.pages_limit), at most main memory + carve-out; shared with the host"
    return usable or None
