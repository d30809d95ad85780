"""Transformer-XL and the first translation Transformer: models of older benchmark suites."""

from __future__ import annotations

from itertools import pairwise

from advisor.model.blockbuilder import BlockBuilder
from advisor.model.encdec import Stacks, build_encoder_decoder
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import Layout
from advisor.model.records import Block, Model, Transformer
from advisor.model.transformer import assemble, mlp_part

XL = "Dai et al. 2019, Transformer-XL, arXiv 1901.02860, and NVIDIA DeepLearningExamples, LanguageModeling/Transformer-XL (wikitext-103)"
VASWANI = "Vaswani et al. 2017, Attention Is All You Need, arXiv 1706.03762, table 3; shared vocabulary of WMT14 English-German (fairseq)"

#: Where the clusters of the adaptive softmax of wikitext-103 end.
_CUTOFFS = (19997, 39997, 199997)


def transfo_xl(c: Fields, name: str) -> Model:
    """``model_type: transfo-xl``: attention over this segment and a memory of the last, with relative positions.

    A score is a content and a position product, so a head counts twice its width. The product of the positions themselves runs once
    a batch, and the tails of the adaptive softmax see few tokens: both are counted as parameters, not as work.
    """
    hidden, heads, layers = c.integer("hidden_size"), c.integer("num_attention_heads"), c.layers()
    head_dim = c.integer("d_head", default=max(1, hidden // heads))
    t = Transformer(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        ffn_hidden=c.integer("d_inner", "intermediate_size"),
        vocab=c.integer("vocab_size", default=267735, low=2),
        max_seq=c.integer("tgt_len", default=192),
    )
    memory = c.integer("mem_len", default=t.max_seq, low=0)
    c.ignore(
        "adaptive", "attn_type", "clamp_len", "eval_batch_size", "pre_lnorm", "proj_share_all_but_first", "same_length", "sample_softmax"
    )
    c.ignore("untie_r", "ext_len", "dropatt", "init", "init_range", "tie_weight", "tie_projs", "d_model")
    ends = c.integers("cutoffs", low=1) or _CUTOFFS
    edges = (0, *(end for end in ends if end < t.vocab), t.vocab)
    if any(right <= left for left, right in pairwise(edges)):
        raise c.fail("'cutoffs' must rise")
    divide = c.integer("div_val", default=1, high=1 << 10)
    embedding = _adaptive(t, edges, divide, c.integer("d_embed", default=hidden))
    blocks = [embedding, _xl_layer(t, memory), _adaptive_head(t, edges)]
    return assemble(blocks, name=name, family="translation", kind="decoder", transformer=t, default_seq=t.max_seq)


def _adaptive(t: Transformer, edges: tuple[int, ...], divide: int, width: int) -> Block:
    """Token table in clusters, each ``divide`` times narrower than the last, with projections to the layers' width."""
    b = BlockBuilder()
    for index, (left, right) in enumerate(pairwise(edges)):
        narrow = max(1, width // divide**index)
        b.weights((right - left) * narrow, split="vocab")
        if narrow != t.hidden:
            b.weights(narrow * t.hidden)
    b.elementwise("embedding", t.hidden, t.hidden, split="vocab")
    b.mask_bytes = float(t.hidden)
    return b.build("embedding", "adaptive embedding")


def _xl_layer(t: Transformer, memory: int) -> Block:
    h, inner, keys = t.hidden, t.heads * t.head_dim, t.max_seq + memory
    b = BlockBuilder()
    b.gemm("attention.qkv", 3 * inner, h, split="heads", tokens=keys)
    b.weights(inner * h, split="heads")  # the product of the positions
    b.weights(2 * inner, split="heads")  # biases of the content and the position score, of each layer (untied)
    b.attention(t.heads, t.heads, 2 * t.head_dim, t.head_dim, causal=True, keys=keys)
    b.gemm("attention.out", h, inner, split="row")
    b.norm("norm", h, bias=True, count=2)
    mlp_part(b, h, t.ffn_hidden, gated=False, bias=True)
    b.elementwise("residual", 2 * h, h, count=2)
    b.keep(4 * h)
    b.keep(inner * (2 + 2 * keys / t.max_seq), split=True)
    b.mask_bytes = 2.0 * h
    return b.build("layer", "layer", t.layers)


def _adaptive_head(t: Transformer, edges: tuple[int, ...]) -> Block:
    b = BlockBuilder()
    clusters = len(edges) - 2
    b.gemm("logits", edges[1] + clusters, t.hidden, split="vocab", owns_weight=False)
    b.weights(clusters * t.hidden + clusters + t.vocab)
    b.keep(t.hidden)
    return b.build("head", "adaptive softmax")


def translation(c: Fields, name: str) -> Model:
    """``family: wmt_transformer``: six encoder and six decoder layers, one token table for all, sinusoidal positions."""
    hidden, heads, layers = c.integer("hidden_size"), c.integer("num_attention_heads"), c.layers()
    if hidden % heads:
        raise c.fail(f"hidden size {hidden} is not divisible by {heads} attention heads")
    t = Transformer(
        layers=layers,
        encoder_layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn_hidden=c.integer("intermediate_size"),
        vocab=c.integer("vocab_size"),
        max_seq=c.integer("max_position_embeddings", default=256),
    )
    layout = Layout(rotary=False, final_norm=False)
    return build_encoder_decoder(t, name=name, family="translation", layout=layout, stacks=Stacks(cross_bias=(True, True, True, True)))


def _xl(name: str, layers: int, hidden: int, heads: int, inner: int, length: int, divide: int, *aliases: str) -> Entry:
    config = {
        "model_type": "transfo-xl",
        "n_layer": layers,
        "d_model": hidden,
        "n_head": heads,
        "d_head": 64,
        "d_inner": inner,
        "tgt_len": length,
        "mem_len": length,
        "div_val": divide,
    }
    return Entry(name=name, config=config, source=XL, aliases=aliases)


def _wmt(name: str, hidden: int, heads: int, *aliases: str) -> Entry:
    config = {
        "model_type": "wmt_transformer",
        "layers": 6,
        "hidden": hidden,
        "heads": heads,
        "ffn_hidden": 4 * hidden,
        "vocab": 33712,
        "max_seq": 256,
    }
    return Entry(name=name, config=config, source=VASWANI, aliases=aliases)


FAMILY = Family(
    name="translation",
    title="Transformer-XL and the translation Transformer",
    architectures={"transfo-xl": transfo_xl, "wmt_transformer": translation},
    entries=(
        _xl("transformer-xl-base", 16, 512, 8, 2048, 192, 1, "transformerxlbase", "transformer-xl"),
        _xl("transformer-xl-large", 18, 1024, 16, 4096, 384, 4, "transformerxllarge", "transfo-xl-wt103"),
        _wmt("transformer-base", 512, 8),
        _wmt("transformer-big", 1024, 16),
    ),
)
