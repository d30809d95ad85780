"""Which plans compute or store in eight bits or fewer without a measurement that shows that it pays on this device.

Eight-bit products pay where they are large (a hidden size of about 4096 and more, some thousand tokens a pass): casts and scales are
bandwidth-bound, and public reports of fp8 slower than bf16 are common. A claim from the data sheet alone is therefore marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.cost.kernels.generation import fitted, generation_of
from advisor.plan.table import Array, PlanTable

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration
    from advisor.cost.price import PricedTable
    from advisor.hardware.platform import Platform
    from advisor.model.records import Model
    from advisor.plan.records import Workload

#: Sizes from which published fp8 runs beat bf16 (Transformer Engine and torchao tables start to gain about here).
LARGE_HIDDEN = 4096
LARGE_TOKENS = 4096
_LOW_PRECISIONS = ("fp8", "fp4", "int8")


def unverified_mask(
    model: Model, workload: Workload, platform: Platform, plans: PlanTable, priced: PricedTable, calibration: Calibration
) -> Array:
    """Return bool[n]: plans in eight bits or fewer whose gain no measurement of this kind of device and size supports.

    A measured eight-bit product of this very machine or product verifies them; so do fitted eight-bit products of the device's
    generation, for products of a size that was fitted, where the plan's own prediction is calibrated too.
    """
    low = low_precision_mask(plans)
    if not low.any():
        return low
    if priced.evidence == "measured" or any(p.kind == "gemm" and p.dtype.startswith(("fp8", "int8", "fp4")) for p in platform.points):
        return np.zeros(len(plans), dtype=bool)
    generation = generation_of(platform.profile)
    known = any(fitted(calibration, f"gemm.ceiling.{kind}.{generation}") is not None for kind in ("8", "8v"))
    evidence = priced.row_evidence
    weak = np.array([e not in ("measured", "calibrated") for e in evidence], dtype=bool) if evidence is not None else None
    unfitted = np.full(len(plans), priced.evidence not in ("measured", "calibrated")) if weak is None else weak
    if workload.is_training:
        hidden = model.transformer.hidden if model.transformer is not None else 0
        tokens = plans.ints("micro_batch") * workload.seq_len / plans.ints("cp")
        unfitted = unfitted | (hidden < LARGE_HIDDEN) | (tokens < LARGE_TOKENS)
    return np.asarray(low & (unfitted | (not known)))


def low_precision_mask(plans: PlanTable) -> Array:
    """Return bool[n]: plans that multiply in, or store weights in, eight bits or fewer."""
    low = ~plans.equals("quantization", "none")
    for name in _LOW_PRECISIONS:
        low = low | plans.equals("precision", name)
    return np.asarray(low)
