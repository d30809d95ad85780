"""OPT and BLOOM."""

from __future__ import annotations

from typing import Any

from advisor.model.families._decoder import decoder, sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model

OPT = "Zhang et al. 2022, OPT, arXiv 2205.01068, table 1; released configuration"
BLOOM = "BigScience 2022, BLOOM, arXiv 2211.05100, table 3; released configuration"


def opt(c: Fields, name: str) -> Model:
    """``model_type: opt``: two more rows in the position table; the 350m model has a narrow token table and no last norm."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True)
    width = c.integer("word_embed_proj_dim", default=t.hidden)
    bias = c.flag("enable_bias", default=True)
    before = c.flag("do_layer_norm_before", default=True)
    removed = c.flag("_remove_final_layer_norm", default=False)
    return decoder(
        c,
        t,
        name,
        "opt",
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        norm_affine=c.flag("layer_norm_elementwise_affine", default=True),
        final_norm=before and not removed,
        position_rows=t.max_seq + 2,
        embedding_size=None if width == t.hidden else width,
        embedding_projection_bias=False,
        positions_at_hidden=True,
    )


def bloom(c: Fields, name: str) -> Model:
    """``model_type: bloom``: positions by a slope on the scores (ALiBi), a norm after the embedding."""
    hidden = c.integer("hidden_size", "n_embed")
    values = {**c.data, "hidden_size": hidden}
    inner = Fields(values, c.what)
    t = sizes(inner, gated=False, norm="layernorm", tied=True, max_seq=2048, ffn_default=4 * hidden)
    c.used |= inner.used
    c.ignore("offset_alibi", "bias_dropout_fusion", "n_inner", "seq_length")
    return decoder(c, t, name, "bloom", embedding_norm=True, rotary=False)


def _opt(size: str, layers: int, hidden: int, heads: int, **more: Any) -> Entry:
    config = {
        "model_type": "opt",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "ffn_dim": 4 * hidden,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        "word_embed_proj_dim": hidden,
        **more,
    }
    return Entry(name=f"opt-{size}", config=config, source=OPT, aliases=(f"facebook/opt-{size}",))


def _bloom(name: str, layers: int, hidden: int, heads: int, *aliases: str) -> Entry:
    config = {"model_type": "bloom", "n_layer": layers, "hidden_size": hidden, "n_head": heads, "vocab_size": 250880}
    return Entry(name=name, config=config, source=BLOOM, aliases=aliases)


FAMILY = Family(
    name="opt",
    title="OPT and BLOOM",
    architectures={"opt": opt, "bloom": bloom},
    entries=(
        _opt("125m", 12, 768, 12),
        _opt("350m", 24, 1024, 16, word_embed_proj_dim=512, do_layer_norm_before=False),
        _opt("1.3b", 24, 2048, 32),
        _opt("2.7b", 32, 2560, 32),
        _opt("6.7b", 32, 4096, 32),
        _opt("13b", 40, 5120, 40),
        _opt("30b", 48, 7168, 56),
        _opt("66b", 64, 9216, 72),
        _opt("175b", 96, 12288, 96),
        _bloom("bloom-560m", 24, 1024, 16),
        _bloom("bloom-1.1b", 24, 1536, 16, "bloom-1b1"),
        _bloom("bloom-1.7b", 24, 2048, 16, "bloom-1b7"),
        _bloom("bloom-3b", 30, 2560, 32),
        _bloom("bloom-7.1b", 30, 4096, 32, "bloom-7b1", "bloom-7b"),
        _bloom("bloom-176b", 70, 14336, 112, "bloom"),
    ),
)
