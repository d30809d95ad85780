"""What is better: one score a plan (lower wins), and the constraints a plan must keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.errors import UsageError
from advisor.plan.records import Workload
from advisor.plan.table import Array, PlanTable

if TYPE_CHECKING:
    from advisor.cost.price import PricedTable

LIMITS = ("ttft_s", "tpot_s", "latency_s", "memory_bytes_per_device", "cost_usd", "devices", "throughput")
#: The knee: the smallest batch that reaches this share of the best throughput (a larger one buys little and costs memory,
#: latency and, in training, samples).
KNEE = 0.95


def scores(plans: PlanTable, priced: PricedTable, workload: Workload) -> Array:
    """Return float64[n], lower is better, in the unit of the objective (seconds a sample, seconds, USD or J a sample, bytes).

    UsageError where the objective needs a number nobody gave (cost without a price, energy without a power rating).
    """
    samples = np.maximum(plans.ints("global_batch"), 1.0)
    if workload.objective == "throughput":
        return 1.0 / np.maximum(priced.throughput, 1e-300)
    if workload.objective == "latency":
        return np.asarray(priced.time_s, dtype=np.float64)
    if workload.objective == "memory":
        return np.asarray(priced.memory_bytes, dtype=np.float64)
    if workload.objective == "cost":
        if priced.cost_usd is None:
            raise UsageError("the cheapest plan needs a price", "give --price PROFILE=USD_PER_HOUR", code="NO-PRICE")
        return np.asarray(priced.cost_usd / samples, dtype=np.float64)
    if priced.energy_j is None:
        raise UsageError("the data sheet of this device states no power, so energy cannot be predicted", code="NO-POWER")
    return np.asarray(priced.energy_j / samples, dtype=np.float64)


#: Weights in fewer bits than this change what a model says; such a plan is an answer only where nothing else fits.
SAFE_BITS = 8
_FEW_BITS = {"int4": 4, "int4-awq": 4, "int4-gptq": 4, "nf4": 4, "fp4": 4}
#: What a fine-tuning gives up: nothing, most of the weights stay as they are, or those are held in four bits besides.
_ADAPTER_LEVELS = {"none": 0.0, "lora": 1.0, "qlora": 2.0}
#: Share of the memory that a plan of a batch of our own choosing leaves free: a run whose lengths vary meets the allocator's cliff
#: at the brim.
HEADROOM = 0.08
#: Constraints that choose among plans that work: a plan that breaks only these runs, but another kind is preferred.
SOFT = ("weight_bits", "adapter", "headroom_bytes", "server")


def constraints(plans: PlanTable, priced: PricedTable, workload: Workload) -> dict[str, Array]:
    """Return each constraint as float64[n], in its own unit: at most 0 is kept, above 0 is by how much it is broken.

    The ``SOFT`` ones are there only where plans keep them besides all others: ``headroom_bytes`` (8 % of the memory left free, where
    the batch is ours to choose), ``weight_bits`` (eight bits or more) and ``adapter`` (a fine-tuning trains all weights where they
    fit the devices, else an adapter, else an adapter on four-bit weights) and ``server`` (serving by an engine that takes requests).
    """
    broken = hard_constraints(plans, priced, workload)
    kept = np.all([values <= 0 for values in broken.values()], axis=0) if broken else np.ones(len(plans), dtype=bool)
    bits = plans.lookup("quantization", _FEW_BITS, default=float(SAFE_BITS))
    if bool((kept & (bits >= SAFE_BITS)).any()):
        broken["weight_bits"] = SAFE_BITS - bits
        kept &= bits >= SAFE_BITS
    if workload.task == "finetune" and workload.objective != "memory":
        level = plans.lookup("adapter", _ADAPTER_LEVELS, default=0.0)
        resident = kept & plans.equals("offload", "none")
        if resident.any():
            broken["adapter"] = level - level[resident].min()
            kept &= broken["adapter"] <= 0
    if workload.task == "serve":
        # Only an engine takes requests as they come; a framework's own loop would have to be written into a server first.
        bare = np.where(plans.equals("execution", "engine"), 0.0, 1.0)
        if bool((kept & (bare <= 0)).any()):
            broken["server"] = bare
            kept &= bare <= 0
    if workload.global_batch is None and priced.memory_limit_bytes is not None:
        over = np.asarray(priced.memory_bytes - (1.0 - HEADROOM) * priced.memory_limit_bytes, dtype=np.float64)
        if bool((kept & (over <= 0)).any()):
            broken["headroom_bytes"] = over
    return broken


def hard_constraints(plans: PlanTable, priced: PricedTable, workload: Workload) -> dict[str, Array]:
    """Return the constraints that a plan must keep to be possible at all: the memory, and the question's own limits."""
    broken: dict[str, Array] = {}
    if priced.memory_limit_bytes is not None:
        over = np.asarray(priced.memory_bytes - priced.memory_limit_bytes, dtype=np.float64)
        # ``fits`` is the cost model's own verdict (host memory of an offload, a safety margin); where it says no, the excess is positive.
        broken["memory_bytes"] = np.where(priced.fits, np.minimum(over, 0.0), np.maximum(over, 1.0))
    for key, limit in workload.limits.items():
        if key == "throughput":
            broken[key] = limit - priced.throughput
        elif key == "devices":
            broken[key] = plans.ints("devices") - limit
        elif key == "memory_bytes_per_device":
            broken[key] = priced.memory_bytes - limit
        elif key == "latency_s":
            broken[key] = priced.time_s - limit
        else:
            values = getattr(priced, key)
            if values is None:
                raise UsageError(f"--limit {key} does not apply to this question", code="NO-SUCH-LIMIT")
            broken[key] = values - limit
    return broken


def knee_mask(plans: PlanTable, score: Array, feasible: Array, workload: Workload) -> Array:
    """Return bool[n]: the plans at the chosen global batch, where the question left it open (all of them otherwise).

    For throughput that is the knee: the smallest global batch whose best plan reaches 95 % of the best throughput. Other
    objectives choose the batch by their own score.
    """
    everything = np.ones(len(plans), dtype=bool)
    if workload.global_batch is not None or workload.objective != "throughput" or not feasible.any():
        return everything
    good = feasible & (score <= score[feasible].min() / KNEE)
    smallest = plans.columns["global_batch"][good].min()
    return np.asarray(plans.columns["global_batch"] == smallest)
