"""The models known by name, and what is known of one of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from advisor.model.counts import flops_per_token, forward_flops, kv_bytes_per_token
from advisor.model.records import Model

#: Longest sequence at which the listings count FLOPs a token, so that models of very different lengths compare.
_FLOPS_SEQ = 2048
#: Bytes of an element of the key-value cache in the listings: 16 bits.
_KV_BYTES = 2.0


def list_models(pattern: str | None = None) -> dict[str, Any]:
    """Return the document of ``advisor models list``: one row a model, those whose name or family contains ``pattern``."""
    from advisor.model.registry import model, model_names

    rows = [_row(model(name)) for name in model_names()]
    if pattern:
        wanted = pattern.lower()
        rows = [row for row in rows if wanted in row["name"] or wanted in row["family"] or any(wanted in alias for alias in row["aliases"])]
    return {"schema_version": 1, "models": rows}


def show_model(name_or_path: str) -> dict[str, Any]:
    """Return the document of ``advisor models show``: sizes, counts, layers and where they come from."""
    from advisor.model.registry import model

    found = model(name_or_path)
    length = found.default_seq
    blocks = [
        {
            "section": block.section,
            "name": block.name,
            "repeat": block.repeat,
            "parameters": block.parameters,
            "expert_parameters": block.expert_parameters,
            "operators": [{"kind": type(op).__name__.lower(), **asdict(op)} for op in block.operators],
        }
        for block in found.blocks
    ]
    return {
        "schema_version": 1,
        **_row(found),
        "forward_flops": forward_flops(found, length),
        "forward_flops_causal": forward_flops(found, length, causal=True),
        "transformer": None if found.transformer is None else asdict(found.transformer),
        "ignored_fields": list(found.ignored_fields),
        "blocks": blocks,
    }


def _row(model: Model) -> dict[str, Any]:
    """Return what the list shows of one model. ``forward_flops_per_token`` is per image where a sample is an image."""
    length = min(model.default_seq, _FLOPS_SEQ)
    length = min(model.default_seq, _FLOPS_SEQ)
    return {
        "name": model.name,
        "family": model.family,
        "kind": model.kind,
        "sample": model.sample,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "default_seq": model.default_seq,
        "resolution": model.resolution,
        "forward_flops_per_token": flops_per_token(model, length),
        "flops_seq": length,
        "kv_bytes_per_token": kv_bytes_per_token(model, _KV_BYTES),
        "fp16_safe": model.fp16_safe,
        "aliases": list(model.aliases),
        "source": model.source,
    }
