"""The exchanges of a training step: what each kind of parallelism sends, to whom, and its seconds on the curves by network tier."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.communication import Exchange, exchange, joined, scaled
from advisor.cost.curves import DeviceCurves
from advisor.hardware.platform import Platform
from advisor.model.records import Model

Floats = npt.NDArray[np.float64]


def exchanges_of(model: Model, platform: Platform, c: dict[str, Floats], curves: DeviceCurves) -> dict[str, Floats]:
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
