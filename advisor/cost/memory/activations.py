"""Activations kept for the backward pass, per layer and micro-batch (Korthikanti et al. 2022, sections 4 and 5).

Norm inputs and the inputs of column products are whole on each tensor-parallel rank unless sequence parallelism divides them;
queries, keys, values, context and the MLP's inner width are divided. Unfused attention keeps, for each score, the softmax output, the
dropout output and a one-byte mask. Full recomputation keeps a layer's input only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.model.counts import score_elements_per_token
from advisor.model.records import Block, Gemm, Model
from advisor.plan.records import Workload

Floats = npt.NDArray[np.float64]


def kept_columns(model: Model, workload: Workload, c: dict[str, Floats]) -> dict[str, Floats]:
    """Return bytes per device and micro-batch, float64[n].

    ``kept_layer`` and ``input_layer`` (one average layer whole, and its input alone), ``kept_plan`` (one layer under the plan's own
    recomputation), ``kept_embedding``, ``kept_head``.
    """
    width = c["weight_bytes"]
    per_token = c["micro_batch"] / c["cp"]
    layers = c["layers"]
    whole, scores = np.zeros_like(layers), np.zeros_like(layers)
    edges = {"embedding": np.zeros_like(layers), "head": np.zeros_like(layers)}
    for block in model.blocks:
        tokens = per_token * float(block.tokens_per_sample or workload.seq_len)
        kept = tokens * _per_token(block, c, width)
        if block.section == "layer":
            whole = whole + block.repeat * kept / layers
            each = score_elements_per_token(block, workload.seq_len) / c["tp"]
            scores = scores + block.repeat * tokens * each * (2.0 * width + 1.0) / layers * c["unfused"]
        else:
            edges[block.section] = edges[block.section] + kept
    hidden = float(model.transformer.hidden) if model.transformer is not None else 0.0
    entry = per_token * workload.seq_len * hidden * width / np.where(c["sequence_parallel"] > 0, c["tp"], 1.0)
    selective = np.where(c["unfused"] > 0, whole, np.maximum(c["selective_kept"] * whole, entry))
    plan = np.where(c["recompute_full"] > 0, entry, np.where(c["recompute_selective"] > 0, selective, whole + scores))
    return {
        "kept_layer": whole + scores,
        "kept_plan": plan,
        "input_layer": entry,
        "kept_embedding": edges["embedding"],
        "kept_head": edges["head"],
    }


def _per_token(block: Block, c: dict[str, Floats], width: Floats) -> Floats:
    """Bytes one token keeps in one repeat of ``block`` on one device."""
    divided = np.where(c["sequence_parallel"] > 0, c["tp"], 1.0)
    split = block.activation_elements_split_per_token - (1.0 - c["keeps_gate_product"]) * _gate_width(block)
    rest = block.activation_elements_per_token - block.activation_elements_split_per_token
    kept = (split / c["tp"] + rest / divided) * width * c["kept_activations"]
    return kept + c["dropout"] * block.activation_mask_bytes_per_token / divided


def _gate_width(block: Block) -> float:
    """Return the elements a token's activated gates take: half of what a gated MLP keeps besides its products, 0 for a plain MLP."""
    ups = [op for op in block.operators if isinstance(op, Gemm) and op.name.endswith(".up")]
    downs = {op.name.removesuffix(".down"): op for op in block.operators if isinstance(op, Gemm) and op.name.endswith(".down")}
    width = 0.0
    for up in ups:
        down = downs.get(up.name.removesuffix(".up"))
        if down is not None and up.n == 2 * down.k:
            width += float(down.k * up.experts_per_token)
    return width
