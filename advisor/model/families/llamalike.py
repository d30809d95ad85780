"""Open decoders near the Llama shape: OLMo, Granite, StarCoder, SmolLM, InternLM, Baichuan, Yi, MiniCPM, Nemotron."""

from __future__ import annotations

from dataclasses import replace

from advisor.model.families._decoder import decoder, sizes
from advisor.model.families._entry import RELEASED, row
from advisor.model.family import Family
from advisor.model.fields import Fields
from advisor.model.records import Model


def same_as_llama(c: Fields, name: str) -> Model:
    """Architectures that differ from Llama in scaling constants and tensor names alone (granite, internlm2, baichuan …)."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, max_seq=c.optional("model_max_length") or 2048)
    bias = c.flag("attention_bias", "bias", default=False)
    c.ignore("mlp_bias", "scale_emb", "scale_depth", "dim_model_base", "attn_implementation", "z_loss_weight")
    return decoder(c, t, name, "llamalike", qkv_bias=bias, out_bias=bias)


def granite(c: Fields, name: str) -> Model:
    """``model_type: granite``."""
    return same_as_llama(c, name)


def starcoder2(c: Fields, name: str) -> Model:
    """``model_type: starcoder2``: layernorm, biases, rotary positions, grouped queries."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, window=c.optional("sliding_window"))
    bias = c.flag("use_bias", default=True)
    c.ignore("norm_type")
    return decoder(c, t, name, "llamalike", qkv_bias=bias, out_bias=bias, mlp_bias=bias)


def gpt_bigcode(c: Fields, name: str) -> Model:
    """``model_type: gpt_bigcode``: the GPT-2 shape with one key-value head."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True, ffn_default=4 * c.integer("hidden_size"))
    if c.flag("multi_query", default=True):
        t = replace(t, kv_heads=1)
    c.ignore(
        "inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input"
    )
    return decoder(c, t, name, "llamalike")


def olmo(c: Fields, name: str) -> Model:
    """``model_type: olmo``: layernorm without parameters, no biases."""
    t = sizes(c, gated=True, norm="layernorm", tied=False)
    c.ignore("clip_qkv")
    bias = c.flag("attention_bias", default=False)
    return decoder(c, t, name, "llamalike", qkv_bias=bias, out_bias=bias, mlp_bias=False, norm_affine=False, dropout=False)


def olmo2(c: Fields, name: str) -> Model:
    """``model_type: olmo2``: norms behind attention and MLP, and over all queries and keys."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False)
    bias = c.flag("attention_bias", default=False)
    return decoder(c, t, name, "llamalike", qkv_bias=bias, out_bias=bias, qk_norm="full")


def smollm3(c: Fields, name: str) -> Model:
    """``model_type: smollm3``: the Llama shape; some layers have no rotary positions."""
    c.ignore("no_rope_layers", "no_rope_layer_interval", "layer_types", "use_sliding_window", "sliding_window")
    return same_as_llama(c, name)


def nemotron(c: Fields, name: str) -> Model:
    """``model_type: nemotron``: layernorm, squared ReLU without a gate, no biases."""
    t = sizes(c, gated=False, norm="layernorm", tied=False)
    bias = c.flag("attention_bias", default=False)
    return decoder(c, t, name, "llamalike", qkv_bias=bias, out_bias=bias, mlp_bias=c.flag("mlp_bias", default=False), dropout=False)


_LLAMA_SHAPED = dict.fromkeys(("internlm", "internlm2", "baichuan", "aquila", "minicpm", "Yi", "xverse", "orion", "exaone"), same_as_llama)

FAMILY = Family(
    name="llamalike",
    title="OLMo, Granite, StarCoder, SmolLM, Yi, InternLM, Baichuan, Nemotron",
    architectures={
        **_LLAMA_SHAPED,
        "granite": granite,
        "starcoder2": starcoder2,
        "gpt_bigcode": gpt_bigcode,
        "olmo": olmo,
        "olmo2": olmo2,
        "smollm3": smollm3,
        "nemotron": nemotron,
    },
    entries=(
        row("starcoder-15b", "gpt_bigcode", RELEASED + "StarCoder", (40, 6144, 48, 24576, 49152, 8192), "starcoder", multi_query=True),
        row(
            "starcoder2-3b",
            "starcoder2",
            RELEASED + "StarCoder2-3B",
            (30, 3072, 24, 12288, 49152, 16384),
            num_key_value_heads=2,
            sliding_window=4096,
        ),
        row(
            "starcoder2-7b",
            "starcoder2",
            RELEASED + "StarCoder2-7B",
            (32, 4608, 36, 18432, 49152, 16384),
            num_key_value_heads=4,
            sliding_window=4096,
        ),
        row(
            "starcoder2-15b",
            "starcoder2",
            RELEASED + "StarCoder2-15B",
            (40, 6144, 48, 24576, 49152, 16384),
            num_key_value_heads=4,
            sliding_window=4096,
            tie_word_embeddings=False,
        ),
        row("olmo-1b", "olmo", RELEASED + "OLMo-1B", (16, 2048, 16, 8192, 50304, 2048), "olmo-1b-hf", tie_word_embeddings=True),
        row("olmo-7b", "olmo", RELEASED + "OLMo-7B", (32, 4096, 32, 11008, 50304, 2048), "olmo-7b-hf"),
        row("olmo-2-7b", "olmo2", RELEASED + "OLMo-2-1124-7B", (32, 4096, 32, 11008, 100352, 4096), "olmo-2-1124-7b"),
        row("olmo-2-13b", "olmo2", RELEASED + "OLMo-2-1124-13B", (40, 5120, 40, 13824, 100352, 4096), "olmo-2-1124-13b"),
        row(
            "granite-3-8b",
            "granite",
            RELEASED + "granite-3.0-8b-base",
            (40, 4096, 32, 12800, 49155, 4096),
            "granite-3.0-8b-base",
            num_key_value_heads=8,
            tie_word_embeddings=True,
        ),
        row(
            "smollm2-135m",
            "llama",
            RELEASED + "SmolLM2-135M",
            (30, 576, 9, 1536, 49152, 8192),
            num_key_value_heads=3,
            tie_word_embeddings=True,
        ),
        row(
            "smollm2-360m",
            "llama",
            RELEASED + "SmolLM2-360M",
            (32, 960, 15, 2560, 49152, 8192),
            num_key_value_heads=5,
            tie_word_embeddings=True,
        ),
        row("smollm2-1.7b", "llama", RELEASED + "SmolLM2-1.7B", (24, 2048, 32, 8192, 49152, 8192), tie_word_embeddings=True),
        row("minicpm-2b", "minicpm", RELEASED + "MiniCPM-2B", (40, 2304, 36, 5760, 122753, 4096), tie_word_embeddings=True),
        row("yi-6b", "llama", RELEASED + "Yi-6B", (32, 4096, 32, 11008, 64000, 4096), num_key_value_heads=4),
        row("yi-34b", "llama", RELEASED + "Yi-34B", (60, 7168, 56, 20480, 64000, 4096), num_key_value_heads=8),
        row("internlm-7b", "internlm", RELEASED + "InternLM-7B", (32, 4096, 32, 11008, 103168, 2048), bias=True),
        row("internlm2-7b", "internlm2", RELEASED + "InternLM2-7B", (32, 4096, 32, 14336, 92544, 32768), num_key_value_heads=8),
        row("baichuan-7b", "baichuan", RELEASED + "Baichuan-7B", (32, 4096, 32, 11008, 64000, 4096)),
        row("baichuan-13b", "baichuan", RELEASED + "Baichuan-13B", (40, 5120, 40, 13696, 64000, 4096)),
        row("baichuan2-13b", "baichuan", RELEASED + "Baichuan2-13B", (40, 5120, 40, 13696, 125696, 4096)),
        row("aquila-7b", "llama", RELEASED + "Aquila-7B", (32, 4096, 32, 11008, 100008, 2048)),
        row("aquila2-7b", "llama", RELEASED + "Aquila2-7B", (32, 4096, 32, 11008, 100008, 2048)),
        row(
            "nemotron-4-15b",
            "nemotron",
            "Parmar et al. 2024, Nemotron-4 15B, arXiv 2402.16819, table 1",
            (32, 6144, 48, 24576, 256000, 4096),
            "nemotron-15b",
            num_key_value_heads=8,
        ),
        row(
            "nemotron-4-340b",
            "nemotron",
            "NVIDIA 2024, Nemotron-4 340B, arXiv 2406.11704, table 1",
            (96, 18432, 96, 73728, 256000, 4096),
            "nemotron-340b",
            num_key_value_heads=8,
        ),
    ),
)
