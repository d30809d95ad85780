"""Hardware as published tables write it, to a Platform: class, devices, node size and the note on the network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from advisor.errors import AdvisorError
from advisor.hardware import load
from advisor.hardware.platform import Platform
from advisor.hardware.records import HardwareProfile, NetworkSpec, System
from advisor.hardware.topology import host_link_bytes_per_s, tiers_of
from advisor.units import GIB

#: Normalised class to (profile, system). A class that says too little ("other/unstated") is absent.
CLASSES: Mapping[str, tuple[str, str | None]] = {
    "A100-80": ("a100-sxm4-80gb", "dgx-a100-80gb"),
    "A100-40": ("a100-sxm4-40gb", "dgx-a100-40gb"),
    "A100-unspecified": ("a100-sxm4-80gb", "dgx-a100-80gb"),
    "V100-32": ("v100-sxm2-32gb", "dgx-1-v100-32gb"),
    "V100-16": ("v100-sxm2-16gb", "dgx-1-v100-16gb"),
    "H100-80": ("h100-sxm5-80gb", "dgx-h100"),
    "H100-94/96": ("h100-sxm5-80gb", "dgx-h100"),
    "H200": ("h200-sxm5-141gb", "hgx-h200"),
    "B200": ("b200-sxm", "hgx-b200"),
    "B300": ("b300-sxm", "hgx-b300"),
    "GB200": ("gb200", "gb200-nvl72"),
    "MI250X": ("mi250x", "mi250x-node"),
    "MI300X": ("mi300x", "mi300x-node"),
    "MI325X": ("mi325x", "mi325x-node"),
    "MI355X": ("mi355x", "mi355x-node"),
    "Gaudi2": ("gaudi2", "gaudi2-node"),
    "Ascend-910B": ("ascend-910b", "atlas-800t-a2"),
    "TPU-v4": ("tpu-v4", "tpu-v4-slice"),
    "TPU-v5p": ("tpu-v5p", "tpu-v5p-slice"),
    "TPU-v5e": ("tpu-v5e", "tpu-v5e-slice"),
    "Trainium": ("trainium1", "trn1-32xlarge"),
}
#: Where the class is a family of products, the hardware column names the one.
_NAMED = {"RTX 4090": "rtx-4090", "RTX 3090": "rtx-3090", "RTX A6000": "rtx-a6000", "A40": "a40", "L40S": "l40s"}

_PORTS = re.compile(r"(\d+)\s*x\s*(?:Omni-?Path\s*)?(\d+)\s*(?:Gb)?", re.IGNORECASE)
_TOTAL = re.compile(r"(\d+)\s*Gb(?:ps|/s)?\s*node-node", re.IGNORECASE)
_EACH = re.compile(r"(\d+)\s*Gb/?s\s*(?:RDMA|CX-?\d)?.*per GPU", re.IGNORECASE)
_NODE_OF_FOUR = re.compile(r"Jean Zay V100", re.IGNORECASE)


@lru_cache(maxsize=512)
def platform_of(hw_class: str, hardware: str, devices: int, per_node: int | None, note: str) -> Platform | str:
    """Return the Platform, or why the text does not name one."""
    named = next((profile for text, profile in _NAMED.items() if text in hardware), None)
    if hw_class in CLASSES:
        profile_id, system_id = CLASSES[hw_class]
    elif named is not None:
        profile_id, system_id = named, None
    else:
        return "hardware is not named" if hw_class in ("", "other/unstated") else f"no sheet for {hw_class}"
    try:
        sheet = _variant(load.profile(profile_id), hw_class, hardware)
        system = load.system(system_id) if system_id else None
    except AdvisorError as error:
        return error.message
    if system is not None and "hopper-prod" in note:
        # Hugging Face's training cluster: p5.48xlarge instances ("The Ultra-Scale Playbook", 2025).
        system = load.system("p5-48xlarge")
    system = _with_network(system, note, per_node)
    room = per_node or (system.devices_per_node if system else 8)
    each = min(devices, room)
    nodes = -(-devices // each)
    try:
        tiers = tiers_of(sheet, system, devices, nodes, each)
    except AdvisorError as error:
        return error.message
    return Platform(
        name=f"{devices}x{sheet.id}",
        profile=sheet,
        devices=devices,
        nodes=nodes,
        memory_bytes=None if sheet.memory_gib is None else round(sheet.memory_gib * GIB),
        tiers=tiers,
        system=system,
        host_link_bytes_per_s=host_link_bytes_per_s(sheet),
    )


def _variant(sheet: HardwareProfile, hw_class: str, hardware: str) -> HardwareProfile:
    """Apply what the hardware column states beyond the product's sheet: memory, bandwidth and power limit of a special part."""
    if hw_class != "H100-94/96":
        return sheet
    memory = re.search(r"(\d+)\s*GB", hardware.split("-", 1)[-1])
    rate, cap = re.search(r"([\d.]+)\s*TB/s", hardware), re.search(r"(\d+)\s*W cap", hardware)
    return msgspec.structs.replace(
        sheet,
        id="h100-sxm5-96gb",
        memory_gib=float(memory[1]) if memory else 96.0,
        # The 96 GB part of this fleet is HBM2e at 2.4 TB/s under a 500 W cap (torchtitan benchmark pages), where a row does not say.
        memory_gb_per_s=float(rate[1]) * 1000 if rate else 2400.0,
        tdp_w=float(cap[1]) if cap else 500.0,
    )


def _with_network(system: System | None, note: str, per_node: int | None) -> System | None:
    """Replace the system's network by the one the note describes, if it describes one."""
    if system is None or not note:
        return system
    network: NetworkSpec | None = None
    kind = "omnipath" if re.search("omni-?path", note, re.IGNORECASE) else "roce" if "roce" in note.lower() else "ib"
    room = per_node or system.devices_per_node
    if match := _TOTAL.search(note):
        network = NetworkSpec(kind=kind, ports=room, gbit_per_s_per_port=float(match[1]) / room)
    elif match := _EACH.search(note):
        network = NetworkSpec(kind=kind, ports=room, gbit_per_s_per_port=float(match[1]))
    elif _NODE_OF_FOUR.search(note):
        # IDRIS, "Jean Zay: Hardware": four 100 Gb/s Omni-Path links for each converged node.
        network = NetworkSpec(kind="omnipath", ports=4, gbit_per_s_per_port=100.0)
    elif match := _PORTS.search(note):
        network = NetworkSpec(kind=kind, ports=int(match[1]), gbit_per_s_per_port=float(match[2]))
    changes = {"devices_per_node": room} if per_node and system.torus is None else {}
    return msgspec.structs.replace(system, **changes, **({"network": network} if network else {}))
