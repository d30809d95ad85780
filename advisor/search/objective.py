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
#: Share of the memory that an answer leaves free: half the spread of the memory's prediction, and what a run whose lengths vary takes
#: before it meets the allocator's cliff. See docs/decisions/0007-room-in-memory.md.
HEADROOM = 0.10
#: What that room may cost where the batch is given, relative: a plan at the brim that is faster by more is the answer, and is called tight.
HEADROOM_PRICE = 0.10
#: Two plans closer than this are a tie. Repeats of one configuration differ by 1 to 3 % from run to run (published: bloom_prequel), so a
#: smaller predicted gap cannot be told apart by measuring either.
TIE_MARGIN = 0.03
#: Constraints that choose among plans that work: a plan that breaks only these runs, but another kind is preferred.
SOFT = ("weight_bits", "adapter", "server", "host_memory", "headroom_bytes", "evidence")


def constraints(plans: PlanTable, priced: PricedTable, workload: Workload, score: Array, unverified: Array) -> dict[str, Array]:
    """Return each constraint as float64[n], in its own unit: at most 0 is kept, above 0 is by how much it is broken.

    The ``SOFT`` ones are there only where plans keep them besides all others: ``weight_bits`` (eight bits or more), ``adapter`` (a
    fine-tuning trains all weights where they fit the devices, else an adapter, else an adapter on four-bit weights), ``server``
    (serving by an engine that takes requests), ``host_memory`` (no offload) and ``headroom_bytes`` (a tenth of the memory left free;
    where the batch is given, only if that costs no more than ``HEADROOM_PRICE`` of the ``score``, and no step to bits that nothing
    measured supports: ``unverified``, bool[n]) and ``evidence`` (the framework's own runs were measured on this kind of device, where
    that costs no more than a tie).
    """
    broken = hard_constraints(plans, priced, workload)
    kept = np.all([values <= 0 for values in broken.values()], axis=0) if broken else np.ones(len(plans), dtype=bool)
    bits = weight_bits(plans)
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
    if workload.objective != "memory":
        # The link to the host is shared and its memory seldom counted: offload is a way to fit, not a way to be faster.
        hosted = np.where(plans.equals("offload", "none"), 0.0, 1.0)
        if bool((kept & (hosted <= 0)).any()):
            broken["host_memory"] = hosted
            kept &= hosted <= 0
    if priced.memory_limit_bytes is not None:
        over = np.asarray(priced.memory_bytes - (1.0 - HEADROOM) * priced.memory_limit_bytes, dtype=np.float64)
        sure = kept & np.isfinite(score) & ~unverified
        sure = sure if sure.any() else kept & np.isfinite(score)
        roomy = sure & (over <= 0)
        if bool(roomy.any()) and (workload.global_batch is None or score[roomy].min() <= (1.0 + HEADROOM_PRICE) * score[sure].min()):
            broken["headroom_bytes"] = over
            kept &= over <= 0
    return broken | _evidence(priced, score, kept & np.isfinite(score))


def _evidence(priced: PricedTable, score: Array, kept: Array) -> dict[str, Array]:
    """Return the constraint that a plan rests on measurements, where the best of those that do ties with the best of all.

    On a machine of which some frameworks were measured the others are priced by priors that know nothing of it: there it always holds.
    """
    if priced.row_evidence is None or len(told := set(priced.row_evidence)) < 2:
        return {}
    known = np.array([name in ("measured", "calibrated") for name in priced.row_evidence], dtype=bool)
    sure = kept & known
    if not sure.any() or ("measured" not in told and score[sure].min() > (1.0 + TIE_MARGIN) * score[kept].min()):
        return {}
    return {"evidence": np.where(known, 0.0, 1.0)}


def weight_bits(plans: PlanTable) -> Array:
    """Return float64[n]: bits of a quantized weight, ``SAFE_BITS`` where it has as many or more."""
    return plans.lookup("quantization", _FEW_BITS, default=float(SAFE_BITS))


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
