"""Pipeline schedules: how stages are cut, and what the bubble and the uneven stages cost.

1F1B over p stages and m micro-batches: the slowest stage works m times, and the pipeline fills and drains once through the others,
``T = m max(t) + (sum(t) - max(t)) / v``; with equal stages the bubble is ``(p - 1) t / v`` (Narayanan et al., SC'21, section 2.2,
v interleaved chunks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stages:
    """Layers of the heaviest stage and of the last one, float64[n]."""

    most: Floats
    last: Floats


def cut(layers: Any, pp: Any, balanced: Any) -> Stages:
    """Return how ``layers`` fall on ``pp`` stages.

    Equal shares where they divide. Otherwise ``balanced`` frameworks count embedding and head as one layer each
    (DeepSpeed ``partition_method="type:transformer|embedding"``), the others give the last stage what remains.
    """
    layers, pp = np.asarray(layers, dtype=np.float64), np.asarray(pp, dtype=np.float64)
    even = np.mod(layers, pp) == 0
    with_edges = np.ceil((layers + 2.0) / pp)
    plain = np.ceil(layers / pp)
    most = np.where(even, layers / pp, np.where(np.asarray(balanced) > 0, np.maximum(with_edges, plain), plain))
    last = np.where(even, most, np.where(np.asarray(balanced) > 0, np.maximum(most - 1.0, 1.0), np.maximum(layers - plain * (pp - 1), 1.0)))
    return Stages(np.minimum(most, layers), np.minimum(last, layers))


def in_flight(pp: Any, vpp: Any, micro_batches: Any) -> Floats:
    """Return how many micro-batches (of one stage's layers) the first stage holds at the peak of 1F1B.

    min(m, p) for v = 1; interleaving holds ``1 + (p - 1) / (p v)`` times as many (Korthikanti et al. 2022, section 4.2.3).
    """
    pp, vpp, m = (np.asarray(x, dtype=np.float64) for x in (pp, vpp, micro_batches))
    held = np.where(vpp > 1, pp * (1.0 + (pp - 1.0) / (pp * vpp)), pp)
    return np.asarray(np.minimum(held, m), dtype=np.float64)
