"""Families of plans: the kinds of answer a reader compares, each shown at its best."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.plan.records import Plan, Workload
from advisor.plan.table import Array, PlanTable

TRAIN_FAMILIES = (
    "data parallel",
    "sharded data parallel",
    "tensor parallel",
    "pipeline parallel",
    "tensor + pipeline parallel",
    "context parallel",
)
INFER_FAMILIES = ("one device", "replicas", "tensor parallel", "pipeline parallel", "tensor + pipeline parallel")


def family_codes(plans: PlanTable, workload: Workload) -> tuple[tuple[str, ...], Array]:
    """Return the family names and int[n]: the family of each plan.

    Offload is a family of its own beside each, since it answers another question ("does it fit at all").
    """
    tp, pp, cp, dp = (plans.columns[k] for k in ("tp", "pp", "cp", "dp"))
    if workload.is_training:
        names: tuple[str, ...] = (*TRAIN_FAMILIES, "offload to the host")
        sharded = ~plans.equals("sharding", "none")
        codes = np.select(
            [~plans.equals("offload", "none"), cp > 1, (tp > 1) & (pp > 1), pp > 1, tp > 1, sharded], [6, 5, 4, 3, 2, 1], default=0
        )
        return names, codes
    names = INFER_FAMILIES
    codes = np.select([(tp > 1) & (pp > 1), pp > 1, tp > 1, dp > 1], [4, 3, 2, 1], default=0)
    return names, codes


def family_of(plan: Plan, workload: Workload) -> str:
    """Return the name of a single plan's family."""
    names, codes = family_codes(PlanTable.of([plan]), workload)
    return names[int(codes[0])]


def shape_key(plan: Plan) -> tuple[Any, ...]:
    """Return what makes two plans look alike to a reader: they differ only in how the batch is cut or in fine knobs."""
    return (
        plan.framework,
        plan.execution,
        plan.precision,
        plan.quantization,
        plan.dp,
        plan.tp,
        plan.pp,
        plan.cp,
        plan.sharding,
        plan.offload,
    )
