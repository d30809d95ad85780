"""What the firmware says the machine is: DMI on servers, the device tree on boards, SoC identifiers."""

from __future__ import annotations

import re

from advisor.probe.root import Root

_DMI = ("/sys/class/dmi/id", "/sys/devices/virtual/dmi/id")

#: EC2 instance families (``m6g.xlarge``) by AWS's generation digit to the Graviton generation they run on (AWS documentation).
_GRAVITON = {"6": "AWS Graviton2", "7": "AWS Graviton3", "8": "AWS Graviton4", "9": "AWS Graviton5"}

#: SoCs by device-tree ``compatible``, most specific first.
_SOCS: tuple[tuple[str, str], ...] = (
    ("nvidia,tegra264", "NVIDIA Tegra264 (Thor)"),
    ("nvidia,tegra234", "NVIDIA Tegra234 (Orin)"),
    ("nvidia,tegra194", "NVIDIA Tegra194 (Xavier)"),
    ("nvidia,tegra186", "NVIDIA Tegra186 (TX2)"),
    ("nvidia,tegra210", "NVIDIA Tegra210 (TX1/Nano)"),
    ("brcm,bcm2712", "Broadcom BCM2712"),
    ("brcm,bcm2711", "Broadcom BCM2711"),
    ("brcm,bcm2837", "Broadcom BCM2837"),
    ("brcm,bcm2836", "Broadcom BCM2836"),
    ("brcm,bcm2835", "Broadcom BCM2835"),
    ("rockchip,rk3588", "Rockchip RK3588"),
    ("rockchip,rk3576", "Rockchip RK3576"),
    ("rockchip,rk3568", "Rockchip RK3568"),
    ("rockchip,rk3566", "Rockchip RK3566"),
    ("rockchip,rk3399", "Rockchip RK3399"),
    ("apple,t8103", "Apple M1"),
    ("apple,t6000", "Apple M1 Pro"),
    ("apple,t6001", "Apple M1 Max"),
    ("apple,t6002", "Apple M1 Ultra"),
    ("apple,t8112", "Apple M2"),
    ("apple,t6020", "Apple M2 Pro"),
    ("apple,t6021", "Apple M2 Max"),
    ("apple,t6022", "Apple M2 Ultra"),
)


def dmi(root: Root, field: str) -> str | None:
    """Return a DMI field (``sys_vendor``, ``product_name`` …), or None where absent or a maker's placeholder."""
    for folder in _DMI:
        value = root.line(f"{folder}/{field}")
        if value and value.lower() not in (
            "to be filled by o.e.m.",
            "default string",
            "system product name",
            "not specified",
            "none",
            "n/a",
        ):
            return value
    return None


def device_tree(root: Root, field: str) -> tuple[str, ...]:
    """Return the strings of a property of the device tree's root (``model``, ``compatible``)."""
    for folder in ("/proc/device-tree", "/sys/firmware/devicetree/base"):
        text = root.text(f"{folder}/{field}")
        if text:
            return tuple(part for part in text.strip("\n").split("\0") if part)
    return ()


def product_of(root: Root) -> str | None:
    """Return the product that carries ARM cores, where firmware proves it; a core alone proves no product."""
    vendor, product = dmi(root, "sys_vendor") or "", dmi(root, "product_name") or ""
    if "amazon" in vendor.lower():
        if re.match(r"a1\.", product):
            return "AWS Graviton"
        match = re.match(r"(?:[a-z]+|im|is|hpc)(\d)g[a-z]*\.|hpc(\d)g\.|x(\d)g[a-z]*\.", product)
        digits = next((group for group in match.groups() if group), "") if match else ""
        return "AWS Graviton2" if product.startswith("x2g") else _GRAVITON.get(digits)
    text = f"{product} {dmi(root, 'board_name') or ''} {dmi(root, 'product_family') or ''}"
    if vendor.upper().startswith("NVIDIA") and re.search(r"DGX.?Spark|GB10", text):
        return "NVIDIA GB10"
    if re.search(r"\bGB[23]00\b|\bGH200\b|\bGrace\b", text, re.IGNORECASE):
        return "NVIDIA Grace"
    if re.search(r"\bAltra\b", text, re.IGNORECASE):
        return "Ampere Altra"
    compatible = device_tree(root, "compatible")
    for name, soc in _SOCS:
        if name in compatible:
            return soc
    return None


def board_of(root: Root) -> str | None:
    """Return what the machine as a whole is called: the device tree's model, else DMI's maker and product."""
    model = device_tree(root, "model")
    if model:
        return model[0]
    parts = [part for part in (dmi(root, "sys_vendor"), dmi(root, "product_name")) if part]
    return " ".join(parts) or None
