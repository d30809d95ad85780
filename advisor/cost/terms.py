"""Terms: what a training step is made of, before the training parameters are applied: kernel seconds, bytes, counts, codes.

``advisor.cost.collect`` fills one Terms for a table of plans; ``advisor.cost.training.compose`` turns Terms and a Calibration into
seconds, ``advisor.cost.memory`` into bytes. Keeping them apart makes a fit fast: kernels are priced once, and the terms of many models
and platforms can be joined into one table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Codes of ``Terms.codes``: row values index these names, which complete the name of a parameter (``sustained.ampere``).
GENERATIONS = ("any", "volta", "ampere", "hopper", "blackwell", "tpu")
FUSIONS = ("eager", "fused", "compiled", "xla")
LINKS = ("any", "ib", "roce", "opa", "efa", "torus")


@dataclass(frozen=True, slots=True)
class Terms:
    """Columns float64[n] by name, and integer codes by vocabulary (``generation``, ``fusion``, ``link``)."""

    columns: dict[str, Floats]
    codes: dict[str, npt.NDArray[np.int64]]
    measurements: tuple[str, ...] = ()
    """Measurements that the kernels' seconds rest on."""

    def __getattr__(self, name: str) -> Floats:
        try:
            return self.columns[name]
        except KeyError as error:
            raise AttributeError(name) from error

    def __len__(self) -> int:
        return len(self.codes["generation"])

    @classmethod
    def concat(cls, parts: Iterable[Terms]) -> Terms:
        """Join the terms of several models, workloads and platforms, in order."""
        rows = list(parts)
        columns = {name: np.concatenate([t.columns[name] for t in rows]) for name in rows[0].columns}
        return cls(columns, {name: np.concatenate([t.codes[name] for t in rows]) for name in rows[0].codes})

    def take(self, rows: Any) -> Terms:
        """Return the chosen rows (indices or a mask)."""
        return Terms({k: v[rows] for k, v in self.columns.items()}, {k: v[rows] for k, v in self.codes.items()})
