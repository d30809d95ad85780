"""A Model as the network description that a measuring child builds with random weights."""

from __future__ import annotations

from typing import Any

from advisor.model.records import Model
from advisor.plan.records import Plan, Workload

#: Bottleneck blocks per stage (He et al. 2016, table 1), by the model's name.
_RESNETS = {"resnet-50": (3, 4, 6, 3), "resnet-101": (3, 4, 23, 3), "resnet-152": (3, 8, 36, 3)}


def obstacle(model: Model, workload: Workload) -> str | None:
    """Return why trials cannot build this model, or None if they can."""
    if model.kind in ("decoder", "encoder") and model.transformer is not None:
        t = model.transformer
        if t.experts > 1:
            return "trials cannot build mixture-of-experts models yet"
        if t.kv_lora_rank:
            return "trials cannot build latent attention yet"
        return None
    if model.name in _RESNETS and not workload.is_training:
        return None
    return f"trials cannot build {model.kind} models of the {model.family} family yet"


def network_of(model: Model) -> dict[str, Any]:
    """Return the description of ``model`` (see the ``model`` benchmark); call only where ``obstacle`` is None."""
    t = model.transformer
    if t is None:
        return {"kind": "resnet", "blocks": list(_RESNETS[model.name]), "width": 64, "classes": 1000}
    return {
        "kind": model.kind,
        "layers": t.layers,
        "hidden": t.hidden,
        "heads": t.heads,
        "kv_heads": t.kv_heads,
        "ffn_hidden": t.ffn_hidden,
        "vocab": t.vocab,
        "max_seq": t.max_seq,
        "gated_mlp": t.gated_mlp,
        "causal": t.causal,
    }


def case_params(model: Model, workload: Workload, plan: Plan) -> dict[str, Any]:
    """Return the parameters of the ``model`` benchmark for one plan (threads apart, which belong to the child)."""
    size = {"resolution": model.resolution or 224} if model.sample == "image" else {"seq": workload.input_len or workload.seq_len}
    return {
        "network": network_of(model),
        "batch": plan.micro_batch,
        **size,
        "mode": "train" if workload.is_training else "infer",
        "execution": plan.execution,
        "quantization": plan.quantization,
    }
