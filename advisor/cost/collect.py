"""Fill Terms for a table of plans: kernels priced on the curves, parameters counted, exchanges placed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.curves import DeviceCurves, curves_for
from advisor.cost.exchanges import exchanges_of
from advisor.cost.kernels.collective import kind_of
from advisor.cost.memory.activations import kept_columns
from advisor.cost.memory.constants import NF4_BYTES
from advisor.cost.sizes import stage_sizes
from advisor.cost.terms import FUSIONS, GENERATIONS, LINKS, Terms
from advisor.cost.traits import traits_of
from advisor.cost.work import LAYER_WORK_FIELDS, LayerWork, Shape, layer_work
from advisor.frameworks._training import Traits
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
    "waits_for_update",
    "overlap_tensor",
    "overlap_pipeline",
    "kernels_forward",
    "kernels_backward",
    "host_factor",
    "logit_passes_bytes",
    "optimizer_bytes",
    "host_update_s",
    "cast_passes",
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
    "selective_kept",
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
    used: dict[str, None] = {}
    for rows, key in _kinds(plans):
        traits = traits_of(key["framework"], key["execution"], platform.profile.target)
        curves = curves_for(platform, key["framework"], calibration)
        used |= dict.fromkeys(curves.measurements)
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
    columns.update(stage_sizes(model, columns))
    odd = model.transformer is not None and model.transformer.vocab % 8 != 0
    columns["odd_vocab"] = odd * (columns["tp"] == 1) * (1.0 - columns["pads_vocab"])
    columns.update(_exchanges(model, platform, plans, columns, curves))
    columns.update(kept_columns(model, workload, columns))
    link = kind_of(platform.tiers[-1]) if len(platform.tiers) > 1 else "any"
    kind_text = " ".join(f"{t.kind} {t.name}" for t in platform.tiers).lower()
    link = "opa" if "omni" in kind_text or "opa" in kind_text else link
    codes = {"generation": generation, "fusion": fusion, "link": np.full(n, LINKS.index(link) if link in LINKS else 0, dtype=np.int64)}
    return Terms(columns, codes, tuple(used))


#: Rated watts and 16-bit dense peak (TFLOP/s) of the part that a generation was calibrated on.
_REFERENCE_POWER = {
    "volta": (300.0, 125.0),
    "ampere": (400.0, 312.0),
    "hopper": (700.0, 989.0),
    "blackwell": (1000.0, 2250.0),
    "ada": (350.0, 362.0),
}
#: How many times the reference part's watts for each FLOP/s still help. Only Ada's reference (L40S) is itself held back by its limit.
_USEFUL_POWER = {"ada": 2.5}


def power_share(sheet: HardwareProfile, curves: DeviceCurves) -> float:
    """Return the watts a device has for each FLOP/s of its 16-bit peak, over those of its generation's reference part,
    no more than what helps; 1 if unknown.
    """
    reference = _REFERENCE_POWER.get(curves.generation)
    peak = sheet.dense_tflops.get("bf16") or sheet.dense_tflops.get("fp16")
    if reference is None or sheet.tdp_w is None or not peak:
        return 1.0
    share = (sheet.tdp_w / peak) / (reference[0] / reference[1])
    return min(share, _USEFUL_POWER.get(curves.generation, 1.0))


#: What the exchanges of a step depend on: many plans differ only in recomputation, offload or how often they accumulate.
_EXCHANGE_COLUMNS = (
    "framework", "execution", "precision", "sharding", "adapter", "adapter_rank", "optimizer", "micro_batch", "dp", "tp", "pp", "vpp", "cp",
    "ep", "shard_degree", "sequence_parallel",
)  # fmt: skip


def _exchanges(model: Model, platform: Platform, plans: PlanTable, columns: dict[str, Floats], curves: DeviceCurves) -> dict[str, Floats]:
    """Price the exchanges of each distinct layout once, and hand every row its own."""
    code = np.zeros(len(plans), dtype=np.int64)
    room = 1
    for name in _EXCHANGE_COLUMNS:
        values = plans.columns[name]
        width = int(values.max()) + 1 if len(values) else 1
        if room > np.iinfo(np.int64).max // width:  # renumber before the code outgrows its bits
            code = np.unique(code, return_inverse=True)[1]
            room = int(code.max()) + 1
        code = code * width + values
        room *= width
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    if 2 * len(first) > len(plans):
        return exchanges_of(model, platform, columns, curves)
    found = exchanges_of(model, platform, {name: values[first] for name, values in columns.items()}, curves)
    return {name: np.broadcast_to(values, first.shape)[inverse] for name, values in found.items()}


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
    whole = plans.equals("sharding", "zero3") | plans.equals("sharding", "fsdp") | plans.equals("sharding", "hsdp")
    columns["sharded_weights"] = np.where(whole, 1.0, 0.0)
    columns["sharded_gradients"] = columns["sharded_weights"] + plans.equals("sharding", "zero2")
    columns["sharded_states"] = np.where(plans.equals("sharding", "none"), 0.0, 1.0)
    columns["recompute_full"] = plans.equals("recompute", "full") * 1.0
    columns["recompute_selective"] = plans.equals("recompute", "selective") * 1.0
    columns["offload_optimizer"] = np.where(plans.equals("offload", "none"), 0.0, 1.0)
    columns["offload_params"] = plans.equals("offload", "params") * 1.0
    columns["adapter"] = np.where(plans.equals("adapter", "none"), 0.0, 1.0)
    columns["frozen_bytes"] = np.where(plans.equals("adapter", "qlora"), NF4_BYTES, 2.0)
    columns["adapter_rank"] = plans.ints("adapter_rank")
    columns["weight_bytes"] = plans.lookup("precision", {p: min(max(dtype_bytes(p), 2.0), 4.0) for p in plans.vocabulary["precision"]})
    columns["four_bit"] = plans.lookup("precision", {p: float(dtype_bytes(p) < 1) for p in plans.vocabulary["precision"]})
    columns["low_precision"] = plans.lookup("precision", {p: float(dtype_bytes(p) < 2) for p in plans.vocabulary["precision"]})
    columns["full_precision"] = np.where(columns["weight_bytes"] > 2, 1.0, 0.0)
    columns["optimizer_8bit"] = plans.equals("optimizer", "adam8bit") * 1.0
    columns["nodes"] = np.maximum(np.ceil(columns["devices"] / platform.devices_per_node), 1.0)
    columns["host_link"] = np.full(len(plans), platform.host_link_bytes_per_s or 16e9)
    columns["memory_limit"] = np.full(len(plans), float(platform.memory_bytes) if platform.memory_bytes else np.inf)
    columns["on_gpu"] = np.full(len(plans), float(platform.profile.target in ("cuda", "rocm")))
    columns["synchronous"] = np.zeros(len(plans))
    columns["unfused"] = plans.equals("attention", "math") * 1.0
    return columns
