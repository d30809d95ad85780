"""Time of collective communication over a hierarchy of networks.

Bus bandwidth as in nccl-tests: an all-reduce of S bytes over n devices moves 2(n-1)/n * S through each device, an all-gather,
reduce-scatter or all-to-all of S bytes in total (n-1)/n * S. Over several tiers the operation is hierarchical: inside a node on all of
the data, across nodes on what one device holds (Thakur et al., 2005; the rings of NCCL are equal in bytes per link).

    t = start + hop * steps + wire + 2*sqrt(chunk * wire) + copy

``wire`` is bytes over ``efficiency`` of the sheet bandwidth; the square root is the pipeline: a message is cut into chunks, and the best
chunk balances the time of one chunk against the latency of all. ``copy`` is the local share of all-gather, reduce-scatter and
all-to-all. ``steps``: n-1 a phase on a ring, or twice log2 of the nodes on a tree. Switches that reduce (NVLink SHARP) save part of an
all-reduce of four or more devices. Devices on PCIe share root ports and host memory: each doubling costs bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import KernelParameter, declare, fitted, shared
from advisor.hardware.platform import NetworkTier

Floats = npt.NDArray[np.float64]

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p")

#: Of a generation of devices.
PER_GENERATION: tuple[KernelParameter, ...] = (
    declare("start", 7e-6, 2e-6, 3e-5, "s", "Launch and synchronization of one collective"),
    declare("hop", 1.1e-6, 2e-7, 5e-6, "s", "One step of a ring inside a node"),
)
#: Of a kind of link: efficiency over the sheet bandwidth, and the latency a chunk pays.
KINDS: Mapping[str, tuple[float, float]] = {
    "nvlink": (0.85, 4e-6),
    "xgmi": (0.75, 8e-6),
    "pcie": (0.70, 4e-6),
    "ib": (0.85, 2e-5),
    "roce": (0.75, 2e-5),
    "efa": (0.70, 3e-5),
    "torus": (0.85, 4e-6),
    "hccs": (0.75, 8e-6),
}
PER_KIND: tuple[KernelParameter, ...] = (
    declare("efficiency", 0.8, 0.2, 1.0, "fraction", "Bus bandwidth of long messages over the sheet's"),
    declare("chunk", 6e-6, 1e-7, 5e-4, "s", "Latency of one chunk of the pipeline"),
)
GLOBAL: tuple[KernelParameter, ...] = (
    declare("copy", 0.3, 0.05, 2.0, "fraction", "Rate of the local copy over device-memory bandwidth"),
    declare("switch", 1.25, 1.0, 1.8, "ratio", "All-reduce bandwidth with reduction in the switch over without"),
    declare("contention", 2.0, 0.5, 3.0, "exponent", "Power of the device count by which PCIe bandwidth falls"),
    declare("exchange", 0.4, 0.05, 1.0, "fraction", "Steps of an all-to-all over those of a ring"),
    declare("issue", 2e-5, 2e-6, 1e-4, "s", "Launch from the host and wait, for a collective outside a captured graph"),
    declare("gather_rate", 0.95, 0.5, 1.2, "ratio", "Bandwidth of one-phase collectives over the all-reduce's"),
)
#: Without peer access every byte is written to host memory and read back.
_THROUGH_HOST = 0.5
#: A step between nodes crosses the adapters of both ends.
_NETWORK_HOP = 2.0
#: Generations whose switches reduce.
SWITCH_REDUCES = ("hopper", "blackwell")


@dataclass(frozen=True, slots=True)
class CollectiveParameters:
    """``values`` by name (``start``, ``hop``, ``copy`` …) and ``kinds`` by kind of link: (efficiency, chunk)."""

    values: Mapping[str, float]
    kinds: Mapping[str, tuple[float, float]]
    switch_reduces: bool


def parameters(calibration: Calibration, generation: str) -> CollectiveParameters:
    """Return the parameters of a generation; the efficiency of a kind of link is fitted per generation where it was measured."""
    values = {p.name: shared(calibration, f"collective.{p.name}", generation, p.prior) for p in PER_GENERATION}
    for p in GLOBAL:
        value = fitted(calibration, f"collective.{p.name}")
        values[p.name] = p.prior if value is None else value
    kinds = {
        kind: (
            shared(calibration, f"collective.efficiency.{kind}", generation, efficiency),
            shared(calibration, f"collective.chunk.{kind}", generation, chunk),
        )
        for kind, (efficiency, chunk) in KINDS.items()
    }
    return CollectiveParameters(values, kinds, generation in SWITCH_REDUCES)


_WORDS = {
    "nv": "nvlink",
    "xgmi": "xgmi",
    "infinity fabric": "xgmi",
    "pcie": "pcie",
    "torus": "torus",
    "ici": "torus",
    "hccs": "hccs",
    "efa": "efa",
    "roce": "roce",
    "eth": "roce",
}


def kind_of(tier: NetworkTier) -> str:
    """Return the class of link a tier belongs to: a key of KINDS; unknown networks count as InfiniBand."""
    text = f"{tier.kind} {tier.name}".lower()
    return next((kind for word, kind in _WORDS.items() if word in text), "ib")


def seconds(
    p: CollectiveParameters,
    op: str,
    size_bytes: Any,
    group: Any,
    tiers: Sequence[NetworkTier],
    *,
    stride: Any = 1.0,
    peer_to_peer: bool = True,
    memory_bytes_per_s: float = 2e12,
    reducible: bool = True,
    issued: bool = False,
) -> Floats:
    """Return seconds of ``op``; 0 for no bytes or a group of one.

    ``stride`` is the distance of neighbours in device order; ``reducible`` says that the switch can add the dtype (not int8);
    ``issued`` that the host launches the operation alone and waits for it, as a benchmark does.
    """
    if op not in OPERATIONS:
        raise ValueError(f"unknown collective {op!r}; one of {', '.join(OPERATIONS)}")
    size, members, step = (np.asarray(x, dtype=np.float64) for x in np.broadcast_arrays(size_bytes, group, stride))
    members, step = np.maximum(members, 1.0), np.maximum(step, 1.0)
    total = np.zeros(size.shape)
    share, inside = np.maximum(size, 0.0), np.ones(size.shape)
    for index, tier in enumerate(tiers):
        reach = np.maximum(np.floor(tier.group / step), 1.0)
        joined = members if index == len(tiers) - 1 else np.maximum(np.minimum(members, reach), inside)
        here = np.maximum(joined / inside, 1.0)
        spent = _phase(p, op, share, here, tier, index, peer_to_peer=peer_to_peer, reducible=reducible)
        # A pair of devices crosses the outermost tier that separates it; other operations pass through every tier.
        total = np.where(here > 1.0, spent, total) if op == "p2p" else total + spent
        if op not in ("all_to_all", "p2p"):
            share = share / here
        inside = joined
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        total = total + np.maximum(size, 0.0) / members / (p.values["copy"] * memory_bytes_per_s)
    start = p.values["start"] + (p.values["issue"] if issued else 0.0)
    return np.where((size > 0) & (members > 1), start + total, 0.0)


def _phase(
    p: CollectiveParameters, op: str, share: Floats, here: Floats, tier: NetworkTier, index: int, *, peer_to_peer: bool, reducible: bool
) -> Floats:
    """Return seconds of one tier's part: ``share`` bytes over ``here`` members joined by ``tier``."""
    kind = kind_of(tier)
    efficiency, chunk = p.kinds[kind]
    rounds = 2.0 if op == "all_reduce" else 1.0
    rate = np.full(here.shape, max(tier.bandwidth_bytes_per_s, 1.0) * efficiency)
    if kind == "pcie":
        rate = rate * (2.0 / np.maximum(here, 2.0)) ** p.values["contention"] * (1.0 if peer_to_peer else _THROUGH_HOST)
    if op == "all_reduce" and kind == "nvlink" and index == 0 and p.switch_reduces and reducible:
        rate = np.where(here >= 4.0, rate * p.values["switch"], rate)
    elif op != "all_reduce":
        rate = rate * p.values["gather_rate"]
    # A tier wider than its ring of members (a pair in a node of eight) still owns the device's links alone.
    fraction = np.where(here > 1.0, 1.0, 0.0) if op == "p2p" else (here - 1.0) / here
    wire = rounds * fraction * share / rate
    ring = here - 1.0
    steps = np.minimum(ring, 2.0 * np.log2(here)) if index > 0 else ring
    if op == "all_to_all":
        steps = steps * p.values["exchange"]
    if op == "p2p":
        steps = np.minimum(steps, 1.0)
    # A fast domain's own latency is fitted; a network's is a multiple of what its tier states.
    hop = p.values["hop"] if index == 0 else max(tier.latency_s * _NETWORK_HOP, p.values["hop"])
    return np.where(here > 1.0, rounds * steps * hop + wire + 2.0 * np.sqrt(chunk * wire), 0.0)
