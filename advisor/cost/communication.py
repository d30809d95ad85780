"""Who talks to whom: the size, group and placement of each exchange of a training step, split by network tier.

Ranks are placed as Megatron-Core places them: tensor parallelism innermost, then context, data and pipeline parallelism, so a group
of one kind has the stride of those inside it (``megatron/core/parallel_state.py``, order "tp-cp-ep-dp-pp"). Seconds are those of
the collective curves; ``inside`` is the innermost tier, ``between`` all outer ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.curves import DeviceCurves, collective_seconds
from advisor.hardware.platform import NetworkTier

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Seconds of one exchange on the innermost tier and on the tiers outside it, float64[n]."""

    inside: Floats
    between: Floats


def exchange(op: str, size_bytes: Any, group: Any, stride: Any, tiers: Sequence[NetworkTier], curves: DeviceCurves) -> Exchange:
    """Return the Exchange of collective ``op`` over ``group`` ranks ``stride`` apart; zero for a group of one."""
    size, members, step = (np.ascontiguousarray(x, dtype=np.float64) for x in np.broadcast_arrays(size_bytes, group, stride))
    if not tiers or not size.size or members.max() <= 1:
        return Exchange(np.zeros(size.shape), np.zeros(size.shape))
    inner = tiers[:1]
    reach = np.maximum(np.floor(float(inner[0].group) / np.maximum(step, 1.0)), 1.0)
    total = collective_seconds(op, size, members, tiers, curves, stride=step)
    if op == "p2p":
        near = reach > 1
        return Exchange(np.where(near, total, 0.0), np.where(near, 0.0, total))
    inside = collective_seconds(op, size, np.minimum(members, reach), inner, curves, stride=step)
    return Exchange(inside, np.maximum(total - inside, 0.0))


def scaled(e: Exchange, times: Any) -> Exchange:
    """Return ``times`` such exchanges one after the other."""
    return Exchange(e.inside * times, e.between * times)


def joined(*parts: Exchange) -> Exchange:
    """Return exchanges one after the other."""
    return Exchange(sum((p.inside for p in parts), start=np.zeros(1)), sum((p.between for p in parts), start=np.zeros(1)))


def beside(work: Any, exchange_s: Any, fraction: Any, contention: float) -> Floats:
    """Return the seconds that ``exchange_s`` adds to ``work`` when ``fraction`` of it may run beside the work.

    What runs beside work hides, but slows it: collectives take memory bandwidth and compute units (``contention`` of the shorter).
    """
    hidden = np.asarray(exchange_s, dtype=np.float64) * fraction
    exposed = exchange_s - hidden + np.maximum(hidden - work, 0.0) + contention * np.minimum(hidden, work)
    return np.asarray(exposed, dtype=np.float64)
