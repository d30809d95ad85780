"""The tiers of the network between devices, innermost first: bandwidth per device and direction, and a latency prior per hop."""

from __future__ import annotations

import re

from advisor.errors import UsageError
from advisor.hardware import load
from advisor.hardware.platform import NetworkTier
from advisor.hardware.records import HardwareProfile, System, TorusSpec

_PCIE = re.compile(r"PCIe\s*(\d)\s*x(\d+)", re.IGNORECASE)
_RATE = re.compile(r"([\d.]+)\s*GB/s", re.IGNORECASE)
#: Class of latency prior (``links.yaml``) by the beginning of a link's kind.
_CLASSES = {
    "nv": "nvlink",
    "xgmi": "xgmi",
    "ici": "ici",
    "torus": "ici",
    "hccs": "hccs",
    "neuronlink": "neuronlink",
    "roce": "network",
    "pcie": "pcie",
}


def tiers_of(sheet: HardwareProfile, system: System | None, devices: int, nodes: int, devices_per_node: int) -> tuple[NetworkTier, ...]:
    """Return the network's tiers, innermost first; empty for one device.

    UsageError where a tier that is needed has no known bandwidth: a guess would decide the answer.
    """
    if devices == 1:
        return ()
    if system is not None and system.torus is not None:
        return (_torus(sheet, system.torus, devices),)
    tiers = []
    domain_nodes = min(nodes, system.nodes_per_fast_domain if system else 1)
    if devices_per_node > 1 or domain_nodes > 1:
        kind, rate = _inside(sheet, system)
        tiers.append(
            NetworkTier(
                name="fast domain" if domain_nodes > 1 else "node",
                kind=kind,
                group=min(devices, devices_per_node * domain_nodes),
                bandwidth_bytes_per_s=rate,
                latency_s=latency_s(kind),
            )
        )
    if nodes > domain_nodes:
        tiers.append(_between(sheet, system, devices))
    return tuple(tiers)


def _torus(sheet: HardwareProfile, torus: TorusSpec, devices: int) -> NetworkTier:
    """A slice of a torus is one tier: a ring collective uses both directions of every dimension, so all of a chip's links."""
    if devices > torus.max_chips:
        raise UsageError(f"the largest {sheet.name} slice has {torus.max_chips:,} chips, not {devices:,}")
    rate = 2 * torus.dims * torus.gb_per_s_per_link_direction * 1e9
    return NetworkTier(name="torus", kind="ici", group=devices, bandwidth_bytes_per_s=rate, latency_s=latency_s("ici"))


def _inside(sheet: HardwareProfile, system: System | None) -> tuple[str, float]:
    """Return the kind of link between devices of a node, and bytes/s per device and direction."""
    # A bridge joins two cards only: across a node their traffic goes over PCIe.
    alone = "pcie" if sheet.link is None or sheet.link.kind.endswith("bridge") else "fabric"
    kind = system.intra_node if system else alone
    if kind == "pcie":
        rate = host_link_bytes_per_s(sheet)
    else:
        given = system.intra_node_gb_per_s_per_direction if system else None
        if given is None and sheet.link is not None:
            given = sheet.link.gb_per_s_per_direction
        rate = None if given is None else given * 1e9
    if rate is None:
        where = system.id if system else sheet.id
        raise UsageError(f"the bandwidth between devices of {where} is not known", "ask for one device, or add it to a sheet of your own")
    if kind == "xgmi-mesh":
        return "xgmi", rate
    if kind in ("nvswitch", "nvlink-mesh", "pcie") or sheet.link is None:
        return kind, rate
    return sheet.link.kind, rate


def _between(sheet: HardwareProfile, system: System | None, devices: int) -> NetworkTier:
    network = system.network if system else None
    if system is None or network is None:
        where = system.id if system else sheet.id
        raise UsageError(f"the network between nodes of {where} is not known", "name a system that has one with @SYSTEM")
    # Every device has its share of the node's ports, also where a node is only partly used.
    rate = network.ports * network.gbit_per_s_per_port * 1e9 / 8 / system.devices_per_node
    latency = latency_s("network") if network.latency_us is None else network.latency_us * 1e-6
    return NetworkTier(name="network", kind=network.kind, group=devices, bandwidth_bytes_per_s=rate, latency_s=latency)


def latency_s(kind: str) -> float:
    """Return the latency prior of one hop over a kind of link, in seconds (``links.yaml``)."""
    priors = load.catalog().links.latency_us
    for beginning, name in _CLASSES.items():
        if kind.startswith(beginning):
            return priors[name].value * 1e-6
    return priors["network"].value * 1e-6


def host_link_bytes_per_s(sheet: HardwareProfile) -> float | None:
    """Return the bandwidth between a device and its host, per direction, from ``host_link``; None where it is not known."""
    if sheet.host_link is None or sheet.target.startswith("cpu"):
        return None
    rate = _RATE.search(sheet.host_link)
    if rate is not None:
        return float(rate[1]) * 1e9
    match = _PCIE.search(sheet.host_link)
    lane = load.catalog().links.pcie_gb_per_s_per_lane.get(int(match[1])) if match else None
    return None if match is None or lane is None else int(match[2]) * lane.value * 1e9
