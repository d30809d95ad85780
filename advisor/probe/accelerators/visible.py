"""Which devices the ``*_VISIBLE_DEVICES`` variables leave to a program, by the vendors' own rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from advisor.probe.records import Device

_CUDA_ITEM = re.compile(r"\d+|GPU-[0-9a-fA-F-]+|MIG-[0-9a-fA-F-]+|MIG-GPU-[0-9a-fA-F-]+/\d+/\d+")


def select_cuda(text: str | None, uuids: Sequence[str | None]) -> list[int]:
    """Return the places that ``CUDA_VISIBLE_DEVICES`` selects, in its order; all where it is not set.

    The rule of the CUDA programming guide: an index, a UUID or a unique beginning of one; the list ends at the first item that
    names no device; a device named twice selects nothing. ``uuids`` are those of the devices in CUDA's order.
    """
    if text is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for item in (part.strip() for part in text.split(",")):
        place = _place(item, uuids) if _CUDA_ITEM.fullmatch(item) else None
        if place is None:
            break
        chosen.append(place)
    return chosen if len(set(chosen)) == len(chosen) else []


def _place(item: str, uuids: Sequence[str | None]) -> int | None:
    if item.isdecimal():
        return int(item) if len(item) < 6 and int(item) < len(uuids) else None
    found = [place for place, uuid in enumerate(uuids) if uuid and uuid.lower().startswith(item.lower())]
    return found[0] if len(found) == 1 else None


def select_rocm(environ: Mapping[str, str], uuids: Sequence[str | None]) -> list[int]:
    """Return the places that ROCm's variables leave: ROCR's list first, then HIP's (or CUDA's) counts in what is left.

    ROCR takes indices and ``GPU-`` with the hexadecimal unique id. An item that names nothing ends a list.
    """
    left = list(range(len(uuids)))
    rocr = environ.get("ROCR_VISIBLE_DEVICES")
    if rocr is not None:
        named = [f"GPU-{uuid}" if uuid else None for uuid in uuids]
        left = select_cuda(rocr, named)
    hip = environ.get("HIP_VISIBLE_DEVICES", environ.get("CUDA_VISIBLE_DEVICES"))
    if hip is None:
        return left
    return [left[place] for place in select_cuda(hip, [None] * len(left))]


def mark_visible(devices: Sequence[Device], environ: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the devices, those of CUDA and ROCm with ``details["visible"]``: whether a program started here would see them."""
    hidden: set[str] = set()
    cuda = [device for device in devices if device.target == "cuda"]
    cuda.sort(key=lambda device: (device.details.get("cuda_index", device.details.get("nvml_index", 1 << 20)), device.bus_id or ""))
    rocm = [device for device in devices if device.target == "rocm"]
    rocm.sort(key=lambda device: device.details.get("kfd_node", 1 << 20))
    if "CUDA_VISIBLE_DEVICES" in environ:
        seen = select_cuda(environ["CUDA_VISIBLE_DEVICES"], [device.uuid for device in cuda])
        hidden |= {device.id for place, device in enumerate(cuda) if place not in seen}
    seen = select_rocm(environ, [device.uuid for device in rocm])
    hidden |= {device.id for place, device in enumerate(rocm) if place not in seen}
    if not hidden:
        return tuple(devices)
    return tuple(replace(device, details={**device.details, "visible": False}) if device.id in hidden else device for device in devices)
