"""A published training row, to what the cost model takes: Model, Workload, Platform, Plan and the measured numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from advisor.accuracy import software
from advisor.accuracy.conditions import options_of
from advisor.accuracy.hardware import platform_of
from advisor.cost.flops import step_flops
from advisor.errors import AdvisorError
from advisor.hardware.platform import Platform
from advisor.model.counts import forward_flops
from advisor.model.records import Model
from advisor.model.registry import model as named_model
from advisor.model.shapes import transformer_from_shape
from advisor.plan.records import Plan, Workload
from advisor.units import GIB

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One row as the cost model sees it. ``plan`` is None where the table does not give the layout."""

    row: Row
    model: Model
    workload: Workload
    platform: Platform
    plan: Plan | None
    time_s: float | None
    memory_bytes: float | None
    memory_kind: str


def number(text: str | None) -> float | None:
    """Return the number in ``text`` (``250k`` is 250000), None for a blank or anything else."""
    if not text:
        return None
    match = re.fullmatch(r"\s*([\d.]+(?:[eE][+-]?\d+)?)\s*(k?)\s*", text)
    if match is None:
        return None
    try:
        return float(match[1]) * (1000.0 if match[2] else 1.0)
    except ValueError:
        return None


def whole(text: str | None) -> int | None:
    """Return the positive integer in ``text``, None for anything else."""
    value = number(text)
    return int(value) if value is not None and value >= 1 and value == int(value) else None


def describe(row: Row) -> Described | str:
    """Return the row described, or the reason why it cannot be."""
    devices, framework = software.devices_and_framework(row)
    if not devices:
        return "the number of devices is not stated"
    platform = platform_of(
        row.get("hw_class", ""), row.get("hardware", ""), devices, whole(row.get("devices_per_node")), row.get("interconnect_note", "")
    )
    if isinstance(platform, str):
        return platform
    seq = whole(row.get("seq_len")) or software.RECIPE_SEQ.get(framework)
    if seq is None:
        return "the sequence length is not stated"
    model = model_of(row, seq)
    if isinstance(model, str):
        return model
    batch = _global_batch(row)
    if batch is None:
        return "the batch is not stated"
    adapter = software.adapter_of(row.get("source", ""), options_of(row))
    if adapter is None:
        return "the table mixes full fine-tuning and adapters without a column for it"
    workload = Workload(task="train" if adapter == "none" else "finetune", seq_len=seq, global_batch=batch)
    plan = _plan(row, framework, platform, devices, batch, adapter, whole(row.get("micro_batch")))
    if isinstance(plan, str):
        return plan
    memory = number(row.get("peak_mem_gib"))
    time = measured_time(row, model, platform, seq, batch, devices)
    if time is not None and plan is not None and _share_of_peak(model, seq, batch, platform, plan, time) > 1.0:
        return "the printed rate is beyond the device's peak"
    return Described(
        row=row,
        model=model,
        workload=workload,
        platform=platform,
        plan=plan,
        time_s=time,
        memory_bytes=None if memory is None else memory * GIB,
        memory_kind=software.memory_kind(row.get("mem_kind", "")),
    )


def model_of(row: Row, seq: int) -> Model | str:
    """Return the model from its sizes, filling what is blank from a known name or the printed parameter count."""
    sizes = tuple(whole(row.get(name)) for name in ("n_layers", "hidden", "n_heads", "n_kv_heads", "ffn_hidden"))
    return _model(row.get("model_name", ""), *sizes, whole_vocab(row), number(row.get("n_params_b")), seq)


def whole_vocab(row: Row) -> int | None:
    """Return the vocabulary (``250k`` rounded as printed)."""
    value = number(row.get("vocab"))
    return None if value is None else int(value)


#: Layers, widths and heads beyond this are a damaged table (the widest published model has a hidden size of some ten thousands).
LARGEST_SIZE = 10_000_000


@lru_cache(maxsize=1024)
def _model(
    name: str,
    layers: int | None,
    hidden: int | None,
    heads: int | None,
    kv_heads: int | None,
    ffn: int | None,
    vocab: int | None,
    billions: float | None,
    seq: int,
) -> Model | str:
    if max(layers or 0, hidden or 0, heads or 0, ffn or 0) > LARGEST_SIZE:
        return "the model's sizes are beyond any model"
    if not (layers and hidden and heads):
        try:
            return named_model(name)
        except AdvisorError:
            return "the model's sizes are not stated and its name is not known"
    parameters = billions * 1e9 if billions else None
    gated = True if re.search("llama|internlm|qwen|baichuan|mistral", name, re.IGNORECASE) else None
    if ffn is None and gated:
        # The gated families' width: 8/3 of hidden, rounded up to a multiple of 256 (Touvron et al. 2023).
        ffn = -(-8 * hidden // 3 // 256) * 256
    if vocab is None and parameters is not None:
        vocab = _vocab_left(layers, hidden, heads, kv_heads, ffn, seq, parameters, gated)
    try:
        return transformer_from_shape(
            layers, hidden, heads, kv_heads, ffn, vocab, seq, gated_mlp=gated, parameters=parameters, name=name or None
        )
    except AdvisorError as error:
        return error.message


def _vocab_left(
    layers: int, hidden: int, heads: int, kv_heads: int | None, ffn: int | None, seq: int, parameters: float, gated: bool | None
) -> int | None:
    """Return the vocabulary that explains what the layers leave of a printed parameter count; None if it explains nothing."""
    base = transformer_from_shape(layers, hidden, heads, kv_heads, ffn, 1, seq, gated_mlp=gated)
    left = parameters - base.parameters
    for tables in (1, 2):
        rows = left / (tables * hidden)
        if 25_000 <= rows <= 300_000:
            return min((32_000, 50_257, 65_536, 128_256, 131_072, 250_880), key=lambda known: abs(known - rows))
    return None


def _global_batch(row: Row) -> int | None:
    batch = whole(row.get("global_batch"))
    if batch is not None:
        return batch
    micro, dp = whole(row.get("micro_batch")), whole(row.get("dp"))
    return micro * dp * (whole(row.get("grad_accum")) or 1) if micro and dp else None


def _share_of_peak(model: Model, seq: int, batch: int, platform: Platform, plan: Plan, time: float) -> float:
    """Return the least arithmetic of a step over what the data sheet allows in its time; 0 where the sheet does not state the peak."""
    peak = platform.profile.dense_tflops.get(plan.precision)
    least = step_flops(model, seq, plan.adapter != "none", causal=True, recompute=plan.recompute == "full") * batch
    return 0.0 if not peak else least / (peak * 1e12 * platform.devices * time)


#: Micro-batches tried where a table states the degrees of parallelism alone.
_MICRO_BATCHES = (1, 2, 4, 8, 16, 32)


def stated_plans(d: Described) -> list[Plan]:
    """Return the plans a row leaves open when it states all but the micro-batch; none where it does not state the degrees either."""
    devices, framework = software.devices_and_framework(d.row)
    adapter = software.adapter_of(d.row.get("source", ""), options_of(d.row)) or "none"
    batch = d.workload.global_batch or 0
    found = [_plan(d.row, framework, d.platform, devices, batch, adapter, micro) for micro in _MICRO_BATCHES]
    return [plan for plan in found if isinstance(plan, Plan) and plan.global_batch == batch]


def with_stated_software(d: Described, plan: Plan) -> Plan:
    """Return ``plan`` run by the software that the row names, in the precision it states: what the run had, not what one would choose."""
    _, framework = software.devices_and_framework(d.row)
    stated = d.row.get("precision", "")
    precision = software.precision_of(stated, framework, d.platform.profile.dense_tflops) if stated else plan.precision
    attention = software.attention_of(d.row.get("flash_attention", ""), framework)
    if not d.row.get("framework"):
        return replace(plan, precision=precision)
    execution = software.execution_of(framework, precision, options_of(d.row))
    return replace(plan, framework=framework, execution=execution, precision=precision, attention=attention)


def _plan(row: Row, framework: str, platform: Platform, devices: int, batch: int, adapter: str, micro: int | None) -> Plan | str | None:
    """Return the Plan, None where the layout is not stated, or a reason where it contradicts itself."""
    dp, tp, pp = (whole(row.get(name)) for name in ("dp", "tp", "pp"))
    if not (tp and pp and micro):
        return None
    cp = whole(row.get("cp")) or 1
    dp = dp or devices // (tp * pp * cp)
    if dp * tp * pp * cp != devices:
        return "the degrees do not multiply to the devices"
    accumulation = whole(row.get("grad_accum")) if row.get("framework", "").startswith("vTrain") else None
    per_replica = batch / dp
    if framework == "torchtitan" and pp > 1:
        # Its local batch is that of a data-parallel rank, cut into as many pipeline micro-batches as there are stages.
        micro = max(1, micro // pp)
    accumulation = max(1, round(per_replica / micro))
    precision = software.precision_of(row.get("precision", ""), framework, platform.profile.dense_tflops)
    sharding = software.sharding_of(row.get("zero_stage_or_fsdp", ""), framework)
    ranks = dp * cp
    degree = 1 if sharding.kind == "none" else min(sharding.degree or ranks, ranks)
    sp = row.get("sp", "").lower() in ("y", "yes", "true", "1") or (framework in software.SEQUENCE_PARALLEL and tp > 1)
    return Plan(
        framework=framework,
        execution=software.execution_of(framework, precision, options_of(row)),
        precision=precision,
        micro_batch=micro,
        grad_accumulation=accumulation,
        global_batch=micro * accumulation * dp,
        dp=dp,
        tp=tp,
        pp=pp,
        vpp=(whole(row.get("vpp")) or (software.INTERLEAVED_CHUNKS if "interleaved" in options_of(row) else 1)) if pp > 1 else 1,
        cp=cp,
        ep=whole(row.get("ep")) or 1,
        sharding=sharding.kind,
        shard_degree=degree,
        sequence_parallel=sp and tp > 1,
        recompute=software.recompute_of(row.get("activation_checkpointing", ""), framework),
        offload=software.offload_of(row.get("optimizer_offload", ""), framework),
        optimizer="adam8bit" if "adam8bit" in options_of(row) or (framework == "torchtune" and adapter == "none") else "adamw",
        adapter=adapter,
        adapter_rank=16 if adapter != "none" else 0,
        attention=software.attention_of(row.get("flash_attention", ""), framework),
        devices=devices,
    )


def measured_time(row: Row, model: Model, platform: Platform, seq: int, batch: int, devices: int) -> float | None:
    """Return the measured step time: printed, or from tokens/s, samples/s, or by its own definition from FLOP/s or utilization."""
    step = number(row.get("step_time_s"))
    if step:
        return step
    tokens = number(row.get("tokens_per_s_per_device"))
    if tokens:
        return batch * seq / (tokens * devices)
    samples = number(row.get("samples_per_s"))
    if samples:
        return batch / samples
    return _from_flops(row, model, platform, seq, batch, devices)


def _from_flops(row: Row, model: Model, platform: Platform, seq: int, batch: int, devices: int) -> float | None:
    rate, kind = number(row.get("tflops_per_device")), row.get("tflops_kind", "").lower()
    mfu = number(row.get("mfu_pct"))
    if rate and "factor 4" in kind:
        # 8 FLOPs a parameter and token: forward, backward and the recomputed forward.
        parameters = number(row.get("n_params_b"))
        return None if parameters is None else 8.0 * parameters * 1e9 * batch * seq / (rate * 1e12 * devices)
    if rate and "paper formula" in kind:
        return 4.0 * forward_flops(model, seq) * batch / (rate * 1e12 * devices)
    if rate and kind.startswith("model"):
        return 3.0 * forward_flops(model, seq) * batch / (rate * 1e12 * devices)
    peak = platform.profile.dense_tflops.get("bf16")
    if mfu and peak and "fp8" not in row.get("precision", "").lower():
        return 3.0 * forward_flops(model, seq) * batch / (mfu / 100.0 * peak * 1e12 * devices)
    return None
