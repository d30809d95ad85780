"""HardwareProfile and System: what the YAML sheets under ``hardware_profiles/`` say, strictly typed.

Peaks are dense (never 2:4 sparse) and per logical device as the operating system shows it. An absent number is unknown.
Memory is GiB as the device reports it; bandwidths are decimal GB/s, links per direction.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Sheet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything read from a sheet: frozen, and an unknown key is an error."""


class Source(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where numbers come from: a short tag used in ``sources``, what it is, and where it may be read."""

    title: str
    url: str | None = None
    date: str | None = None


class DeviceLinkSpec(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The link between devices of one node: total over all links of a device, per direction."""

    kind: str
    gb_per_s_per_direction: float | None = None


class HardwareProfile(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A product: one logical device."""

    id: str
    """Canonical name: lower case, ``a100-sxm4-80gb``."""
    name: str
    """As the field writes it: ``NVIDIA A100-SXM4-80GB``."""
    vendor: str
    target: str
    """The Device target: ``cuda``, ``rocm``, ``tpu`` …"""
    arch: str | None = None
    """``sm_80``, ``gfx942``, ``v5p``, ``910B`` …"""
    architecture: str | None = None
    """The marketing name of the architecture: ``Ampere``."""
    year: int | None = None
    logical_devices_per_package: int = 1
    dense_tflops: dict[str, float] = {}
    """Dense peak of a GEMM per dtype in TFLOP/s (int8: TOP/s): of the matrix units, or of the vector units where there are none for it.

    ``fp64_vector`` and ``fp32_vector`` are the vector units' own. 16-bit types accumulate in fp32.
    """
    memory_gib: float | None = None
    memory_kind: Literal["dedicated", "unified"] = "dedicated"
    memory_gb_per_s: float | None = None
    l2_mib: float | None = None
    compute_units: int | None = None
    boost_mhz: float | None = None
    tdp_w: float | None = None
    link: DeviceLinkSpec | None = None
    host_link: str | None = None
    """``PCIe4 x16``, ``NVLink-C2C`` …"""
    peer_to_peer: bool = True
    """Whether two devices of a node can exchange data without passing through host memory."""
    default_system: str | None = None
    aliases: tuple[str, ...] = ()
    """Exact names tools print, compared without case."""
    short_names: tuple[str, ...] = ()
    """What people type (``a100``); never used to identify a probed device."""
    pci_ids: tuple[str, ...] = ()
    """``10de:20b2``."""
    sources: dict[str, tuple[str, ...]] = {}
    """Field name (``dense_tflops.bf16``) to the tags of the sources that state it."""
    notes: str | None = None


class NetworkSpec(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The network between nodes, per node: how many ports at what speed."""

    kind: str
    ports: int
    gbit_per_s_per_port: float
    latency_us: float | None = None
    sources: tuple[str, ...] = ()


class TorusSpec(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A torus of chips (TPU): dimensions of the largest slice and the speed of one link per direction."""

    dims: int
    gb_per_s_per_link_direction: float
    max_chips: int
    sources: tuple[str, ...] = ()


class System(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node type: which devices, how many, how they are linked, which network."""

    id: str
    name: str
    device: str
    """Id of a HardwareProfile."""
    devices_per_node: int
    intra_node: Literal["nvswitch", "nvlink-mesh", "xgmi-mesh", "pcie", "torus", "fabric", "hccs", "none"]
    intra_node_gb_per_s_per_direction: float | None = None
    """Per device, all links together; None means the device's own ``link``."""
    network: NetworkSpec | None = None
    torus: TorusSpec | None = None
    nodes_per_fast_domain: int = 1
    """Nodes joined by the fast fabric (18 for an NVL72 rack of 4-GPU trays)."""
    host_cpu: str | None = None
    host_memory_gib: float | None = None
    aliases: tuple[str, ...] = ()
    sources: dict[str, tuple[str, ...]] = {}
    notes: str | None = None


class SourcedValue(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number with where it comes from."""

    value: float
    sources: tuple[str, ...]
    note: str | None = None


class Links(Sheet, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for a kind of link, whatever the device: latency priors of one hop, and the rate of a PCIe lane per direction."""

    latency_us: dict[str, SourcedValue]
    pcie_gb_per_s_per_lane: dict[int, SourcedValue]
