"""Parameters on a device: of one layer, of embedding and head, and of the heaviest pipeline stage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.cost.pipeline import cut
from advisor.model.records import Model

Floats = npt.NDArray[np.float64]


def stage_sizes(model: Model, c: dict[str, Floats]) -> dict[str, Floats]:
    """Count parameters on a device: one average layer, embedding and head, and the heaviest stage."""
    tp, ep = c["tp"], c["ep"]
    layers = float(sum(b.repeat for b in model.blocks if b.section == "layer")) or 1.0
    per_layers, edges = np.zeros_like(tp), {"embedding": np.zeros_like(tp), "head": np.zeros_like(tp)}
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
        "layers": np.full_like(tp, layers),
        "expert_layers": np.full_like(tp, float(t.layers - t.dense_layers) if t is not None and t.experts > 1 else 0.0),
        "layers_most": stages.most,
        "layers_last": stages.last,
        "layer_params": layer,
        "embedding_params": edges["embedding"],
        "head_params": head,
        "stage_params": heaviest,
        "trained_params": trained,
    }
