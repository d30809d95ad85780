"""Further mixtures of experts: OLMoE, GLM-4.5, Granite, Phi-3.5-MoE, DBRX."""

from __future__ import annotations

from typing import Any

from advisor.model.families._decoder import experts, has_head, sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import Layout
from advisor.model.records import Model, Transformer
from advisor.model.transformer import build_transformer


def olmoe(c: Fields, name: str) -> Model:
    """``model_type: olmoe``: norms over all queries and keys."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, max_seq=4096, **experts(c, default=64, per_token=8))
    bias = c.flag("attention_bias", default=False)
    c.ignore("clip_qkv")
    return build_transformer(t, name=name, family="moe", layout=Layout(qkv_bias=bias, out_bias=bias, qk_norm="full", lm_head=has_head(c)))


def glm4_moe(c: Fields, name: str) -> Model:
    """``model_type: glm4_moe``: leading dense layers, one shared expert; a correction of the routing is a buffer."""
    layers = c.layers()
    t = sizes(
        c,
        gated=True,
        norm="rmsnorm",
        tied=False,
        moe_ffn_hidden=c.integer("moe_intermediate_size"),
        shared_experts=c.integer("n_shared_experts", default=1, low=0),
        dense_layers=c.integer("first_k_dense_replace", default=1, low=0, high=layers),
        **experts(c, default=128, per_token=8),
    )
    head_norm = c.flag("use_qk_norm", default=False)
    layout = Layout(qkv_bias=c.flag("attention_bias", default=False), qk_norm="head" if head_norm else "none", lm_head=has_head(c))
    return build_transformer(t, name=name, family="moe", layout=layout)


def granitemoe(c: Fields, name: str) -> Model:
    """``model_type: granitemoe``."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, max_seq=2048, **experts(c, default=8, per_token=2))
    bias = c.flag("attention_bias", default=False)
    return build_transformer(t, name=name, family="moe", layout=Layout(qkv_bias=bias, out_bias=bias, lm_head=has_head(c)))


def phimoe(c: Fields, name: str) -> Model:
    """``model_type: phimoe``: layernorm, biases in attention and the head where the configuration asks for them."""
    t = sizes(c, gated=True, norm="layernorm", tied=False, window=c.optional("sliding_window"), **experts(c, default=16, per_token=2))
    bias, head = c.flag("attention_bias", default=False), has_head(c)
    c.ignore("input_jitter_noise")
    layout = Layout(qkv_bias=bias, out_bias=bias, dropout=False, lm_head=head, lm_head_bias=head and c.flag("lm_head_bias", default=False))
    return build_transformer(t, name=name, family="moe", layout=layout)


def dbrx(c: Fields, name: str) -> Model:
    """``model_type: dbrx``: layernorm without shift; sizes of attention and experts in sections of their own."""
    attention, ffn = c.section("attn_config") or Fields({}, c.what), c.section("ffn_config") or Fields({}, c.what)
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    kv_heads = attention.integer("kv_n_heads", default=1, high=heads)
    if hidden % heads or heads % kv_heads:
        raise c.fail(f"hidden size {hidden}, {heads} heads and {kv_heads} key-value heads do not divide one another")
    count = ffn.integer("moe_num_experts", default=4)
    attention.ignore("clip_qkv", "attn_pdrop", "model_type")
    ffn.ignore("ffn_act_fn", "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights", "uniform_expert_assignment", "model_type")
    c.ignore("emb_pdrop")
    t = Transformer(
        layers=c.layers(),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=hidden // heads,
        ffn_hidden=ffn.integer("intermediate_size", default=3584),
        vocab=c.integer("vocab_size"),
        max_seq=c.integer("max_position_embeddings", default=2048),
        gated_mlp=True,
        tied_embeddings=c.flag("tie_word_embeddings", default=False),
        experts=count,
        experts_per_token=ffn.integer("moe_top_k", default=1, high=count),
    )
    layout = Layout(qkv_bias=False, out_bias=False, norm_bias=False, dropout=False, rotary=True, lm_head=has_head(c))
    return build_transformer(t, name=name, family="moe", layout=layout)


def _entry(name: str, source: str, aliases: tuple[str, ...], **config: Any) -> Entry:
    return Entry(name=name, config=config, source=source, aliases=aliases)


FAMILY = Family(
    name="moe",
    title="OLMoE, GLM-4.5, Granite MoE, Phi-3.5-MoE, DBRX",
    architectures={"olmoe": olmoe, "glm4_moe": glm4_moe, "granitemoe": granitemoe, "phimoe": phimoe, "dbrx": dbrx},
    entries=(
        _entry(
            "olmoe-1b-7b",
            "Muennighoff et al. 2024, OLMoE, arXiv 2409.02060, table 1; released configuration",
            ("olmoe-1b-7b-0924",),
            model_type="olmoe",
            num_hidden_layers=16,
            hidden_size=2048,
            num_attention_heads=16,
            intermediate_size=1024,
            vocab_size=50304,
            max_position_embeddings=4096,
            num_experts=64,
            num_experts_per_tok=8,
        ),
        _entry(
            "dbrx-132b",
            "Databricks 2024, DBRX; released configuration",
            ("dbrx",),
            model_type="dbrx",
            n_layers=40,
            d_model=6144,
            n_heads=48,
            vocab_size=100352,
            max_seq_len=32768,
            attn_config={"kv_n_heads": 8},
            ffn_config={"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        ),
    ),
)
