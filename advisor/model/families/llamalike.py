"""Open decoders near the Llama shape: OLMo, Cohere, Granite, StarCoder, SmolLM, InternLM, Baichuan, GLM, Yi, MiniCPM, Nemotron."""

from __future__ import annotations

from dataclasses import replace

from advisor.model.families._decoder import has_head, local_layers, sizes
from advisor.model.families._entry import row
from advisor.model.family import Family
from advisor.model.fields import Fields
from advisor.model.layout import Layout
from advisor.model.records import Attention, Model
from advisor.model.transformer import build_transformer

RELEASED = "released configuration of "


def same_as_llama(c: Fields, name: str) -> Model:
    """Architectures that differ from Llama in scaling constants and tensor names alone (granite, internlm2, baichuan …)."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, max_seq=c.optional("model_max_length") or 2048)
    bias = c.flag("attention_bias", "bias", default=False)
    c.ignore("mlp_bias", "scale_emb", "scale_depth", "dim_model_base", "attn_implementation", "z_loss_weight")
    return build_transformer(t, name=name, family="llamalike", layout=Layout(qkv_bias=bias, out_bias=bias, lm_head=has_head(c)))


def granite(c: Fields, name: str) -> Model:
    """``model_type: granite``."""
    return same_as_llama(c, name)


def starcoder2(c: Fields, name: str) -> Model:
    """``model_type: starcoder2``: layernorm, biases, rotary positions, grouped queries."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, window=c.optional("sliding_window"))
    bias = c.flag("use_bias", default=True)
    c.ignore("norm_type")
    layout = Layout(qkv_bias=bias, out_bias=bias, mlp_bias=bias, lm_head=has_head(c))
    return build_transformer(t, name=name, family="llamalike", layout=layout)


def gpt_bigcode(c: Fields, name: str) -> Model:
    """``model_type: gpt_bigcode``: the GPT-2 shape with one key-value head."""
    t = sizes(c, gated=False, norm="layernorm", tied=True, learned=True, ffn_default=4 * c.integer("hidden_size"))
    if c.flag("multi_query", default=True):
        t = replace(t, kv_heads=1)
    c.ignore(
        "inference_runner", "max_batch_size", "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input"
    )
    return build_transformer(t, name=name, family="llamalike", layout=Layout(lm_head=has_head(c)))


def olmo(c: Fields, name: str) -> Model:
    """``model_type: olmo``: layernorm without parameters, no biases."""
    t = sizes(c, gated=True, norm="layernorm", tied=False)
    c.ignore("clip_qkv")
    bias = c.flag("attention_bias", default=False)
    layout = Layout(qkv_bias=bias, out_bias=bias, mlp_bias=False, norm_affine=False, dropout=False, lm_head=has_head(c))
    return build_transformer(t, name=name, family="llamalike", layout=layout)


def olmo2(c: Fields, name: str) -> Model:
    """``model_type: olmo2``: norms behind attention and MLP, and over all queries and keys."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False)
    bias = c.flag("attention_bias", default=False)
    return build_transformer(
        t, name=name, family="llamalike", layout=Layout(qkv_bias=bias, out_bias=bias, qk_norm="full", lm_head=has_head(c))
    )


def cohere(c: Fields, name: str) -> Model:
    """``model_type: cohere``: one layernorm without shift for attention and MLP, tied tables."""
    t = sizes(c, gated=True, norm="layernorm", tied=True)
    bias = c.flag("attention_bias", default=False)
    extra = (t.heads + t.kv_heads) * t.head_dim if c.flag("use_qk_norm", default=False) else 0
    layout = Layout(
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=False,
        norm_bias=False,
        layer_norms=1,
        attention_parameters=extra,
        dropout=False,
        lm_head=has_head(c),
    )
    return build_transformer(t, name=name, family="llamalike", layout=layout)


def glm(c: Fields, name: str) -> Model:
    """``model_type: glm``: biases in q, k and v alone."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False)
    return build_transformer(
        t, name=name, family="llamalike", layout=Layout(qkv_bias=c.flag("attention_bias", default=True), lm_head=has_head(c))
    )


def glm4(c: Fields, name: str) -> Model:
    """``model_type: glm4``: as glm, with norms behind attention and MLP too."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False)
    layout = Layout(qkv_bias=c.flag("attention_bias", default=False), layer_norms=4, lm_head=has_head(c))
    return build_transformer(t, name=name, family="llamalike", layout=layout)


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


def smollm3(c: Fields, name: str) -> Model:
    """``model_type: smollm3``: the Llama shape; some layers have no rotary positions."""
    c.ignore("no_rope_layers", "no_rope_layer_interval", "layer_types", "use_sliding_window", "sliding_window")
    return same_as_llama(c, name)


def chatglm(c: Fields, name: str) -> Model:
    """``model_type: chatglm`` (ChatGLM2 and 3, GLM-4-9B under its first name)."""
    groups = c.optional("multi_query_group_num") if c.flag("multi_query_attention", default=False) else None
    values = {**c.data}
    if groups:
        values["num_key_value_heads"] = groups
    inner = Fields(values, c.what)
    t = sizes(inner, gated=True, norm="rmsnorm", tied=False, head_dim=c.optional("kv_channels"))
    c.used |= inner.used
    c.ignore(
        "add_bias_linear", "bias_dropout_fusion", "fp32_residual_connection", "original_rope", "post_layer_norm", "rmsnorm", "rope_ratio"
    )
    c.ignore("apply_query_key_layer_scaling", "layernorm_epsilon", "pre_seq_len", "prefix_projection", "quantization_bit", "use_flash_attn")
    c.ignore("interleaved_qkv", "classifier_dropout", "multi_query_group_num")
    return build_transformer(t, name=name, family="llamalike", layout=Layout(qkv_bias=c.flag("add_qkv_bias", default=False)))


def nemotron(c: Fields, name: str) -> Model:
    """``model_type: nemotron``: layernorm, squared ReLU without a gate, no biases."""
    t = sizes(c, gated=False, norm="layernorm", tied=False)
    bias = c.flag("attention_bias", default=False)
    layout = Layout(qkv_bias=bias, out_bias=bias, mlp_bias=c.flag("mlp_bias", default=False), dropout=False, lm_head=has_head(c))
    return build_transformer(t, name=name, family="llamalike", layout=layout)


_LLAMA_SHAPED = dict.fromkeys(("internlm", "internlm2", "baichuan", "aquila", "minicpm", "Yi", "xverse", "orion", "exaone"), same_as_llama)

FAMILY = Family(
    name="llamalike",
    title="OLMo, Cohere, Granite, StarCoder, SmolLM, Yi, InternLM, Baichuan, GLM, Nemotron",
    architectures={
        **_LLAMA_SHAPED,
        "granite": granite,
        "starcoder2": starcoder2,
        "gpt_bigcode": gpt_bigcode,
        "olmo": olmo,
        "olmo2": olmo2,
        "cohere": cohere,
        "glm": glm,
        "glm4": glm4,
        "cohere2": cohere2,
        "smollm3": smollm3,
        "chatglm": chatglm,
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
        row("command-r-35b", "cohere", RELEASED + "Command R", (40, 8192, 64, 22528, 256000, 131072), "c4ai-command-r-v01", "command-r"),
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
            "chatglm3-6b",
            "chatglm",
            RELEASED + "ChatGLM3-6B",
            (28, 4096, 32, 13696, 65024, 8192),
            multi_query_attention=True,
            multi_query_group_num=2,
            kv_channels=128,
            add_qkv_bias=True,
        ),
        row(
            "glm-4-9b",
            "glm",
            RELEASED + "GLM-4-9B",
            (40, 4096, 32, 13696, 151552, 131072),
            "glm4-9b",
            "glm-4-9b-hf",
            num_key_value_heads=2,
            head_dim=128,
        ),
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
