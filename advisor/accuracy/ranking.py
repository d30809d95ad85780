"""Rank correlation, so that scoring needs no scipy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def kendall_tau(a: Floats, b: Floats) -> float:
    """Return Kendall's tau-b of two equally long samples: +1 same order, -1 reversed, ties counted as neither; NaN if either is flat.

    tau_b = (concordant - discordant) / sqrt((pairs - ties in a)(pairs - ties in b)), Kendall 1945.
    """
    upper = np.triu_indices(len(a), 1)
    da = np.sign(np.subtract.outer(a, a))[upper]
    db = np.sign(np.subtract.outer(b, b))[upper]
    free = np.count_nonzero(da) * np.count_nonzero(db)
    return float(np.sum(da * db) / np.sqrt(free)) if free else float("nan")
