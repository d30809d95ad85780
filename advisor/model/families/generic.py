"""``family: transformer``: any decoder or encoder by its sizes and features, for our own YAML descriptions."""

from __future__ import annotations

from typing import Literal

from advisor.model.families._decoder import experts, sizes
from advisor.model.family import Family
from advisor.model.fields import Fields
from advisor.model.layout import Layout
from advisor.model.records import Model
from advisor.model.transformer import build_transformer


def transformer(c: Fields, name: str) -> Model:
    """Read layers, hidden, heads, kv_heads, head_dim, ffn_hidden, vocab, max_seq, gated_mlp, norm, causal, biases and experts.

    What is not given follows ``gated_mlp``: the Llama shape where it is true, the GPT shape where it is false (the default
    unless ``norm`` is rmsnorm).
    """
    named = c.text("norm", default="")
    if named not in ("", "layernorm", "rmsnorm"):
        raise c.fail(f"'norm' must be layernorm or rmsnorm, not {named!r}")
    gated = c.flag("gated_mlp", default=named == "rmsnorm")
    norm: Literal["layernorm", "rmsnorm"] = "rmsnorm" if named == "rmsnorm" or (not named and gated) else "layernorm"
    mixture = experts(c)
    t = sizes(
        c,
        gated=gated,
        norm=norm,
        tied=not gated,
        learned=c.flag("learned_positions", default=not gated),
        ffn_default=4 * c.integer("hidden_size"),
        max_seq=2048,
        causal=c.flag("causal", default=True),
        window=c.optional("sliding_window"),
        moe_ffn_hidden=c.optional("moe_intermediate_size"),
        shared_experts=c.integer("shared_experts", default=0, low=0),
        dense_layers=c.integer("dense_layers", default=0, low=0, high=c.layers()) if mixture["experts"] > 1 else 0,
        **mixture,
    )
    bias = c.flag("bias", default=norm == "layernorm")
    layout = Layout(
        qkv_bias=c.flag("qkv_bias", default=bias),
        out_bias=bias,
        mlp_bias=bias,
        qk_norm="head" if c.flag("qk_norm", default=False) else "none",
        lm_head=c.flag("lm_head", default=t.causal),
    )
    return build_transformer(t, name=name, family="transformer", kind="decoder" if t.causal else "encoder", layout=layout)


FAMILY = Family(name="transformer", title="any transformer, by its sizes", architectures={"transformer": transformer})
