"""The whole space of a question, made without the search: every combination of every field's values, kept where no rule is broken.

The search enumerates by structure (divisors of heads, layers and experts) and orders; here degrees are all divisors of the devices,
whatever the model, only the rules of ``advisor.plan.legal`` say no, and the optimum is the least of a column.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.price import PricedTable, price
from advisor.cost.uncertainty import Z_80
from advisor.frameworks import Capability
from advisor.plan.legal import Context, legal_mask
from advisor.plan.records import Plan
from advisor.plan.table import INT_COLUMNS, NAME_COLUMNS, PlanTable
from advisor.search.degrees import Degrees, batches, divisors
from advisor.search.objective import KNEE, constraints, scores
from advisor.search.space import options, thread_counts
from advisor.search.verified import low_precision_mask, unverified_mask

Bools = npt.NDArray[np.bool_]
#: Pipeline interleaving beyond this is not in question (the search says the same).
_MOST_VPP = 16
_ADAPTER_RANK = 16


def whole(context: Context, fixed: Mapping[str, Any]) -> PlanTable:
    """Return every legal plan of a question that agrees with ``fixed``."""
    parts = []
    for framework, capabilities in context.capabilities.items():
        for can in capabilities:
            for chunk in _combinations(framework, can, context, fixed):
                kept = chunk.take(legal_mask(chunk, context) & _agrees(chunk, fixed) & _sensible(chunk))
                if len(kept):
                    parts.append(kept)
    return PlanTable.concat(parts)


def _combinations(framework: str, can: Capability, c: Context, fixed: Mapping[str, Any]) -> Iterator[PlanTable]:
    """Yield tables of all combinations, one for each way to deal the devices out."""
    named, devices, node = options(can, c, fixed, offload=True), c.platform.devices, c.platform.devices_per_node
    for tp, pp, cp in itertools.product(*[divisors(devices)] * 3):
        if devices % (tp * pp * cp) or not named:
            continue
        dp = devices // (tp * pp * cp)
        rows = []
        for vpp, ep in itertools.product(range(1, _MOST_VPP + 1) if pp > 1 else (1,), divisors(c.size("experts"))):
            degrees = Degrees(dp=dp, tp=tp, pp=pp, vpp=vpp, cp=cp, ep=ep)
            for micro, steps, total in batches(c.workload, degrees, {}):
                for code, sharding in enumerate(can.shardings):
                    degree = {"none": 1, "hsdp": node}.get(sharding, dp * cp)
                    rows.append((code, micro, steps, total, dp, tp, pp, vpp, cp, ep, degree))
        if rows:
            yield _table(framework, can, named, thread_counts(c.platform), devices, np.array(rows, dtype=np.int64))


def _table(
    framework: str, can: Capability, named: Sequence[Mapping[str, Any]], threads: Sequence[int], devices: int, rows: npt.NDArray[np.int64]
) -> PlanTable:
    base = Plan(framework=framework, execution="", precision="", devices=devices)
    variants = [
        replace(base, threads=t, adapter_rank=0 if option["adapter"] == "none" else _ADAPTER_RANK, **option)
        for option in named
        for t in threads
    ]
    names = PlanTable.of(variants)
    columns = {key: np.tile(names.columns[key], len(rows)) for key in (*INT_COLUMNS, *NAME_COLUMNS)}
    fields = ("micro_batch", "grad_accumulation", "global_batch", "dp", "tp", "pp", "vpp", "cp", "ep", "shard_degree")
    for position, key in enumerate(fields, start=1):
        columns[key] = np.repeat(rows[:, position], len(names))
    columns["sharding"] = np.repeat(rows[:, 0], len(names)).astype(np.int16)
    return PlanTable(columns, {**names.vocabulary, "sharding": tuple(can.shardings)})


def _agrees(plans: PlanTable, fixed: Mapping[str, Any]) -> Bools:
    mask = np.ones(len(plans), dtype=bool)
    for key, value in fixed.items():
        mask &= plans.equals(key, value) if key in NAME_COLUMNS else plans.columns[key] == int(value)
    return mask


def _sensible(plans: PlanTable) -> Bools:
    """Leave out second names for one thing: sharding over one rank without offload to carry, offload without sharding that carries it."""
    alone = plans.columns["dp"] * plans.columns["cp"] == 1
    hosted, sharded = ~plans.equals("offload", "none"), ~plans.equals("sharding", "none")
    return np.asarray(~(alone & sharded & ~hosted) & ~(hosted & ~sharded))


def optimum(context: Context, plans: PlanTable, calibration: Calibration) -> tuple[float, Bools, PricedTable]:
    """Return the least score under all constraints at the knee, the mask of the plans it was taken over, and the prices.

    In eight bits or fewer on the data sheet's word, with a gain inside the interval: then the least of those in 16 bits or more.
    """
    workload, model, platform = context.workload, context.model, context.platform
    priced = price(model, workload, platform, plans, calibration)
    score = scores(plans, priced, workload)
    doubtful = unverified_mask(model, workload, platform, plans, priced, calibration)
    kept = np.isfinite(score)
    for values in constraints(plans, priced, workload, score, doubtful).values():
        kept &= values <= 0
    if not kept.any():
        return float("nan"), kept, priced
    best = int(np.flatnonzero(kept)[np.argmin(score[kept])])
    plain = kept & ~low_precision_mask(plans)
    if doubtful[best] and plain.any() and score[plain].min() <= np.exp(Z_80 * priced.sigma_log[best]) * score[best]:
        kept = plain
    if workload.global_batch is None and workload.objective == "throughput":
        near = kept & (score <= score[kept].min() / KNEE)
        kept = kept & (plans.columns["global_batch"] == plans.columns["global_batch"][near].min())
    return float(score[kept].min()), kept, priced
