"""What is legal: one list of rules, evaluated over whole tables of plans, each with the sentence a user reads.

A rule maps (plans, context) to bool[n], True where the plan obeys it. The search keeps the rows that obey all of them;
``violations`` names the broken ones of a single plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.frameworks import Capability, framework
from advisor.hardware.platform import Platform
from advisor.model.records import Model
from advisor.plan.precision import precision_obstacle
from advisor.plan.records import Plan, Workload
from advisor.plan.table import Array, PlanTable

#: How many sequences are dealt out per context-parallel rank: causal attention is balanced by giving each rank one
#: early and one late chunk (Megatron-Core, torch context_parallel).
_CHUNKS_PER_CP_RANK = 2


@dataclass(frozen=True, slots=True)
class Context:
    """What plans are judged against."""

    model: Model
    workload: Workload
    platform: Platform
    capabilities: Mapping[str, tuple[Capability, ...]]
    """Framework name to what it can do for this task, target and kind of model."""

    def size(self, name: str) -> int:
        """Return a size of the transformer (``heads``), or 1 for a model without that structure."""
        return int(getattr(self.model.transformer, name) or 1) if self.model.transformer is not None else 1


Check = Callable[[PlanTable, Context], Array]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with a stable code; ``text`` is formatted with the plan's fields and the model's sizes."""

    code: str
    text: str
    check: Check


def _divides(value: int | Array, by: Array | np.int64) -> Array:
    return np.asarray(np.equal(np.mod(value, by), 0))


def _degrees(p: PlanTable, c: Context) -> Array:
    return np.asarray(np.equal(p.columns["dp"] * p.columns["tp"] * p.columns["pp"] * p.columns["cp"], p.columns["devices"]))


def _batch(p: PlanTable, c: Context) -> Array:
    return np.asarray(np.equal(p.columns["micro_batch"] * p.columns["grad_accumulation"] * p.columns["dp"], p.columns["global_batch"]))


def _kv_heads(p: PlanTable, c: Context) -> Array:
    kv, tp = c.size("kv_heads"), p.columns["tp"]
    # Serving engines replicate key-value heads when there are fewer than ranks; training frameworks refuse.
    return np.asarray(_divides(kv, tp) | (_divides(tp, np.int64(kv)) & (not c.workload.is_training)))


def _layers(p: PlanTable, c: Context) -> Array:
    return np.asarray(_divides(c.size("layers"), p.columns["pp"] * p.columns["vpp"]))


def _interleaving(p: PlanTable, c: Context) -> Array:
    vpp, pp = p.columns["vpp"], p.columns["pp"]
    return np.asarray((vpp == 1) | ((pp > 1) & _divides(p.columns["grad_accumulation"], pp)))


def _context(p: PlanTable, c: Context) -> Array:
    cp = p.columns["cp"]
    return np.asarray((cp == 1) | _divides(c.workload.seq_len, _CHUNKS_PER_CP_RANK * cp))


def _sequence(p: PlanTable, c: Context) -> Array:
    tp, cp = p.columns["tp"], p.columns["cp"]
    return np.asarray((p.columns["sequence_parallel"] == 0) | ((tp > 1) & _divides(c.workload.seq_len, tp * cp)))


def _experts(p: PlanTable, c: Context) -> Array:
    ep = p.columns["ep"]
    return np.asarray(_divides(c.size("experts"), ep) & _divides(p.columns["dp"] * p.columns["cp"] * p.columns["tp"], ep))


def _shard_degree(p: PlanTable, c: Context) -> Array:
    degree, ranks = p.columns["shard_degree"], p.columns["dp"] * p.columns["cp"]
    partial = p.equals("sharding", "hsdp")
    unsharded = p.equals("sharding", "none")
    return np.asarray(
        np.where(unsharded, degree == 1, np.where(partial, (degree > 1) & (degree < ranks) & _divides(ranks, degree), degree == ranks))
    )


def _sharded_pipeline(p: PlanTable, c: Context) -> Array:
    gathers = p.equals("sharding", "zero2") | p.equals("sharding", "zero3")
    return np.asarray(~gathers | (p.columns["pp"] == 1))


def _offload(p: PlanTable, c: Context) -> Array:
    # DeepSpeed, "Configuration JSON": offload_optimizer needs stages 1 to 3, offload_param stage 3; PyTorch's CPU offload is of FSDP.
    sharded = ~p.equals("sharding", "none")
    weights = p.equals("sharding", "zero3") | p.equals("sharding", "fsdp") | p.equals("sharding", "hsdp")
    return np.asarray(np.where(p.equals("offload", "params"), weights, p.equals("offload", "none") | sharded))


def _dense_only(p: PlanTable, c: Context) -> Array:
    if c.model.transformer is not None:
        return np.ones(len(p), dtype=bool)
    return np.asarray((p.columns["tp"] == 1) & (p.columns["pp"] == 1) & (p.columns["cp"] == 1))


def _precision(p: PlanTable, c: Context) -> Array:
    allowed = np.array([precision_obstacle(name, c.platform, c.model) is None for name in p.vocabulary["precision"]], dtype=bool)
    return np.asarray(allowed[p.columns["precision"]])


def _compute_capability(c: Context) -> float | None:
    """Return the compute capability of an NVIDIA device (8.0 of ``sm_80``), None of any other."""
    digits = re.match(r"sm_(\d+)", c.platform.profile.arch or "")
    return int(digits[1]) / 10.0 if digits else None


def _attention(p: PlanTable, c: Context) -> Array:
    # FlashAttention-2 and -3 need compute capability 8.0 (Dao-AILab/flash-attention, "Installation and features").
    here = _compute_capability(c)
    return ~(p.equals("attention", "flash") & (here is not None and here < 8.0))


def _new_enough(p: PlanTable, c: Context) -> Array:
    here = _compute_capability(c)
    needs = [_needed(name) for name in p.vocabulary["framework"]]
    allowed = np.array([here is None or need is None or here >= need for need in needs], dtype=bool)
    return np.asarray(allowed[p.columns["framework"]])


def _needed(name: str) -> float | None:
    spec = framework(name)
    return None if spec is None else spec.min_compute_capability


def _framework(p: PlanTable, c: Context) -> Array:
    known = np.array([name in c.capabilities for name in p.vocabulary["framework"]], dtype=bool)
    return np.asarray(known[p.columns["framework"]])


def _capability(p: PlanTable, c: Context) -> Array:
    """True where one capability of the row's framework covers every choice of the row."""
    result = np.zeros(len(p), dtype=bool)
    for code, name in enumerate(p.vocabulary["framework"]):
        rows = p.columns["framework"] == code
        covered = np.zeros(len(p), dtype=bool)
        for capability in c.capabilities.get(name, ()):
            covered |= _covers(p, capability)
        result |= rows & covered
    return result


def _covers(p: PlanTable, can: Capability) -> Array:
    ok = np.ones(len(p), dtype=bool)
    for column, values in (
        ("execution", can.executions),
        ("precision", can.precisions),
        ("quantization", can.quantizations),
        ("sharding", can.shardings),
        ("recompute", can.recomputes),
        ("offload", can.offloads),
        ("optimizer", can.optimizers),
        ("adapter", can.adapters),
        ("attention", can.attentions),
    ):
        allowed = np.array([value in values for value in p.vocabulary[column]], dtype=bool)
        ok &= allowed[p.columns[column]]
    for column, able in (
        ("dp", can.data_parallel),
        ("tp", can.tensor_parallel),
        ("pp", can.pipeline_parallel),
        ("vpp", can.interleaved_pipeline),
        ("cp", can.context_parallel),
        ("ep", can.expert_parallel),
    ):
        if not able:
            ok &= p.columns[column] == 1
    if not can.sequence_parallel:
        ok &= p.columns["sequence_parallel"] == 0
    return ok


RULES: tuple[Rule, ...] = (
    Rule("DEGREES", "dp {dp} · tp {tp} · pp {pp} · cp {cp} is not the {devices} devices", _degrees),
    Rule(
        "DEVICES", "the plan uses {devices} devices, there are {platform_devices}", lambda p, c: p.columns["devices"] <= c.platform.devices
    ),
    Rule("BATCH", "micro-batch {micro_batch} · accumulation {grad_accumulation} · dp {dp} is not the global batch {global_batch}", _batch),
    Rule("TRANSFORMER-ONLY", "{model} has no transformer layers to split: only data parallelism applies", _dense_only),
    Rule(
        "HEADS",
        "{heads} attention heads cannot be divided by tp {tp} (tp can be {head_divisors})",
        lambda p, c: _divides(c.size("heads"), p.columns["tp"]),
    ),
    Rule("KV-HEADS", "{kv_heads} key-value heads cannot be divided by tp {tp} (tp can be {kv_divisors})", _kv_heads),
    Rule("FFN", "the MLP width {ffn_hidden} cannot be divided by tp {tp}", lambda p, c: _divides(c.size("ffn_hidden"), p.columns["tp"])),
    Rule("LAYERS", "{layers} layers cannot be divided by pp {pp} · vpp {vpp} (pp · vpp can be {layer_divisors})", _layers),
    Rule(
        "INTERLEAVING", "vpp {vpp} needs pp above 1 and micro-batches ({grad_accumulation}) that are a multiple of pp {pp}", _interleaving
    ),
    Rule("CONTEXT", "a sequence of {seq_len} cannot be divided into {cp} balanced parts", _context),
    Rule("SEQUENCE", "sequence parallelism needs tp above 1 and a sequence of {seq_len} that tp · cp divides", _sequence),
    Rule("EXPERTS", "ep {ep} must divide the {experts} experts and dp · cp · tp", _experts),
    Rule("SHARD-DEGREE", "shard degree {shard_degree} does not go with sharding {sharding} over dp · cp = {dp_cp}", _shard_degree),
    Rule(
        "ZERO-PIPELINE",
        "{sharding} gathers every layer for every micro-batch and does not combine with pipeline parallelism",
        _sharded_pipeline,
    ),
    Rule("OFFLOAD", "{offload} cannot be offloaded under sharding {sharding}: weights need zero3 or fsdp, the optimizer any", _offload),
    Rule("PRECISION", "{precision} is not possible: {precision_obstacle}", _precision),
    Rule("ATTENTION", "flash attention needs compute capability 8.0, {profile} is {arch}", _attention),
    Rule("COMPUTE-CAPABILITY", "{framework} needs compute capability {needed_capability}, {profile} is {arch}", _new_enough),
    Rule("FRAMEWORK", "{framework} does not do {task} on {target} here", _framework),
    Rule("CAPABILITY", "{framework} cannot combine these choices", _capability),
)


def legal_mask(plans: PlanTable, context: Context) -> Array:
    """Return bool[n]: which plans obey every rule."""
    mask = np.ones(len(plans), dtype=bool)
    for rule in RULES:
        mask &= rule.check(plans, context)
    return mask


def violations(plan: Plan, context: Context) -> list[tuple[str, str]]:
    """Return the (code, sentence) of every rule that ``plan`` breaks; empty when it is legal."""
    smallest = min(
        getattr(plan, name) for name in ("micro_batch", "grad_accumulation", "global_batch", "dp", "tp", "pp", "vpp", "cp", "ep")
    )
    if min(smallest, plan.shard_degree, plan.devices, plan.threads) < 1 or plan.adapter_rank < 0:
        return [("POSITIVE", "every degree, batch and count of a plan is at least 1")]
    table = PlanTable.of([plan])
    broken = [rule for rule in RULES if not bool(rule.check(table, context)[0])]
    return [(rule.code, rule.text.format_map(_words(plan, context))) for rule in broken]


def _divisors(number: int) -> str:
    return ", ".join(str(d) for d in range(1, number + 1) if number % d == 0)


def _words(plan: Plan, context: Context) -> dict[str, Any]:
    sizes = {name: context.size(name) for name in ("heads", "kv_heads", "ffn_hidden", "layers", "experts")}
    return {
        **plan.to_dict(),
        **sizes,
        "head_divisors": _divisors(sizes["heads"]),
        "kv_divisors": _divisors(sizes["kv_heads"]),
        "layer_divisors": _divisors(sizes["layers"]),
        "dp_cp": plan.dp * plan.cp,
        "seq_len": context.workload.seq_len,
        "task": context.workload.task,
        "model": context.model.name,
        "profile": context.platform.profile.name,
        "needed_capability": _needed(plan.framework),
        "arch": context.platform.profile.arch,
        "target": context.platform.profile.target,
        "platform_devices": context.platform.devices,
        "precision_obstacle": precision_obstacle(plan.precision, context.platform, context.model),
    }
