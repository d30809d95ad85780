"""Pieces of recorded machines, of our own making from documented facts."""

from __future__ import annotations

from collections.abc import Iterable


def pci(bdf: str, vendor: int, device: int, class_code: int, driver: str | None = None, **files: str) -> dict[str, str]:
    """Return the sysfs files of one PCI function; more files by name."""
    folder = f"/sys/bus/pci/devices/{bdf}"
    tree = {f"{folder}/vendor": f"0x{vendor:04x}\n", f"{folder}/device": f"0x{device:04x}\n", f"{folder}/class": f"0x{class_code:06x}\n"}
    if driver:
        tree[f"{folder}/driver"] = f"-> ../../../bus/pci/drivers/{driver}"
    return tree | {f"{folder}/{name}": content for name, content in files.items()}


def accel(name: str, bdf: str | None, driver: str, vendor: int | None = None, device: int | None = None) -> dict[str, str]:
    """Return one entry of the accel class with what is behind it."""
    folder = f"/sys/class/accel/{name}/device"
    event = f"DRIVER={driver}\n" + (f"PCI_SLOT_NAME={bdf}\n" if bdf else "")
    tree = {f"{folder}/uevent": event, f"/dev/accel/{name}": ""}
    if vendor is not None and device is not None:
        tree |= {f"{folder}/vendor": f"0x{vendor:04x}\n", f"{folder}/device": f"0x{device:04x}\n"}
    return tree


def kfd(node: int, **facts: int) -> dict[str, str]:
    """Return one node of the KFD topology; ``bank`` adds a video memory bank of that many bytes."""
    folder = f"/sys/class/kfd/kfd/topology/nodes/{node}"
    bank = facts.pop("bank", 0)
    gpu_id = facts.pop("gpu_id", 1000 + node if facts.get("simd_count") else 0)
    tree = {f"{folder}/gpu_id": f"{gpu_id}\n", f"{folder}/properties": "".join(f"{name} {value}\n" for name, value in facts.items())}
    if bank:
        tree[f"{folder}/mem_banks/0/properties"] = f"heap_type 1\nsize_in_bytes {bank}\nflags 0\n"
    return tree


def join(parts: Iterable[dict[str, str]]) -> dict[str, str]:
    """Return all files of several pieces."""
    return {name: content for part in parts for name, content in part.items()}


def smi_gpu(uuid: str, bus: str, body: str = "", name: str = "Test GPU", memory: str = "81920 MiB") -> str:
    """Return one ``gpu`` element of ``nvidia-smi -q -x``."""
    return (
        f'<gpu id="{bus}"><product_name>{name}</product_name><uuid>{uuid}</uuid><pci><pci_bus_id>{bus}</pci_bus_id></pci>'
        f"<fb_memory_usage><total>{memory}</total></fb_memory_usage>{body}</gpu>"
    )


def smi_xml(*gpus: str, driver: str = "570.10") -> str:
    """Return a document of ``nvidia-smi -q -x``."""
    head = f"<driver_version>{driver}</driver_version><cuda_version>12.8</cuda_version><attached_gpus>{len(gpus)}</attached_gpus>"
    doctype = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    return f"{doctype}<nvidia_smi_log>{head}{''.join(gpus)}</nvidia_smi_log>"
