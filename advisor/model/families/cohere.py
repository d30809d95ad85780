"""Command R: one normalisation in front of attention and MLP together; its successors see most layers through a window."""

from __future__ import annotations

from dataclasses import replace

from advisor.model.families._decoder import decoder, local_layers, sizes
from advisor.model.families._entry import RELEASED, row
from advisor.model.family import Family
from advisor.model.fields import Fields
from advisor.model.records import Attention, Model


def cohere(c: Fields, name: str) -> Model:
    """``model_type: cohere``: one layernorm without shift for attention and MLP, tied tables."""
    t = sizes(c, gated=True, norm="layernorm", tied=True)
    bias = c.flag("attention_bias", default=False)
    extra = (t.heads + t.kv_heads) * t.head_dim if c.flag("use_qk_norm", default=False) else 0
    return decoder(
        c,
        t,
        name,
        "cohere",
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=False,
        norm_bias=False,
        layer_norms=1,
        attention_parameters=extra,
        dropout=False,
    )


def cohere2(c: Fields, name: str) -> Model:
    """``model_type: cohere2``: as cohere; three layers of four see a window."""
    c.ignore("use_qk_norm")
    base = cohere(c, name)
    t = base.transformer
    window = c.integer("sliding_window", default=4096)
    every = c.integer("sliding_window_pattern", "_sliding_window_pattern", default=4)
    if t is None:
        return base
    local = local_layers(c, t.layers, t.layers - t.layers // every)
    plain = next(block for block in base.blocks if block.section == "layer")
    seen = tuple(replace(op, window=window) if isinstance(op, Attention) else op for op in plain.operators)
    groups = (
        replace(plain, name="local layer", repeat=local, operators=seen),
        replace(plain, name="global layer", repeat=t.layers - local),
    )
    blocks = [part for block in base.blocks for part in (groups if block is plain else (block,)) if part.repeat]
    return replace(base, blocks=tuple(blocks))


FAMILY = Family(
    name="cohere",
    title="Command R",
    architectures={"cohere": cohere, "cohere2": cohere2},
    entries=(
        row("command-r-35b", "cohere", RELEASED + "Command R", (40, 8192, 64, 22528, 256000, 131072), "c4ai-command-r-v01", "command-r"),
    ),
)
