"""Falcon 1: three layouts of one name."""

from __future__ import annotations

from typing import Any

from advisor.model.families._decoder import decoder, sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model

FALCON = "Almazrouei et al. 2023, The Falcon Series, arXiv 2311.16867, table 7; released configuration"


def falcon(c: Fields, name: str) -> Model:
    """``model_type: falcon``: 7b shares one key-value head; 40b and 180b have groups of heads and a norm before each branch."""
    grouped = c.flag("new_decoder_architecture", default=False)
    multi_query = c.flag("multi_query", default=True)
    parallel = c.flag("parallel_attn", default=True) or grouped
    heads = c.integer("num_attention_heads")
    kv_heads = c.integer("num_kv_heads", default=heads, high=heads) if grouped else 1 if multi_query else heads
    norms = c.optional("num_ln_in_parallel_attn", high=2)
    c.ignore("num_kv_heads", "alibi", "apply_residual_connection_post_layernorm", "activation")
    alibi = c.flag("alibi", default=False)
    values = {**c.data, "num_key_value_heads": kv_heads}
    values.pop("num_kv_heads", None)
    inner = Fields(values, c.what)
    t = sizes(inner, gated=False, norm="layernorm", tied=True, max_seq=2048, ffn_default=4 * inner.integer("hidden_size"))
    c.used |= inner.used
    bias = c.flag("bias", default=False)
    return decoder(
        c,
        t,
        name,
        "falcon",
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        layer_norms=(norms or 2) if grouped else 1 if parallel else 2,
        rotary=not alibi,
        dropout=False,
    )


def _entry(name: str, layers: int, hidden: int, heads: int, **more: Any) -> Entry:
    config = {"model_type": "falcon", "num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, **more}
    return Entry(name=name, config={**config, "vocab_size": 65024, "max_position_embeddings": 2048}, source=FALCON)


FAMILY = Family(
    name="falcon",
    title="Falcon",
    architectures={"falcon": falcon, "RefinedWebModel": falcon, "RefinedWeb": falcon},
    entries=(
        _entry("falcon-7b", 32, 4544, 71, multi_query=True),
        _entry("falcon-40b", 60, 8192, 128, new_decoder_architecture=True, num_kv_heads=8),
        _entry("falcon-180b", 80, 14848, 232, new_decoder_architecture=True, num_kv_heads=8),
    ),
)
