"""DeepSeek V2 and V3: multi-head latent attention and fine-grained experts."""

from __future__ import annotations

from typing import Any

from advisor.model.families._decoder import experts, has_head
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import Layout
from advisor.model.records import Model, Transformer
from advisor.model.transformer import build_transformer

V2 = "DeepSeek-AI 2024, DeepSeek-V2, arXiv 2405.04434, section 3.1.2 and appendix B; released configuration"
V3 = "DeepSeek-AI 2024, DeepSeek-V3, arXiv 2412.19437, section 4.2; released configuration; without the multi-token-prediction module"


def _build(c: Fields, name: str, *, experts_default: int, per_token: int) -> Model:
    nope, rope = c.integer("qk_nope_head_dim", default=128), c.integer("qk_rope_head_dim", default=64)
    heads = c.integer("num_attention_heads")
    layers = c.layers()
    mixture = experts(c, default=experts_default, per_token=per_token)
    dense = c.integer("first_k_dense_replace", default=0, low=0, high=layers)
    c.ignore("num_key_value_heads", "head_dim", "qk_head_dim", "attention_bias", "mlp_bias")
    t = Transformer(
        layers=layers,
        hidden=c.integer("hidden_size"),
        heads=heads,
        kv_heads=heads,
        head_dim=nope + rope,
        ffn_hidden=c.integer("intermediate_size"),
        vocab=c.integer("vocab_size"),
        max_seq=c.integer("max_position_embeddings", default=2048),
        gated_mlp=True,
        tied_embeddings=c.flag("tie_word_embeddings", default=False),
        norm="rmsnorm",
        moe_ffn_hidden=c.integer("moe_intermediate_size"),
        shared_experts=c.integer("n_shared_experts", default=0, low=0),
        dense_layers=dense,
        kv_lora_rank=c.integer("kv_lora_rank", default=512),
        q_lora_rank=c.optional("q_lora_rank"),
        rope_head_dim=rope,
        value_head_dim=c.integer("v_head_dim", default=128),
        **mixture,
    )
    return build_transformer(t, name=name, family="deepseek", layout=Layout(lm_head=has_head(c)))


def deepseek_v2(c: Fields, name: str) -> Model:
    """``model_type: deepseek_v2``."""
    return _build(c, name, experts_default=64, per_token=6)


def deepseek_v3(c: Fields, name: str) -> Model:
    """``model_type: deepseek_v3``; the routing correction of one number an expert is a buffer, not a parameter."""
    return _build(c, name, experts_default=256, per_token=8)


def _config(kind: str, layers: int, hidden: int, heads: int, ffn: int, moe: int, vocab: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "intermediate_size": ffn,
        "moe_intermediate_size": moe,
        "vocab_size": vocab,
        "max_position_embeddings": 163840,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        **more,
    }


_LITE = _config(
    "deepseek_v2",
    27,
    2048,
    16,
    10944,
    1408,
    102400,
    q_lora_rank=None,
    n_routed_experts=64,
    num_experts_per_tok=6,
    n_shared_experts=2,
    first_k_dense_replace=1,
)
_V2 = _config(
    "deepseek_v2",
    60,
    5120,
    128,
    12288,
    1536,
    102400,
    q_lora_rank=1536,
    n_routed_experts=160,
    num_experts_per_tok=6,
    n_shared_experts=2,
    first_k_dense_replace=1,
)
_V3 = _config(
    "deepseek_v3",
    61,
    7168,
    128,
    18432,
    2048,
    129280,
    q_lora_rank=1536,
    n_routed_experts=256,
    num_experts_per_tok=8,
    n_shared_experts=1,
    first_k_dense_replace=3,
)

FAMILY = Family(
    name="deepseek",
    title="DeepSeek V2 and V3",
    architectures={"deepseek_v2": deepseek_v2, "deepseek_v3": deepseek_v3, "kimi_k2": deepseek_v3},
    entries=(
        Entry(name="deepseek-v2-lite", config=_LITE, source=V2, aliases=("deepseek-v2-lite-16b",)),
        Entry(name="deepseek-v2", config=_V2, source=V2, aliases=("deepseek-v2-236b",)),
        Entry(name="deepseek-v3", config=_V3, source=V3, aliases=("deepseek-r1", "deepseek-v3-671b")),
    ),
)
