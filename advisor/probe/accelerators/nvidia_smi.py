"""nvidia-smi: the long forms (``-q -x``, ``-q``), every version of their schema through one tree."""

from __future__ import annotations

from typing import Any

from advisor.probe.accelerators._sighting import Reading, Sighting, normal_bdf
from advisor.probe.accelerators._smi_tree import Tree, from_text, from_xml
from advisor.probe.accelerators._text import compact, integer, number, size_bytes, value, yes
from advisor.probe.accelerators.ids import identify_text

# Reasons that hold a clock down but are no fault: idle, clocks the user set, boost in step with other boards.
HARMLESS = frozenset(
    {"gpu_idle", "idle", "applications_clocks_setting", "display_clocks_setting", "display_clock_setting", "sync_boost", "none"}
)
# Architectures that the driver names and that have one compute capability only (CUDA C++ Programming Guide).
ARCHITECTURES = {"turing": "sm_75", "ada lovelace": "sm_89", "ada": "sm_89", "hopper": "sm_90"}
REASONS = ("clocks_event_reasons", "clocks_throttle_reasons")


def parse_smi_xml(text: str) -> Reading:
    """Read ``nvidia-smi -q -x`` of any version, whole or cut off."""
    return _read(from_xml(text), "nvidia-smi -q -x")


def parse_smi_q(text: str) -> Reading:
    """Read ``nvidia-smi -q`` of any version, whole or cut off."""
    return _read(from_text(text), "nvidia-smi -q")


def _read(tree: Tree | None, source: str) -> Reading:
    reading = Reading()
    if tree is None:
        return reading
    gpus = [node for node in tree.children if node.name == "gpu"]
    common = {
        "driver_version": tree.get("driver_version"),
        "cuda_driver_version": tree.get("cuda_version"),
        "attached_gpus": integer(tree.get("attached_gpus")),
    }
    # An index is sure only where the document holds every GPU: a cut-off one may start anywhere.
    complete = common["attached_gpus"] in (None, len(gpus))
    for index, gpu in enumerate(gpus):
        parent = _gpu(gpu, index if complete else None, source, common)
        slices = _slices(gpu, parent, source)
        parent.replaced = bool(slices)
        reading.sightings += [parent, *slices]
    return reading


def _gpu(gpu: Tree, index: int | None, source: str, common: dict[str, Any]) -> Sighting:
    pci_id = _pci_id(gpu)
    known = identify_text(pci_id)
    name = gpu.get("product_name")
    found = Sighting(
        source=source,
        target="cuda",
        vendor="nvidia",
        key=f"nvidia:{index}" if index is not None else None,
        name=name,
        arch=known.arch if known else ARCHITECTURES.get((gpu.get("product_architecture") or "").lower()),
        memory_bytes=size_bytes(gpu.get("fb_memory_usage/total", "memory_usage/total"), "MiB"),
        bus_id=normal_bdf(gpu.get("pci/pci_bus_id", "pci/bus_id") or gpu.label),
        pci_id=pci_id,
        uuid=gpu.get("uuid", "gpu_uuid"),
        driver=True,
        library=True,
        details=compact({**common, "nvml_index": index, **_facts(gpu)}),
    )
    found.package = found.uuid or found.bus_id
    if gpu.all("fb_memory_usage") and found.memory_bytes is None:
        said = gpu.raw("fb_memory_usage/total")
        if said and "lost" in said.lower():
            found.state, found.reason = "lost", "nvidia-smi says that the GPU is lost"
        else:
            found.unknown["memory_bytes"] = f"nvidia-smi prints {said or 'nothing'!r} for the memory"
    return found


def _pci_id(gpu: Tree) -> str | None:
    """Read ``20B210DE`` (device, then vendor)."""
    text = (gpu.get("pci/pci_device_id", "pci/device_id") or "").lower().removeprefix("0x")
    if len(text) != 8 or any(digit not in "0123456789abcdef" for digit in text):
        return None
    # A record whose numbers were blanked out names no NVIDIA device.
    return f"{text[4:]}:{text[:4]}" if text[4:] == "10de" else None


def _facts(gpu: Tree) -> dict[str, Any]:
    link = "pci/pci_gpu_link_info" if gpu.all("pci/pci_gpu_link_info") else "pci/gpu_link_info"
    generation = f"{link}/pcie_gen" if gpu.all(f"{link}/pcie_gen") else f"{link}/pcie_generation"
    width = f"{link}/link_widths" if gpu.all(f"{link}/link_widths") else f"{link}/link_width"
    return {
        "architecture": gpu.get("product_architecture"),
        "brand": gpu.get("product_brand"),
        "minor": integer(gpu.get("minor_number")),
        "persistence_mode": yes(gpu.get("persistence_mode")),
        "addressing_mode": gpu.get("addressing_mode"),
        "compute_mode": gpu.get("compute_mode"),
        "driver_model": gpu.get("driver_model/current_dm", "driver_model/current"),
        "virtualization": gpu.get("gpu_virtualization_mode/virtualization_mode") or _grid(gpu),
        "mig": compact(
            {
                "mode": yes(gpu.get("mig_mode/current_mig", "mig_mode/current")),
                "pending": yes(gpu.get("mig_mode/pending_mig", "mig_mode/pending")),
            }
        ),
        "pcie": compact(
            {
                "gen": integer(gpu.get(f"{generation}/current_link_gen", f"{generation}/current")),
                "gen_max": integer(gpu.get(f"{generation}/max_link_gen", f"{generation}/max")),
                "width": integer(gpu.get(f"{width}/current_link_width", f"{width}/current")),
                "width_max": integer(gpu.get(f"{width}/max_link_width", f"{width}/max")),
            }
        ),
        "power": _power(gpu),
        "clocks_mhz": compact({name: integer(gpu.get(f"clocks/{name}_clock", f"clocks/{name}")) for name in ("sm", "mem")}),
        "clocks_max_mhz": compact(
            {name: integer(gpu.get(f"max_clocks/{name}_clock", f"max_clocks/{word}")) for name, word in (("sm", "sm"), ("mem", "memory"))}
        ),
        "temperature_c": number(gpu.get("temperature/gpu_temp", "temperature/gpu_current_temp")),
        "throttle": throttle_reasons(gpu),
        "ecc": _ecc(gpu),
        "recovery_action": gpu.get("gpu_recovery_action"),
        "fabric_state": gpu.get("fabric/state"),
        "performance_state": gpu.get("performance_state"),
    }


def _grid(gpu: Tree) -> str | None:
    """A GRID product name or a virtual brand tells of a vGPU where the virtualisation mode is not printed."""
    name, brand = gpu.get("product_name") or "", gpu.get("product_brand") or ""
    words = name.split()
    profile = len(words) > 1 and words[0] == "GRID" and "-" in words[-1]
    return "VGPU" if profile or brand in ("NVIDIA Virtual Compute Server", "NVIDIA Virtual PC", "NVIDIA Virtual Applications") else None


def _power(gpu: Tree) -> dict[str, float]:
    for table in ("gpu_power_readings", "power_readings"):
        facts = compact(
            {
                "limit_w": number(gpu.get(f"{table}/current_power_limit", f"{table}/power_limit", f"{table}/enforced_power_limit")),
                "default_w": number(gpu.get(f"{table}/default_power_limit")),
                "min_w": number(gpu.get(f"{table}/min_power_limit")),
                "max_w": number(gpu.get(f"{table}/max_power_limit")),
                "draw_w": number(gpu.get(f"{table}/power_draw", f"{table}/instant_power_draw", f"{table}/average_power_draw")),
            }
        )
        if facts:
            return facts
    return {}


def throttle_reasons(gpu: Tree) -> list[str] | None:
    """Return the names of the reasons that are active and slow the GPU down (idle and clocks set by the user do not).

    None where the document has no such table.
    """
    if not any(gpu.all(table) for table in REASONS):
        return None
    active = set()
    for table in REASONS:
        for node in gpu.all(table):
            pending = list(node.children)
            while pending:
                child = pending.pop()
                pending += child.children
                name = child.name.removeprefix("clocks_event_reason_").removeprefix("clocks_throttle_reason_")
                if yes(child.text) and name not in HARMLESS:
                    active.add(name)
    return sorted(active)


def _ecc(gpu: Tree) -> dict[str, Any]:
    def total(scope: str) -> int | None:
        # Double-bit and single-bit in old versions, sram/dram after; a total is the sum of what is printed apart.
        paths = [f"ecc_errors/{scope}/double_bit/total"]
        names = (
            "sram_uncorrectable",
            "sram_uncorrectable_parity",
            "sram_uncorrectable_secded",
            "sram_uncorrectable_sec_ded",
            "dram_uncorrectable",
        )
        old = integer(gpu.get(*paths))
        counts = [count for name in names if (count := integer(gpu.get(f"ecc_errors/{scope}/{name}"))) is not None]
        return old if old is not None else sum(counts) if counts else None

    return compact(
        {
            "mode": yes(gpu.get("ecc_mode/current_ecc", "ecc_mode/current")),
            "pending_mode": yes(gpu.get("ecc_mode/pending_ecc", "ecc_mode/pending")),
            "volatile_uncorrected": total("volatile"),
            "aggregate_uncorrected": total("aggregate"),
            "pending_retirement": yes(gpu.get("retired_pages/pending_retirement", "retired_pages/pending_page_blacklist")),
            "remap_pending": yes(gpu.get("remapped_rows/remapped_row_pending", "remapped_rows/pending")),
            "remap_failure": yes(gpu.get("remapped_rows/remapped_row_failure", "remapped_rows/remapping_failure_occurred")),
        }
    )


def _slices(gpu: Tree, parent: Sighting, source: str) -> list[Sighting]:
    found = []
    for node in [*gpu.all("mig_devices/mig_device"), *gpu.all("mig_device"), *gpu.all("mig_devices/mig_devices")]:
        instance, compute = integer(node.get("gpu_instance_id")), integer(node.get("compute_instance_id"))
        if instance is None and not node.all("fb_memory_usage"):
            continue
        attributes = "device_attributes/shared"
        memory = size_bytes(node.get("fb_memory_usage/total"), "MiB")
        found.append(
            Sighting(
                source=source,
                target="cuda",
                vendor="nvidia",
                part=f"{instance}/{compute}",
                name=f"{parent.name} MIG" if parent.name else None,
                arch=parent.arch,
                memory_bytes=memory,
                memory_kind="dedicated" if memory else None,
                bus_id=parent.bus_id,
                pci_id=parent.pci_id,
                uuid=value(node.get("uuid", "mig_uuid", "mig_device_uuid", "gpu_uuid")),
                compute_units=integer(node.get(f"{attributes}/multiprocessor_count")),
                package=parent.package,
                driver=True,
                library=True,
                details=compact(
                    {
                        "driver_version": parent.details.get("driver_version"),
                        "mig_slice": compact({"gpu_instance": instance, "compute_instance": compute, "index": integer(node.get("index"))}),
                    }
                ),
            )
        )
    return found
