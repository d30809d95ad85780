"""gpt-oss and Llama 4: mixtures of experts with a pattern over the layers."""

from __future__ import annotations

from advisor.model.families._decoder import experts, has_head, local_layers, sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import LayerKind, Layout
from advisor.model.records import Model
from advisor.model.transformer import build_transformer

OSS = "OpenAI 2025, gpt-oss-120b and gpt-oss-20b model card, arXiv 2508.10925, table 1; released configuration"
LLAMA4 = "Meta 2025, Llama 4; released configuration, language part"


def gpt_oss(c: Fields, name: str) -> Model:
    """``model_type: gpt_oss``: biases, a learned sink for each head, and a window of 128 keys in every other layer."""
    mixture = experts(c, default=128, per_token=4)
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, head_dim=c.integer("head_dim", default=64), **mixture)
    window = c.integer("sliding_window", default=128)
    c.ignore("experts_per_token", "swiglu_limit", "initial_context_length", "attention_bias")
    local = local_layers(c, t.layers, t.layers - t.layers // 2)
    kinds = (
        LayerKind(name="local layer", repeat=local, moe=True, window=window),
        LayerKind(name="global layer", repeat=t.layers - local, moe=True),
    )
    layout = Layout(
        qkv_bias=True,
        out_bias=True,
        router_bias=True,
        expert_bias=True,
        attention_parameters=t.heads,
        kinds=tuple(kind for kind in kinds if kind.repeat),
        lm_head=has_head(c),
    )
    return build_transformer(t, name=name, family="gpt-oss", layout=layout)


def llama4_text(c: Fields, name: str) -> Model:
    """``model_type: llama4_text``: one routed and one shared expert a token; Maverick alternates with dense layers."""
    count = c.integer("num_local_experts", default=16)
    step = c.integer("interleave_moe_layer_step", default=1)
    per_token = c.integer("num_experts_per_tok", default=1, high=count)
    narrow, wide = c.integer("intermediate_size"), c.integer("intermediate_size_mlp")
    t = sizes(
        c,
        gated=True,
        norm="rmsnorm",
        tied=False,
        ffn_hidden=wide,
        moe_ffn_hidden=narrow,
        experts=count,
        experts_per_token=per_token,
        shared_experts=1,
    )
    window = c.integer("attention_chunk_size", default=8192)
    sparse = t.layers // step
    local_sparse, local_dense = sparse - sparse // 4, (t.layers - sparse) - (t.layers - sparse) // 4
    kinds = (
        LayerKind(name="local expert layer", repeat=local_sparse, moe=True, window=window),
        LayerKind(name="global expert layer", repeat=sparse - local_sparse, moe=True),
        LayerKind(name="local dense layer", repeat=local_dense, window=window),
        LayerKind(name="global dense layer", repeat=t.layers - sparse - local_dense),
    )
    c.ignore(
        "attention_bias", "attn_scale", "attn_temperature_tuning", "floor_scale", "for_llm_compressor", "use_qk_norm", "no_rope_layers"
    )
    c.ignore("no_rope_layer_interval", "moe_layers", "layer_types")
    layout = Layout(kinds=tuple(kind for kind in kinds if kind.repeat), lm_head=has_head(c))
    return build_transformer(t, name=name, family="gpt-oss", layout=layout)


def _oss(size: str, layers: int, count: int) -> Entry:
    config = {
        "model_type": "gpt_oss",
        "num_hidden_layers": layers,
        "hidden_size": 2880,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2880,
        "vocab_size": 201088,
        "max_position_embeddings": 131072,
        "num_local_experts": count,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
    }
    return Entry(name=f"gpt-oss-{size}", config=config, source=OSS)


def _llama4(name: str, count: int, step: int, length: int) -> Entry:
    config = {
        "model_type": "llama4_text",
        "num_hidden_layers": 48,
        "hidden_size": 5120,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "vocab_size": 202048,
        "max_position_embeddings": length,
        "num_local_experts": count,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": step,
    }
    return Entry(name=name, config=config, source=LLAMA4)


FAMILY = Family(
    name="gpt-oss",
    title="gpt-oss and Llama 4",
    architectures={"gpt_oss": gpt_oss, "llama4_text": llama4_text},
    entries=(
        _oss("20b", 24, 32),
        _oss("120b", 36, 128),
        _llama4("llama-4-scout", 16, 1, 10485760),
        _llama4("llama-4-maverick", 128, 2, 1048576),
    ),
)
