"""Jetson and other Tegra boards: the GPU is no PCI device; the device tree names the part, and memory is the board's own."""

from __future__ import annotations

import re

from advisor.probe.accelerators._sighting import Sighting
from advisor.probe.accelerators._text import compact
from advisor.probe.root import Root

# Part to name and compute capability: NVIDIA Jetson product pages and the CUDA list of compute capabilities.
# The part decides before the board does, so that a board nobody knows yet keeps the facts of its chip.
PARTS = {
    "tegra210": ("Tegra X1", "sm_53"),
    "tegra186": ("Tegra X2", "sm_62"),
    "tegra194": ("Xavier", "sm_72"),
    "tegra234": ("Orin", "sm_87"),
    "tegra264": ("Thor", "sm_110"),
}


def device_tree(root: Root) -> tuple[str | None, list[str]]:
    """Return the model and the compatible strings of the device tree, most specific first."""
    for folder in ("/proc/device-tree", "/sys/firmware/devicetree/base"):
        compatible = [part for part in (root.text(f"{folder}/compatible") or "").replace("\n", "\0").split("\0") if part]
        if compatible or root.exists(f"{folder}/model"):
            return root.line(f"{folder}/model"), compatible
    return None, []


def tegra_part(compatible: list[str]) -> str | None:
    """Return the part (``tegra234``) that the compatible strings name; a whole name, never a part of a longer one."""
    for entry in compatible:
        match = re.fullmatch(r"(?:nvidia,)?(tegra\d+)", entry.strip())
        if match:
            return match.group(1)
    return None


def read_tegra(root: Root) -> Sighting | None:
    """Return the integrated GPU of a Tegra board, or None on any other machine."""
    model, compatible = device_tree(root)
    part = tegra_part(compatible)
    release = root.line("/etc/nv_tegra_release")
    if part is None and release is None:
        return None
    chip, arch = PARTS.get(part or "", (None, None))
    nodes = [name for name in ("/dev/nvhost-gpu", "/dev/nvgpu/igpu0", "/dev/nvmap", "/dev/nvidia0") if root.exists(name)]
    denied = [name for name in nodes if root.access(name) is False]
    bound = root.exists("/sys/module/nvgpu") or bool(nodes) or release is not None
    found = Sighting(source="device-tree", target="cuda", vendor="nvidia", key="nvidia:0")
    found.name = f"{chip} (nvgpu)" if chip else None
    found.arch = arch
    found.memory_kind = "unified"
    found.driver = True if bound else None
    found.node = not denied if nodes else None
    found.package = part
    found.details = compact({"soc": part, "board": model, "l4t_release": _release(release), "integrated": True, "nodes": nodes or None})
    if arch is None:
        found.unknown["arch"] = f"no compute capability is known for {part or 'this Tegra part'}"
    if denied:
        found.state = "permission_denied"
        found.reason = f"no permission on {denied[0]}"
    return found


def _release(text: str | None) -> str | None:
    """Read ``# R36 (release), REVISION: 4.0, …``."""
    match = re.search(r"R(\d+)\s*\(release\),\s*REVISION:\s*([\d.]+)", text or "")
    return f"{match.group(1)}.{match.group(2)}" if match else None
