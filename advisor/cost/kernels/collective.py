"""Time of collective communication over a hierarchy of networks.

Bus bandwidth as in nccl-tests: an all-reduce of S bytes over n devices moves 2(n-1)/n * S through each device, an all-gather,
reduce-scatter or all-to-all of S bytes in total (n-1)/n * S. Over several tiers the operation is hierarchical: reduce-scatter inside,
the operation on 1/n of the data across, all-gather inside (Thakur et al., 2005; NCCL's multi-ring is equal in bytes per link).
Latency: one step a hop on a ring, log2 of the members on a tree; the shorter of the two counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.kernels.generation import fitted
from advisor.hardware.platform import NetworkTier

Floats = npt.NDArray[np.float64]

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "p2p")
#: Reached over sheet bandwidth by kind of link. Priors: A100 reaches 235 of 300 GB/s, H100 365 of 450 with rings (ml-engineering).
_EFFICIENCY = {"nvlink": 0.80, "xgmi": 0.70, "pcie": 0.60, "ib": 0.85, "roce": 0.75, "efa": 0.70, "torus": 0.85, "hccs": 0.70}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveParameters:
    """``start_s``: one collective's launch and synchronization; ``efficiency``: by kind of link, over the sheet's bandwidth."""

    start_s: float
    efficiency: dict[str, float]


def parameters(calibration: Calibration) -> CollectiveParameters:
    """Return the parameters; priors: 10 µs start and the efficiencies by kind of link."""
    efficiency = {}
    for kind, prior in _EFFICIENCY.items():
        value = fitted(calibration, f"collective.efficiency.{kind}")
        efficiency[kind] = prior if value is None else value
    start = fitted(calibration, "collective.start")
    return CollectiveParameters(start_s=10e-6 if start is None else start, efficiency=efficiency)


def kind_of(tier: NetworkTier) -> str:
    """Return the class of link a tier belongs to: a key of the efficiency table."""
    text = f"{tier.kind} {tier.name}".lower()
    for word, kind in (
        ("nv", "nvlink"),
        ("xgmi", "xgmi"),
        ("infinity", "xgmi"),
        ("pcie", "pcie"),
        ("torus", "torus"),
        ("ici", "torus"),
        ("hccs", "hccs"),
        ("efa", "efa"),
        ("roce", "roce"),
        ("eth", "roce"),
    ):
        if word in text:
            return kind
    return "ib"


def seconds(
    p: CollectiveParameters,
    op: str,
    size_bytes: Any,
    group: Any,
    tiers: Sequence[NetworkTier],
    *,
    stride: Any = 1.0,
    peer_to_peer: bool = True,
) -> Floats:
    """Return seconds of ``op``; 0 for no bytes or a group of one. ``stride``: distance of neighbours in device order."""
    if op not in OPERATIONS:
        raise ValueError(f"unknown collective {op!r}; one of {', '.join(OPERATIONS)}")
    size, members, step = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (size_bytes, group, stride)))
    members = np.maximum(members, 1.0)
    total = np.zeros(size.shape)
    share = size.copy()
    inside = np.ones(size.shape)
    rounds = 2.0 if op == "all_reduce" else 1.0
    for index, tier in enumerate(tiers):
        reach = np.maximum(np.floor(tier.group / np.maximum(step, 1.0)), 1.0)
        joined = members if index == len(tiers) - 1 else np.minimum(members, reach)
        here = np.maximum(joined / inside, 1.0)
        rate = max(tier.bandwidth_bytes_per_s, 1.0) * p.efficiency[kind_of(tier)]
        if op == "p2p":
            # A pair crosses the innermost tier that joins it.
            wire = np.where(here > 1, share / rate, 0.0)
            hops = np.where(here > 1, 1.0, 0.0)
            total = np.maximum(total, wire + hops * tier.latency_s)
        else:
            wire = rounds * (here - 1.0) / here * share / rate
            hops = rounds * np.minimum(here - 1.0, 2.0 * np.log2(np.maximum(here, 1.0)))
            total = total + wire + hops * tier.latency_s
            if op != "all_to_all":
                share = share / here
        inside = np.maximum(inside, joined)
    return np.where((size > 0) & (members > 1), p.start_s + total, 0.0)
