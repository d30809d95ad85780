"""Qwen 1, 1.5, 2, 2.5 and 3, dense and mixtures of experts."""

from __future__ import annotations

from typing import Any

from advisor.model.families._decoder import decoder, experts, sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import LayerKind, Layout
from advisor.model.records import Model, Transformer
from advisor.model.transformer import build_transformer

QWEN1 = "Bai et al. 2023, Qwen, arXiv 2309.16609; released configuration"
QWEN2 = "Yang et al. 2024, Qwen2, arXiv 2407.10671, table 1; released configuration"
QWEN25 = "Qwen team 2024, Qwen2.5, arXiv 2412.15115; released configuration"
QWEN3 = "Qwen team 2025, Qwen3, arXiv 2505.09388, tables 1 and 2; released configuration"


def _window(c: Fields) -> int | None:
    """The window of a configuration counts only where it is switched on."""
    window = c.optional("sliding_window", low=0)
    c.ignore("layer_types", "max_window_layers")
    return window or None if c.flag("use_sliding_window", default=False) else None


def qwen(c: Fields, name: str) -> Model:
    """``model_type: qwen`` (the first): ``intermediate_size`` counts gate and up together."""
    half = max(1, c.integer("intermediate_size") // 2)
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, max_seq=c.integer("seq_length", default=2048), ffn_hidden=half)
    c.ignore(
        "no_bias", "kv_channels", "scale_attn_weights", "use_dynamic_ntk", "use_logn_attn", "use_flash_attn", "onnx_safe", "fp32", "fp16"
    )
    return build_transformer(t, name=name, family="qwen", layout=Layout(qkv_bias=True))


def qwen2(c: Fields, name: str) -> Model:
    """``model_type: qwen2``: the Llama shape with biases in q, k and v."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, window=_window(c))
    return decoder(c, t, name, "qwen", qkv_bias=True)


def qwen3(c: Fields, name: str) -> Model:
    """``model_type: qwen3``: norms on the heads of queries and keys, no biases."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, window=_window(c), head_dim=c.integer("head_dim", default=128))
    bias = c.flag("attention_bias", default=False)
    return decoder(c, t, name, "qwen", qkv_bias=bias, out_bias=bias, qk_norm="head")


def _sparse(c: Fields, t: Transformer) -> tuple[LayerKind, ...]:
    """Every ``decoder_sparse_step``-th layer has experts, but not those in ``mlp_only_layers``."""
    step = c.integer("decoder_sparse_step", default=1)
    dense = set(c.integers("mlp_only_layers") or ())
    sparse = sum(1 for layer in range(t.layers) if layer not in dense and (layer + 1) % step == 0)
    kinds = (
        LayerKind(name="dense layer", repeat=t.layers - sparse, window=t.window),
        LayerKind(name="expert layer", repeat=sparse, moe=True, window=t.window),
    )
    return tuple(kind for kind in kinds if kind.repeat)


def qwen2_moe(c: Fields, name: str) -> Model:
    """``model_type: qwen2_moe``: routed experts beside one shared expert with a gate of its own."""
    mixture = experts(c, default=60, per_token=4)
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, window=_window(c), moe_ffn_hidden=c.integer("moe_intermediate_size"), **mixture)
    shared = c.integer("shared_expert_intermediate_size", default=0, low=0)
    bias = c.flag("qkv_bias", default=True)
    return decoder(c, t, name, "qwen", qkv_bias=bias, kinds=_sparse(c, t), shared_ffn_hidden=shared, shared_gate=shared > 0)


def qwen3_moe(c: Fields, name: str) -> Model:
    """``model_type: qwen3_moe``: 128 routed experts, none shared."""
    mixture = experts(c, default=128, per_token=8)
    head_dim = c.optional("head_dim")
    t = sizes(
        c,
        gated=True,
        norm="rmsnorm",
        tied=False,
        window=_window(c),
        head_dim=head_dim,
        moe_ffn_hidden=c.integer("moe_intermediate_size"),
        **mixture,
    )
    bias = c.flag("attention_bias", default=False)
    return decoder(c, t, name, "qwen", qkv_bias=bias, out_bias=bias, qk_norm="head", kinds=_sparse(c, t))


def _entry(name: str, kind: str, source: str, sizes_: tuple[int, int, int, int, int, int, int], *aliases: str, **more: Any) -> Entry:
    layers, hidden, heads, kv_heads, ffn, vocab, length = sizes_
    config = {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "max_position_embeddings": length,
        **more,
    }
    return Entry(name=name, config=config, source=source, aliases=aliases)


_TIED = {"tie_word_embeddings": True}
_MOE3 = {"num_experts": 128, "num_experts_per_tok": 8, "head_dim": 128}

FAMILY = Family(
    name="qwen",
    title="Qwen",
    architectures={
        **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), qwen2),
        **dict.fromkeys(("qwen3", "qwen3_vl_text"), qwen3),
        "qwen": qwen,
        "qwen2_moe": qwen2_moe,
        "qwen3_moe": qwen3_moe,
    },
    entries=(
        _entry("qwen-7b", "qwen", QWEN1, (32, 4096, 32, 32, 22016, 151936, 8192)),
        _entry("qwen-14b", "qwen", QWEN1, (40, 5120, 40, 40, 27392, 152064, 8192)),
        _entry("qwen1.5-0.5b", "qwen2", QWEN1, (24, 1024, 16, 16, 2816, 151936, 32768), **_TIED),
        _entry("qwen1.5-7b", "qwen2", QWEN1, (32, 4096, 32, 32, 11008, 151936, 32768)),
        _entry("codeqwen1.5-7b", "qwen2", "released configuration of CodeQwen1.5-7B", (32, 4096, 32, 4, 13440, 92416, 65536)),
        _entry("qwen1.5-14b", "qwen2", QWEN1, (40, 5120, 40, 40, 13696, 152064, 32768)),
        _entry("qwen1.5-32b", "qwen2", QWEN1, (64, 5120, 40, 8, 27392, 152064, 32768)),
        _entry("qwen1.5-72b", "qwen2", QWEN1, (80, 8192, 64, 64, 24576, 152064, 32768)),
        _entry("qwen2-0.5b", "qwen2", QWEN2, (24, 896, 14, 2, 4864, 151936, 131072), **_TIED),
        _entry("qwen2-1.5b", "qwen2", QWEN2, (28, 1536, 12, 2, 8960, 151936, 131072), **_TIED),
        _entry("qwen2-7b", "qwen2", QWEN2, (28, 3584, 28, 4, 18944, 152064, 131072)),
        _entry("qwen2-72b", "qwen2", QWEN2, (80, 8192, 64, 8, 29568, 152064, 131072)),
        _entry("qwen2.5-0.5b", "qwen2", QWEN25, (24, 896, 14, 2, 4864, 151936, 32768), **_TIED),
        _entry("qwen2.5-1.5b", "qwen2", QWEN25, (28, 1536, 12, 2, 8960, 151936, 131072), **_TIED),
        _entry("qwen2.5-3b", "qwen2", QWEN25, (36, 2048, 16, 2, 11008, 151936, 32768), **_TIED),
        _entry("qwen2.5-7b", "qwen2", QWEN25, (28, 3584, 28, 4, 18944, 152064, 131072)),
        _entry("qwen2.5-14b", "qwen2", QWEN25, (48, 5120, 40, 8, 13824, 152064, 131072)),
        _entry("qwen2.5-32b", "qwen2", QWEN25, (64, 5120, 40, 8, 27648, 152064, 131072)),
        _entry("qwen2.5-72b", "qwen2", QWEN25, (80, 8192, 64, 8, 29568, 152064, 131072)),
        _entry("qwen3-0.6b", "qwen3", QWEN3, (28, 1024, 16, 8, 3072, 151936, 40960), head_dim=128, **_TIED),
        _entry("qwen3-1.7b", "qwen3", QWEN3, (28, 2048, 16, 8, 6144, 151936, 40960), head_dim=128, **_TIED),
        _entry("qwen3-4b", "qwen3", QWEN3, (36, 2560, 32, 8, 9728, 151936, 40960), head_dim=128, **_TIED),
        _entry("qwen3-8b", "qwen3", QWEN3, (36, 4096, 32, 8, 12288, 151936, 40960), head_dim=128),
        _entry("qwen3-14b", "qwen3", QWEN3, (40, 5120, 40, 8, 17408, 151936, 40960), head_dim=128),
        _entry("qwen3-32b", "qwen3", QWEN3, (64, 5120, 64, 8, 25600, 151936, 40960), head_dim=128),
        _entry(
            "qwen1.5-moe-a2.7b",
            "qwen2_moe",
            "released configuration of Qwen1.5-MoE-A2.7B",
            (24, 2048, 16, 16, 5632, 151936, 8192),
            num_experts=60,
            num_experts_per_tok=4,
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
        ),
        _entry(
            "qwen2-57b-a14b",
            "qwen2_moe",
            QWEN2,
            (28, 3584, 28, 4, 18944, 151936, 131072),
            num_experts=64,
            num_experts_per_tok=8,
            moe_intermediate_size=2560,
            shared_expert_intermediate_size=20480,
        ),
        _entry("qwen3-30b-a3b", "qwen3_moe", QWEN3, (48, 2048, 32, 4, 6144, 151936, 40960), moe_intermediate_size=768, **_MOE3),
        _entry("qwen3-235b-a22b", "qwen3_moe", QWEN3, (94, 4096, 64, 4, 12288, 151936, 40960), moe_intermediate_size=1536, **_MOE3),
    ),
)
