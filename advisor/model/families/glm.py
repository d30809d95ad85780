"""GLM-4 and ChatGLM: the Llama shape with biases in queries, keys and values."""

from __future__ import annotations

from advisor.model.families._decoder import decoder, sizes
from advisor.model.families._entry import RELEASED, row
from advisor.model.family import Family
from advisor.model.fields import Fields
from advisor.model.records import Model


def glm(c: Fields, name: str) -> Model:
    """``model_type: glm``: biases in q, k and v alone."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False)
    return decoder(c, t, name, "glm", qkv_bias=c.flag("attention_bias", default=True))


def glm4(c: Fields, name: str) -> Model:
    """``model_type: glm4``: as glm, with norms behind attention and MLP too."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False)
    return decoder(c, t, name, "glm", qkv_bias=c.flag("attention_bias", default=False), layer_norms=4)


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
    return decoder(c, t, name, "glm", qkv_bias=c.flag("add_qkv_bias", default=False))


FAMILY = Family(
    name="glm",
    title="GLM-4, ChatGLM",
    architectures={"glm": glm, "glm4": glm4, "chatglm": chatglm},
    entries=(
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
    ),
)
