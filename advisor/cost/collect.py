"""Fill Terms for a table of plans: kernels priced on the curves, parameters counted, exchanges placed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.communication import Exchange, exchange, joined, scaled
from advisor.cost.curves import DeviceCurves, curves_for
from advisor.cost.kernels.collective import kind_of
from advisor.cost.memory.activations import kept_columns
from advisor.cost.pipeline import cut
from advisor.cost.terms import FUSIONS, GENERATIONS, LINKS, Terms
from advisor.cost.traits import Traits, traits_of
from advisor.cost.work import LAYER_WORK_FIELDS, LayerWork, Shape, layer_work
from advisor.hardware.platform import Platform
from advisor.hardware.records import HardwareProfile
from advisor.model.records import Model
from advisor.plan.records import Workload
from advisor.plan.table import PlanTable
from advisor.units import dtype_bytes

Floats = npt.NDArray[np.float64]

_TRAIT_COLUMNS = (
    "overlap_gradients",
    "overlap_parameters",
    "overlap_tensor",
    "overlap_pipeline",
    "kernels_forward",
    "kernels_backward",
    "host_factor",
    "logit_passes_bytes",
    "optimizer_bytes",
    "step_traffic_bytes",
    "gradient_bytes",
    "reduces_each_micro_batch",
    "balanced_stages",
    "balanced_by_cost",
    "pads_vocab",
    "overlap_context",
    "overlap_expert",
    "balanced_context",
    "selective_products",
    "working_gradient_bytes",
    "bucket_bytes",
    "gathers_once",
    "reduces_whole",
    "splits_boundary",
    "fused_accumulation",
    "dropout",
    "logit_kept_bytes",
    "keeps_gate_product",
    "stored_weight_bytes",
    "master_bytes",
    "kept_activations",
)


def collect(model: Model, workload: Workload, platform: Platform, plans: PlanTable, calibration: Calibration) -> Terms:
    """Return the Terms of ``plans``: kernels priced on the curves, parameters and exchanges counted."""
    n = len(plans)
    table: dict[str, Floats] = {name: np.zeros(n) for name in LAYER_WORK_FIELDS}
    traits_table: dict[str, Floats] = {name: np.zeros(n) for name in _TRAIT_COLUMNS}
    device: dict[str, Floats] = {name: np.zeros(n) for name in ("bandwidth", "peak", "power")}
    fusion = np.zeros(n, dtype=np.int64)
    generation = np.zeros(n, dtype=np.int64)
    curves: DeviceCurves | None = None
    for rows, key in _kinds(plans):
        traits = traits_of(key["framework"], key["execution"])
        curves = curves_for(platform, key["framework"], calibration)
        work, inverse = _priced(model, workload, plans, rows, curves, traits, key)
        for name in LAYER_WORK_FIELDS:
            table[name][rows] = getattr(work, name)[inverse]
        for name in _TRAIT_COLUMNS:
            traits_table[name][rows] = float(getattr(traits, name))
        if key["precision"] != "fp16" and traits.gradient_bytes_bf16 is not None:
            traits_table["gradient_bytes"][rows] = traits.gradient_bytes_bf16
        if dtype_bytes(key["precision"]) < 2:
            traits_table["kept_activations"][rows] = traits.kept_activations * traits.kept_activations_fp8
            if traits.stored_weight_bytes_fp8 is not None:
                traits_table["stored_weight_bytes"][rows] = traits.stored_weight_bytes_fp8
        working = traits.working_gradient_bytes if key["precision"] == "fp16" else traits.working_gradient_bytes_bf16
        traits_table["working_gradient_bytes"][rows] = working
        device["bandwidth"][rows] = curves.memory_bytes_per_s * curves.stream.efficiency
        device["peak"][rows] = curves.peak(key["precision"])
        device["power"][rows] = power_share(platform.profile, curves)
        fusion[rows] = FUSIONS.index(traits.fusion)
        generation[rows] = GENERATIONS.index(curves.generation) if curves.generation in GENERATIONS else 0
    if curves is None:
        curves = curves_for(platform, "torch", calibration)
    columns = {**table, **traits_table, **device, **_plan_columns(plans, platform)}
    columns.update(_sizes(model, plans, columns))
    odd = model.transformer is not None and model.transformer.vocab % 8 != 0
    columns["odd_vocab"] = odd * (columns["tp"] == 1) * (1.0 - columns["pads_vocab"])
    columns.update(_exchanges(model, platform, plans, columns, curves))
    columns.update(kept_columns(model, workload, columns))
    link = kind_of(platform.tiers[-1]) if len(platform.tiers) > 1 else "any"
    kind_text = " ".join(f"{t.kind} {t.name}" for t in platform.tiers).lower()
    link = "opa" if "omni" in kind_text or "opa" in kind_text else link
    codes = {"generation": generation, "fusion": fusion, "link": np.full(n, LINKS.index(link) if link in LINKS else 0, dtype=np.int64)}
    return Terms(columns, codes)


#: Rated watts and 16-bit dense peak (TFLOP/s) of the part that a generation was calibrated on.
_REFERENCE_POWER = {"volta": (300.0, 125.0), "ampere": (400.0, 312.0), "hopper": (700.0, 989.0), "blackwell": (1000.0, 2250.0)}


def power_share(sheet: HardwareProfile, curves: DeviceCurves) -> float:
    """Return the watts a device has for each FLOP/s of its 16-bit peak, over those of its generation's reference part; 1 if unknown."""
    reference = _REFERENCE_POWER.get(curves.generation)
    peak = sheet.dense_tflops.get("bf16") or sheet.dense_tflops.get("fp16")
    if reference is None or sheet.tdp_w is None or not peak:
        return 1.0
    return (sheet.tdp_w / peak) / (reference[0] / reference[1])


_KIND_COLUMNS = ("framework", "execution", "precision", "attention", "adapter")


def _kinds(plans: PlanTable) -> Iterable[tuple[npt.NDArray[np.int64], dict[str, str]]]:
    """Yield the rows of each distinct choice of framework, execution, precision, attention kernel and adapter."""
    code = np.zeros(len(plans), dtype=np.int64)
    for name in _KIND_COLUMNS:
        code = code * max(1, len(plans.vocabulary[name])) + plans.columns[name]
    values, inverse = np.unique(code, return_inverse=True)
    for index in range(len(values)):
        rows = np.flatnonzero(inverse == index)
        yield rows, {name: plans.vocabulary[name][int(plans.columns[name][rows[0]])] for name in _KIND_COLUMNS}


def _priced(
    model: Model,
    workload: Workload,
    plans: PlanTable,
    rows: npt.NDArray[np.int64],
    curves: DeviceCurves,
    traits: Traits,
    key: dict[str, str],
) -> tuple[LayerWork, npt.NDArray[np.int64]]:
    """Price each distinct (micro-batch, tp, cp, ep, sp) once; return the table and where each row finds its entry."""
    names = ("micro_batch", "tp", "cp", "ep", "sequence_parallel")
    code = np.zeros(len(rows), dtype=np.int64)
    picked = {name: plans.columns[name][rows] for name in names}
    for name in names:
        code = code * (int(picked[name].max()) + 1) + picked[name]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    mb, tp, cp, ep, sp = (picked[name][first].astype(np.float64) for name in names)
    shape = Shape(mb, tp, cp, ep, sp, float(workload.seq_len))
    work = layer_work(
        model, shape, curves, traits, precision=key["precision"], attention=key["attention"], trains_weights=key["adapter"] == "none"
    )
    return work, inverse


def _plan_columns(plans: PlanTable, platform: Platform) -> dict[str, Floats]:
    names = (
        "micro_batch",
        "grad_accumulation",
        "global_batch",
        "dp",
        "tp",
        "pp",
        "vpp",
        "cp",
        "ep",
        "shard_degree",
        "sequence_parallel",
        "devices",
    )
    columns: dict[str, Floats] = {name: plans.ints(name) for name in names}
    columns["sharded_weights"] = (
        plans.equals("sharding", "zero3") | plans.equals("sharding", "fsdp") | plans.equals("sharding", "hsdp")
    ) * 1.0
    columns["sharded_gradients"] = columns["sharded_weights"] + plans.equals("sharding", "zero2")
    columns["sharded_states"] = (~plans.equals("sharding", "none")) * 1.0
    columns["recompute_full"] = plans.equals("recompute", "full") * 1.0
    columns["recompute_selective"] = plans.equals("recompute", "selective") * 1.0
    columns["offload_optimizer"] = (~plans.equals("offload", "none")) * 1.0
    columns["offload_params"] = plans.equals("offload", "params") * 1.0
    columns["adapter"] = (~plans.equals("adapter", "none")) * 1.0
    columns["frozen_bytes"] = np.where(plans.equals("adapter", "qlora"), 0.516, 2.0)
    columns["adapter_rank"] = plans.ints("adapter_rank")
    columns["weight_bytes"] = plans.lookup("precision", {p: min(max(dtype_bytes(p), 2.0), 4.0) for p in plans.vocabulary["precision"]})
    columns["four_bit"] = plans.lookup("precision", {p: float(dtype_bytes(p) < 1) for p in plans.vocabulary["precision"]})
    columns["low_precision"] = plans.lookup("precision", {p: float(dtype_bytes(p) < 2) for p in plans.vocabulary["precision"]})
    columns["full_precision"] = (columns["weight_bytes"] > 2) * 1.0
    columns["optimizer_8bit"] = plans.equals("optimizer", "adam8bit") * 1.0
    columns["nodes"] = np.maximum(np.ceil(columns["devices"] / platform.devices_per_node), 1.0)
    columns["host_link"] = np.full(len(plans), platform.host_link_bytes_per_s or 16e9)
    columns["memory_limit"] = np.full(len(plans), float(platform.memory_bytes) if platform.memory_bytes else np.inf)
    columns["on_gpu"] = np.full(len(plans), float(platform.profile.target in ("cuda", "rocm")))
    columns["unfused"] = plans.equals("attention", "math") * 1.0
    return columns


def _sizes(model: Model, plans: PlanTable, c: dict[str, Floats]) -> dict[str, Floats]:
    """Count parameters on a device: one average layer, embedding and head, and the heaviest stage."""
    tp, ep = c["tp"], c["ep"]
    layers = float(sum(b.repeat for b in model.blocks if b.section == "layer")) or 1.0
    per_layers, edges = np.zeros(len(plans)), {"embedding": np.zeros(len(plans)), "head": np.zeros(len(plans))}
    table = 0.0
    for block in model.blocks:
        split = block.parameters - block.unsplit_parameters - block.expert_parameters
        mine = block.repeat * (split / tp + block.unsplit_parameters + block.expert_parameters / np.maximum(tp, ep))
        if block.section == "layer":
            per_layers = per_layers + mine
        else:
            edges[block.section] = edges[block.section] + mine
    t = model.transformer
    if t is not None and t.tied_embeddings:
        table = float(t.vocab * t.hidden)
    head = edges["head"] + np.where(c["pp"] > 1, table / tp, 0.0)
    stages = cut(layers, c["pp"], c["balanced_stages"])
    layer = per_layers / layers
    first = stages.most * layer + edges["embedding"] + np.where(c["pp"] > 1, 0.0, head)
    last = stages.last * layer + head
    heaviest = np.where(c["pp"] > 1, np.maximum(first, last), first)
    rank = c["adapter_rank"]
    hidden = float(t.hidden) if t is not None else 0.0
    # Two rank-r factors beside each of the products of a layer that adapters usually touch (about seven widths of hidden in all).
    lora = rank * hidden * 14.0 * stages.most / tp
    trained = np.where(c["adapter"] > 0, lora, heaviest)
    return {
        "layers": np.full(len(plans), layers),
        "layers_most": stages.most,
        "layers_last": stages.last,
        "layer_params": layer,
        "embedding_params": edges["embedding"],
        "head_params": head,
        "stage_params": heaviest,
        "trained_params": trained,
    }


def _exchanges(model: Model, platform: Platform, plans: PlanTable, c: dict[str, Floats], curves: DeviceCurves) -> dict[str, Floats]:
    """Price the exchanges of a step: per micro-batch and all layers for tp, cp, ep and gathers; per step for gradients and updates."""
    tiers = platform.tiers
    tp, cp, dp, layers = c["tp"], c["cp"], c["dp"], c["layers"]
    ring = dp * cp
    result: dict[str, Floats] = {}

    def put(name: str, e: Any) -> None:
        result[f"{name}_inside"], result[f"{name}_between"] = e.inside, e.between

    state = c["hidden_bytes"]
    reduce_ = exchange("all_reduce", state, tp, 1.0, tiers, curves)
    halves = joined(exchange("all_gather", state, tp, 1.0, tiers, curves), exchange("reduce_scatter", state, tp, 1.0, tiers, curves))
    sp = c["sequence_parallel"] > 0
    put("tensor", _choose(sp, scaled(halves, 2.0 * layers), scaled(reduce_, 2.0 * layers)))
    put("tensor_extra", _choose(sp, scaled(exchange("all_gather", state, tp, 1.0, tiers, curves), 2.0 * layers), scaled(reduce_, 0.0)))
    put("context", scaled(exchange("p2p", c["kv_bytes"], np.minimum(cp, 2.0), tp, tiers, curves), layers * np.maximum(cp - 1.0, 0.0)))
    put("expert", scaled(_to_experts(model, platform, c, curves), 2.0 * layers))
    boundary = c["hidden_bytes"] / np.where((c["splits_boundary"] > 0) | (c["sequence_parallel"] > 0), tp, 1.0)
    put("stage", exchange("p2p", boundary, np.minimum(c["pp"], 2.0), tp * cp * dp, tiers, curves))
    shard = np.where(c["sharded_weights"] > 0, c["shard_degree"], 1.0)
    weights = c["layer_params"] * c["weight_bytes"]
    put("gather", scaled(exchange("all_gather", weights, shard, tp, tiers, curves), layers))
    grads = c["layer_params"] * c["gradient_bytes"]
    put("scatter", scaled(exchange("reduce_scatter", grads, shard, tp, tiers, curves), layers))
    replicas = np.where(c["sharded_weights"] > 0, ring / np.maximum(shard, 1.0), 1.0)
    put("replica", exchange("all_reduce", c["stage_params"] * c["gradient_bytes"] / shard, replicas, tp * shard, tiers, curves))
    group = np.where(c["sharded_weights"] > 0, 1.0, ring)
    width = np.where(c["full_precision"] > 0, 4.0, c["gradient_bytes"])
    whole = c["trained_params"] * width
    put(
        "gradient",
        _choose(
            (c["sharded_states"] > 0) & (c["reduces_whole"] == 0) & (c["shard_degree"] >= group),
            exchange("reduce_scatter", whole, group, tp, tiers, curves),
            exchange("all_reduce", whole, group, tp, tiers, curves),
        ),
    )
    put(
        "update",
        scaled(
            exchange("all_gather", c["trained_params"] * c["weight_bytes"], np.minimum(group, c["shard_degree"]), tp, tiers, curves),
            c["sharded_states"],
        ),
    )
    return result


def _choose(mask: Any, yes: Any, no: Any) -> Any:
    return Exchange(np.where(mask, yes.inside, no.inside), np.where(mask, yes.between, no.between))


def _to_experts(model: Model, platform: Platform, c: dict[str, Floats], curves: DeviceCurves) -> Exchange:
    """Price one all-to-all to the experts; between nodes a token crosses once for each node, not for each expert it visits."""
    whole = exchange("all_to_all", _routed(model, c), c["ep"], 1.0, platform.tiers, curves)
    top = float(model.transformer.experts_per_token) if model.transformer is not None else 1.0
    inner = float(platform.tiers[0].group) if platform.tiers else 1.0
    copies = np.minimum(np.ceil(c["ep"] / max(inner, 1.0)), top) / max(top, 1.0)
    return Exchange(whole.inside, whole.between * copies)


def _routed(model: Model, c: dict[str, Floats]) -> Floats:
    """Return the bytes one rank sends to the experts of one layer: each token to each expert it visits."""
    t = model.transformer
    top = float(t.experts_per_token) if t is not None and t.experts > 1 else 0.0
    share = float(t.layers - t.dense_layers) / max(t.layers, 1) if t is not None else 0.0
    return c["hidden_bytes"] * top * share / c["tp"]
