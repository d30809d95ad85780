"""Mamba: selective state spaces in place of attention; nothing grows with the sequence."""

from __future__ import annotations

from advisor.model.blockbuilder import BlockBuilder
from advisor.model.families._decoder import has_head
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model
from advisor.model.transformer import assemble

MAMBA = "Gu and Dao 2023, Mamba, arXiv 2312.00752, table 12; released configuration"

#: Mamba has no maximum length; the length its published models were trained at stands in.
TRAINED_AT = 2048


def mamba(c: Fields, name: str) -> Model:
    """``model_type: mamba``. The scan and the depthwise convolution are memory-bound work: no matrix products are counted."""
    hidden = c.integer("hidden_size")
    vocab = c.integer("vocab_size", default=50280)
    inner = c.integer("d_inner", default=c.integer("expand", default=2, high=64) * hidden)
    state = c.integer("state_size", default=16, high=1 << 16)
    width = c.integer("conv_kernel", default=4, high=1 << 10)
    rank = _rank(c, hidden)
    bias = c.flag("use_bias", default=False)
    conv_bias = c.flag("use_conv_bias", default=True)
    tied = c.flag("tie_word_embeddings", default=True)
    layers = c.layers()
    c.ignore("residual_in_fp32", "rescale_prenorm_residual", "use_mambapy", "d_model", "n_layer", "intermediate_size")
    c.ignore(*(key for key in c.data if key.startswith("time_step_")))
    b = BlockBuilder()
    b.norm("norm", hidden, bias=False)
    b.gemm("mixer.in", 2 * inner, hidden, split="column", bias=bias)
    b.weights(inner * width + (inner if conv_bias else 0), split="column")
    b.elementwise("mixer.conv", inner * width, inner, split="column")
    b.gemm("mixer.x", rank + 2 * state, inner)
    b.gemm("mixer.dt", inner, rank, split="column", bias=True)
    b.weights(inner * state + inner, split="column")
    b.elementwise("mixer.scan", 3 * inner + 2 * state, inner, split="column")
    b.elementwise("mixer.gate", 2 * inner, inner, split="column")
    b.gemm("mixer.out", hidden, inner, split="row", bias=bias)
    b.elementwise("residual", 2 * hidden, hidden)
    b.keep(2 * hidden + rank + 2 * state)
    b.keep(6 * inner, split=True)
    embedding = BlockBuilder()
    embedding.weights(vocab * hidden, split="vocab")
    embedding.elementwise("embedding", hidden, hidden, split="vocab")
    head = BlockBuilder()
    head.norm("final_norm", hidden, bias=False)
    head.keep(2 * hidden)
    if has_head(c):
        head.gemm("logits", vocab, hidden, split="vocab", owns_weight=not tied)
    blocks = [embedding.build("embedding", "embedding"), b.build("layer", "layer", layers), head.build("head", "head")]
    return assemble(blocks, name=name, family="mamba", kind="state-space", default_seq=TRAINED_AT)


def _rank(c: Fields, hidden: int) -> int:
    """Return the rank of the step sizes: ``auto`` is a sixteenth of the width, rounded up."""
    if c.data.get("time_step_rank") in (None, "auto"):
        return -(-hidden // 16)
    return c.integer("time_step_rank")


def _entry(size: str, hidden: int, layers: int) -> Entry:
    config = {"model_type": "mamba", "hidden_size": hidden, "num_hidden_layers": layers, "vocab_size": 50280, "state_size": 16}
    return Entry(name=f"mamba-{size}", config=config, source=MAMBA, aliases=(f"state-spaces/mamba-{size}-hf",))


FAMILY = Family(
    name="mamba",
    title="Mamba",
    architectures={"mamba": mamba},
    entries=(
        _entry("130m", 768, 24),
        _entry("370m", 1024, 48),
        _entry("790m", 1536, 48),
        _entry("1.4b", 2048, 48),
        _entry("2.8b", 2560, 64),
    ),
)
