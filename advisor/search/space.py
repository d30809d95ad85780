"""The space of plans, enumerated by structure: divisors of heads, layers, devices and batch, and what each framework can do.

Nothing is sampled. A plan of the space obeys every rule of ``advisor.plan.legal`` by construction, and a last mask makes sure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.errors import UsageError
from advisor.frameworks import Capability, all_frameworks
from advisor.hardware.platform import Platform
from advisor.model.records import Model
from advisor.plan.legal import Context, legal_mask
from advisor.plan.precision import precision_obstacle
from advisor.plan.records import PLAN_FIELDS, Plan, Workload
from advisor.plan.table import INT_COLUMNS, NAME_COLUMNS, PlanTable
from advisor.search.degrees import Grid, batches, degrees, pin

#: LoRA rank when none is fixed: the default of Hugging Face PEFT's examples is 8 to 64; 16 is the usual choice.
_ADAPTER_RANK = 16


def context_for(model: Model, workload: Workload, platform: Platform) -> Context:
    """Return the Context of a question: the frameworks usable on the platform and what each can do for it."""
    capabilities: dict[str, tuple[Capability, ...]] = {}
    for spec in all_frameworks():
        if platform.frameworks is not None and spec.name not in platform.frameworks:
            continue
        can = tuple(
            c for c in spec.capabilities if workload.task in c.tasks and platform.profile.target in c.targets and model.kind in c.kinds
        )
        if can:
            capabilities[spec.name] = can
    return Context(model, workload, platform, capabilities)


def enumerate_plans(context: Context, fixed: Mapping[str, Any] | None = None, *, offload: bool = True, grid: Grid = "full") -> PlanTable:
    """Return every legal plan of the question that agrees with ``fixed`` (plan field to value).

    UsageError if ``fixed`` names no field of a plan or a value no plan can have. Without ``offload`` only plans that keep
    everything on the device are returned. ``grid`` thins out the batches where the question leaves the batch open.
    """
    pinned = check_fixed(fixed or {})
    tables: list[PlanTable] = []
    for name, capabilities in context.capabilities.items():
        if pinned.get("framework", name) != name:
            continue
        for capability in capabilities:
            tables.extend(_capability_plans(name, capability, context, pinned, offload, grid))
    table = PlanTable.concat(tables)
    return table.take(legal_mask(table, context)) if len(table) else table


def check_fixed(fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``--fix`` values with the types of the plan's fields; UsageError for what no plan can have."""
    result: dict[str, Any] = {}
    for key, value in fixed.items():
        if key not in PLAN_FIELDS:
            raise UsageError(f"a plan has no field {key!r}", f"fields: {', '.join(PLAN_FIELDS)}", code="UNKNOWN-FIELD")
        result[key] = _typed(key, value)
    return result


def _typed(key: str, value: Any) -> Any:
    if key in NAME_COLUMNS:
        known = known_values(key)
        if known and value not in known:
            raise UsageError(f"{key} cannot be {value!r}", f"one of {', '.join(known)}", code="BAD-VALUE")
        return str(value)
    if key == "sequence_parallel":
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if str(value).lower() not in words:
            raise UsageError(f"{key} is true or false, not {value!r}", code="BAD-VALUE")
        return words[str(value).lower()]
    try:
        number = int(str(value))
    except ValueError:
        raise UsageError(f"{key} is a whole number, not {value!r}", code="BAD-VALUE") from None
    if not (0 if key == "adapter_rank" else 1) <= number <= 10**9:
        raise UsageError(f"{key} cannot be {number}", code="BAD-VALUE")
    return number


def known_values(key: str) -> tuple[str, ...]:
    from advisor.plan import records

    return {
        "framework": tuple(spec.name for spec in all_frameworks()),
        "execution": records.EXECUTIONS,
        "precision": records.PRECISIONS,
        "quantization": records.QUANTIZATIONS,
        "sharding": records.SHARDINGS,
        "recompute": records.RECOMPUTES,
        "offload": records.OFFLOADS,
        "optimizer": records.OPTIMIZERS,
        "adapter": records.ADAPTERS,
        "attention": records.ATTENTIONS,
    }.get(key, ())


def _capability_plans(name: str, can: Capability, c: Context, pinned: Mapping[str, Any], offload: bool, grid: Grid) -> Iterator[PlanTable]:
    devices = int(pinned.get("devices", c.platform.devices))
    structure: list[tuple[int, ...]] = []
    for d in degrees(c, can, devices, pinned):
        for micro, steps, total in batches(c.workload, d, pinned, grid):
            if d.vpp == 1 or steps % d.pp == 0:
                structure.append((micro, steps, total, d.dp, d.tp, d.pp, d.vpp, d.cp, d.ep))
    if not structure:
        return
    threads = pin(thread_counts(c.platform), pinned, "threads") or [int(pinned["threads"])]
    named = options(can, c, pinned, offload)
    for degree_name in pin(can.shardings, pinned, "sharding"):
        yield from _cross(name, degree_name, structure, named, threads, devices, c, pinned)


def thread_counts(platform: Platform) -> list[int]:
    """Return the thread counts worth trying on a CPU: all that are usable, half of them, one."""
    if not platform.is_cpu:
        return [max(1, platform.threads)]
    return sorted({max(1, platform.threads), max(1, platform.threads // 2), 1}, reverse=True)


def precisions(can: Capability, c: Context, pinned: Mapping[str, Any]) -> list[str]:
    """Return the precisions of ``can`` that device and model allow.

    Where a 16-bit type is possible on an accelerator, fp32 and tf32 are left out: they are slower and larger on every matrix
    unit (each sheet says so), so they could only lengthen the list. fp16 is left out beside bf16: the same rate and size, but it
    overflows where bf16 does not. ``--fix precision=fp16`` brings them back.
    """
    legal = [p for p in can.precisions if precision_obstacle(p, c.platform, c.model) is None]
    if "precision" in pinned:
        return [p for p in legal if p == pinned["precision"]]
    if not c.platform.is_cpu and any(p in ("bf16", "fp16", "fp8") for p in legal):
        legal = [p for p in legal if p not in ("fp32", "tf32", "fp64")]
        if "bf16" in legal and "fp16" in legal:
            legal.remove("fp16")
    return legal


def options(can: Capability, c: Context, pinned: Mapping[str, Any], offload: bool) -> list[dict[str, Any]]:
    """Return the combinations of names that do not depend on the degrees."""
    training = c.workload.is_training
    attention = _best_attention(can, c)
    adapters = [a for a in can.adapters if a == "none" or c.workload.task == "finetune"]
    offloads = [o for o in can.offloads if o == "none" or (offload and training)]
    quantizations = can.quantizations if not training else [q for q in can.quantizations if q == "none"]
    choices = {
        "execution": pin(can.executions, pinned, "execution"),
        "precision": precisions(can, c, pinned),
        "quantization": pin(_usual([q for q in quantizations if _quantization_fits(q, c)], pinned), pinned, "quantization"),
        "recompute": pin(can.recomputes if training else ["none"], pinned, "recompute"),
        "offload": pin(offloads, pinned, "offload"),
        "optimizer": pin(can.optimizers if training else ["none"], pinned, "optimizer"),
        "adapter": pin(adapters, pinned, "adapter"),
        "attention": pin(can.attentions, pinned, "attention") if "attention" in pinned else [attention],
        "sequence_parallel": pin([False, True] if can.sequence_parallel else [False], pinned, "sequence_parallel"),
    }
    if "optimizer" not in pinned and training and "adamw" in choices["optimizer"]:
        choices["optimizer"] = ["adamw"]
    return [dict(zip(choices, combination, strict=True)) for combination in itertools.product(*choices.values())]


def _usual(quantizations: list[str], pinned: Mapping[str, Any]) -> list[str]:
    """Return the quantizations without those that differ from an earlier one only in how the weights were rounded (awq, gptq)."""
    if "quantization" in pinned:
        return quantizations
    seen: dict[tuple[str, bool], str] = {}
    for name in quantizations:
        base, _, way = name.partition("-")
        seen.setdefault((base, way in ("dynamic", "static")), name)
    return list(seen.values())


def _quantization_fits(name: str, c: Context) -> bool:
    base = name.split("-")[0]
    if base in ("fp8", "fp4"):
        return precision_obstacle(base, c.platform) is None
    return name == "none" or c.model.kind != "convolutional" or "static" in name


def _best_attention(can: Capability, c: Context) -> str:
    arch = c.platform.profile.arch or ""
    old = arch.startswith("sm_") and arch[3:].isdigit() and int(arch[3:]) < 80
    return next((a for a in can.attentions if not (a == "flash" and old)), can.attentions[0])


def _cross(
    name: str,
    sharding: str,
    structure: list[tuple[int, ...]],
    options: list[dict[str, Any]],
    threads: Sequence[int],
    devices: int,
    c: Context,
    pinned: Mapping[str, Any],
) -> Iterator[PlanTable]:
    """Yield structure x options x threads for one sharding as a table, without the combinations that contradict each other."""
    rows = np.array(structure, dtype=np.int64)
    fields = ("micro_batch", "grad_accumulation", "global_batch", "dp", "tp", "pp", "vpp", "cp", "ep")
    ranks = rows[:, 3] * rows[:, 7]
    keep, degree = _sharding_rows(sharding, ranks, rows[:, 5], c.platform.devices_per_node)
    rows, degree = rows[keep], degree[keep]
    if not len(rows) or not options:
        return
    template = Plan(framework=name, execution=options[0]["execution"], precision=options[0]["precision"])
    rank = int(pinned.get("adapter_rank", _ADAPTER_RANK))
    variants = [
        replace(
            template,
            sharding=sharding,
            threads=t,
            devices=devices,
            adapter_rank=0 if option["adapter"] == "none" else rank,
            **option,
        )
        for option in options
        for t in threads
    ]
    if not variants:
        return
    base = PlanTable.of(variants)
    repeat, tile = len(rows), len(base)
    columns = {key: np.tile(base.columns[key], repeat) for key in (*INT_COLUMNS, *NAME_COLUMNS)}
    for position, key in enumerate(fields):
        columns[key] = np.repeat(rows[:, position], tile)
    columns["shard_degree"] = np.repeat(degree, tile)
    table = PlanTable(columns, base.vocabulary)
    keep = (columns["sequence_parallel"] == 0) | (columns["tp"] > 1)
    if sharding != "none":
        # One rank has nothing to shard; the stage matters there only as the carrier of offload.
        keep &= (columns["dp"] * columns["cp"] > 1) | ~table.equals("offload", "none")
    if "shard_degree" in pinned:
        keep &= columns["shard_degree"] == pinned["shard_degree"]
    yield table.take(keep)


def _sharding_rows(sharding: str, ranks: Any, pp: Any, node: int) -> tuple[Any, Any]:
    """Return which rows a sharding applies to, and the shard degree there."""
    if sharding == "none":
        return np.ones(len(ranks), dtype=bool), np.ones_like(ranks)
    if sharding == "hsdp":
        inside = np.minimum(ranks, node)
        return (ranks > node) & (ranks % np.maximum(inside, 1) == 0) & (inside > 1), inside
    return (pp == 1) | (sharding not in ("zero2", "zero3")), ranks
