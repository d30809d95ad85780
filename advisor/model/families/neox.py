"""GPT-NeoX, Pythia, GPT-J, StableLM and MPT."""

from __future__ import annotations

from dataclasses import replace

from advisor.model.families._decoder import decoder, has_head, sizes
from advisor.model.families._entry import row
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model

NEOX = "Black et al. 2022, GPT-NeoX-20B, arXiv 2204.06745; released configuration"
PYTHIA = "Biderman et al. 2023, Pythia, arXiv 2304.01373, table 1; released configuration"
GPTJ = "Wang and Komatsuzaki 2021, GPT-J-6B; released configuration"
MPT = "MosaicML 2023, MPT-7B and MPT-30B; released configuration"
STABLE = "Stability AI 2023, StableLM-3B-4E1T; released configuration"


def gpt_neox(c: Fields, name: str) -> Model:
    """``model_type: gpt_neox``: attention and MLP side by side, each behind its own norm."""
    t = sizes(c, gated=False, norm="layernorm", tied=False)
    bias = c.flag("attention_bias", default=True)
    c.ignore("use_parallel_residual")
    return decoder(c, t, name, "neox", qkv_bias=bias, out_bias=bias)


def gptj(c: Fields, name: str) -> Model:
    """``model_type: gptj``: one norm for attention and MLP; biases in the MLP and the head alone."""
    t = sizes(c, gated=False, norm="layernorm", tied=False, max_seq=2048, ffn_default=4 * c.integer("hidden_size"))
    return decoder(c, t, name, "neox", qkv_bias=False, out_bias=False, layer_norms=1, lm_head_bias=has_head(c))


def stablelm(c: Fields, name: str) -> Model:
    """``model_type: stablelm``: the Llama shape with layernorm."""
    t = sizes(c, gated=True, norm="layernorm", tied=False)
    single = c.flag("use_parallel_residual", default=False)
    if c.flag("qk_layernorm", default=False):
        heads = (t.heads + t.kv_heads) * t.head_dim
    else:
        heads = 0
    return decoder(
        c,
        t,
        name,
        "neox",
        qkv_bias=c.flag("use_qkv_bias", default=False),
        out_bias=False,
        mlp_bias=False,
        layer_norms=1 if single else 2,
        attention_parameters=heads,
        dropout=False,
    )


def mpt(c: Fields, name: str) -> Model:
    """``model_type: mpt``: no biases anywhere, positions by a slope on the scores (ALiBi)."""
    attention = c.section("attn_config")
    if attention is not None:
        attention.ignore("alibi", "alibi_bias_max", "attn_impl", "attn_pdrop", "attn_type", "clip_qkv", "model_type", "prefix_lm", "qk_ln")
        attention.ignore("softmax_scale", "attn_uses_sequence_id")
    kv_heads = attention.optional("kv_n_heads") if attention is not None else None
    ratio = c.number("expansion_ratio", default=4.0)
    hidden = c.integer("hidden_size")
    c.ignore(
        "no_bias", "norm_type", "init_config", "init_device", "learned_pos_emb", "logit_scale", "verbose", "use_cache", "embedding_fraction"
    )
    c.ignore("tokenizer_name", "low_precision_layernorm", "param_init_fn")
    t = sizes(c, gated=False, norm="layernorm", tied=True, ffn_default=max(1, int(ratio * hidden)))
    if kv_heads:
        if t.heads % kv_heads:
            raise c.fail(f"{t.heads} attention heads cannot share {kv_heads} key-value heads")
        t = replace(t, kv_heads=kv_heads)
    return decoder(c, t, name, "neox", qkv_bias=False, out_bias=False, mlp_bias=False, norm_bias=False, rotary=False, dropout=False)


def _pythia(size: str, layers: int, hidden: int, heads: int, vocab: int) -> Entry:
    source = (layers, hidden, heads, 4 * hidden, vocab, 2048)
    return row(f"pythia-{size}", "gpt_neox", PYTHIA, source, f"EleutherAI/pythia-{size}-deduped", f"pythia-{size}-deduped")


def _mpt(size: str, layers: int, hidden: int, heads: int, length: int) -> Entry:
    config = {"model_type": "mpt", "n_layers": layers, "d_model": hidden, "n_heads": heads, "vocab_size": 50432, "max_seq_len": length}
    return Entry(name=f"mpt-{size}", config=config, source=MPT, aliases=(f"mosaicml/mpt-{size}",))


FAMILY = Family(
    name="neox",
    title="GPT-NeoX, Pythia, GPT-J, StableLM, MPT",
    architectures={"gpt_neox": gpt_neox, "gptj": gptj, "stablelm": stablelm, "mpt": mpt},
    entries=(
        _pythia("70m", 6, 512, 8, 50304),
        _pythia("160m", 12, 768, 12, 50304),
        _pythia("410m", 24, 1024, 16, 50304),
        _pythia("1b", 16, 2048, 8, 50304),
        _pythia("1.4b", 24, 2048, 16, 50304),
        _pythia("2.8b", 32, 2560, 32, 50304),
        _pythia("6.9b", 32, 4096, 32, 50432),
        _pythia("12b", 36, 5120, 40, 50688),
        row("gpt-neox-20b", "gpt_neox", NEOX, (44, 6144, 64, 24576, 50432, 2048), "gpt-20b", "EleutherAI/gpt-neox-20b"),
        row("gpt-j-6b", "gptj", GPTJ, (28, 4096, 16, 16384, 50400, 2048), "gptj-6b", "EleutherAI/gpt-j-6b", "gptj"),
        row("stablelm-3b", "stablelm", STABLE, (32, 2560, 32, 6912, 50304, 4096), "stablelm-3b-4e1t", num_key_value_heads=32),
        _mpt("7b", 32, 4096, 32, 2048),
        _mpt("30b", 48, 7168, 64, 8192),
    ),
)
