"""T5, T5 1.1, Flan-T5, mT5 and BART: encoder-decoder models of text (T5 was trained in bf16 and overflows fp16)."""

from __future__ import annotations

from typing import Any

from advisor.model.encdec import Stacks, build_encoder_decoder, positions_block
from advisor.model.families._encdec import bart_config, two_stacks
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import Layout
from advisor.model.records import Model, Transformer

T5 = "Raffel et al. 2019, T5, arXiv 1910.10683, section 3.7; released configuration"
T511 = "Google 2020, T5 1.1 (released checkpoints of the T5 repository); Chung et al. 2022, Flan-T5, arXiv 2210.11416"
MT5 = "Xue et al. 2020, mT5, arXiv 2010.11934; released configuration"
BART = "Lewis et al. 2019, BART, arXiv 1910.13461; released configuration"


def t5(c: Fields, name: str) -> Model:
    """``model_type: t5`` and ``mt5``: no biases, relative positions as 32 biases a head in each stack's first layer."""
    layers = c.layers()
    heads = c.integer("num_attention_heads")
    hidden = c.integer("hidden_size")
    gated = c.flag("is_gated_act", default=False) or c.text("feed_forward_proj", default="relu").startswith("gated")
    head_dim = c.integer("d_kv", default=max(1, hidden // heads))
    c.ignore("dense_act_fn", "relative_attention_max_distance", "n_positions", "max_position_embeddings", "scale_decoder_outputs")
    t = Transformer(
        layers=c.layers("num_decoder_layers", default=layers),
        encoder_layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        ffn_hidden=c.integer("intermediate_size"),
        vocab=c.integer("vocab_size"),
        max_seq=c.integer("max_position_embeddings", default=512),
        gated_mlp=gated,
        norm="rmsnorm",
        tied_embeddings=c.flag("tie_word_embeddings", default=True),
    )
    buckets = c.integer("relative_attention_num_buckets", default=32)
    return build_encoder_decoder(
        t,
        name=name,
        family="t5",
        layout=Layout(rotary=False, dropout=True),
        stacks=Stacks(score_bias_parameters=buckets * heads),
        fp16_safe=False,
    )


def bart(c: Fields, name: str) -> Model:
    """``model_type: bart``: biases everywhere, learned positions with two more rows, a norm behind each embedding, no last norm."""
    both = two_stacks(c, length="max_position_embeddings", max_seq=1024)
    t = both.decoder
    rows = t.max_seq + 2
    stacks = Stacks(
        encoder_ffn=both.encoder_ffn,
        encoder_heads=both.encoder_heads,
        cross_bias=(True, True, True, True),
        encoder_embedding=positions_block(t, rows=rows, stack="encoder", owns_tokens=False, norm=True),
        decoder_embedding=positions_block(t, rows=rows, stack="main", owns_tokens=True, norm=True),
    )
    c.ignore("add_bias_logits", "add_final_layer_norm", "static_position_embeddings", "extra_pos_embeddings")
    return build_encoder_decoder(t, name=name, family="t5", layout=Layout(final_norm=False), stacks=stacks)


def _t5(name: str, hidden: int, ffn: int, d_kv: int, layers: int, heads: int, *aliases: str, kind: str = "t5") -> Entry:
    gated = kind != "t5"
    config: dict[str, Any] = {
        "model_type": "t5",
        "d_model": hidden,
        "d_ff": ffn,
        "d_kv": d_kv,
        "num_layers": layers,
        "num_decoder_layers": layers,
        "num_heads": heads,
        "vocab_size": 250112 if kind == "mt5" else 32128,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "tie_word_embeddings": not gated,
    }
    return Entry(name=name, config=config, source={"t5": T5, "t5-1.1": T511, "mt5": MT5}[kind], aliases=aliases)


def _bart(name: str, hidden: int, layers: int, heads: int, vocab: int, *aliases: str) -> Entry:
    config = {**bart_config("bart", hidden, layers, heads, vocab), "max_position_embeddings": 1024}
    return Entry(name=name, config=config, source=BART, aliases=aliases)


FAMILY = Family(
    name="t5",
    title="T5, Flan-T5, mT5 and BART",
    architectures={"t5": t5, "mt5": t5, "bart": bart},
    entries=(
        _t5("t5-small", 512, 2048, 64, 6, 8),
        _t5("t5-base", 768, 3072, 64, 12, 12, "t5"),
        _t5("t5-large", 1024, 4096, 64, 24, 16),
        _t5("t5-3b", 1024, 16384, 128, 24, 32),
        _t5("t5-11b", 1024, 65536, 128, 24, 128),
        _t5("flan-t5-small", 512, 1024, 64, 8, 6, "t5-v1_1-small", kind="t5-1.1"),
        _t5("flan-t5-base", 768, 2048, 64, 12, 12, "t5-v1_1-base", kind="t5-1.1"),
        _t5("flan-t5-large", 1024, 2816, 64, 24, 16, "t5-v1_1-large", kind="t5-1.1"),
        _t5("flan-t5-xl", 2048, 5120, 64, 24, 32, "t5-v1_1-xl", kind="t5-1.1"),
        _t5("flan-t5-xxl", 4096, 10240, 64, 24, 64, "t5-v1_1-xxl", kind="t5-1.1"),
        _t5("mt5-base", 768, 2048, 64, 12, 12, kind="mt5"),
        _bart("bart-base", 768, 6, 12, 50265, "bart"),
        _bart("bart-large", 1024, 12, 16, 50265),
    ),
)
