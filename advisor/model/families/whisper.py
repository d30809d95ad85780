"""Whisper: an audio encoder over 1,500 frames and a text decoder."""

from __future__ import annotations

from advisor.model.blockbuilder import BlockBuilder
from advisor.model.encdec import Stacks, build_encoder_decoder, positions_block
from advisor.model.families._encdec import bart_config, two_stacks
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import Layout
from advisor.model.records import Block, Model

WHISPER = "Radford et al. 2022, Whisper, arXiv 2212.04356, table 1; released configuration"


def whisper(c: Fields, name: str) -> Model:
    """``model_type: whisper``: biases everywhere but in keys; two convolutions in front of the encoder, its positions are fixed
    sinusoids that the framework counts as parameters."""
    both = two_stacks(c, length="max_target_positions", max_seq=448)
    t, frames = both.decoder, c.integer("max_source_positions", default=1500)
    stacks = Stacks(
        encoder_tokens=frames,
        encoder_ffn=both.encoder_ffn,
        encoder_heads=both.encoder_heads,
        cross_bias=(True, False, True, True),
        encoder_embedding=_audio(t.hidden, c.integer("num_mel_bins", default=80), frames),
        decoder_embedding=positions_block(t, rows=t.max_seq, stack="main", owns_tokens=True, norm=False),
    )
    c.ignore("max_length", "apply_spec_augment", "median_filter_width", "use_weighted_layer_sum")
    c.ignore(*(key for key in c.data if key.startswith("mask_")))
    # q and v have a bias, k has none.
    layout = Layout(qkv_bias=False, attention_parameters=2 * t.hidden)
    return build_encoder_decoder(t, name=name, family="whisper", layout=layout, stacks=stacks)


def _audio(hidden: int, bins: int, frames: int) -> Block:
    """Two convolutions of width 3 over time, the second with stride 2, written as products over their output frames."""
    b = BlockBuilder(frames)
    b.gemm("conv1", hidden, 3 * bins, bias=True, tokens=2 * frames)
    b.elementwise("conv1.activation", hidden, hidden, tokens=2 * frames)
    b.gemm("conv2", hidden, 3 * hidden, bias=True)
    b.elementwise("conv2.activation", hidden, hidden)
    b.weights(frames * hidden)
    b.keep(6 * hidden)
    return b.build("embedding", "audio embedding", stack="encoder")


def _entry(name: str, hidden: int, layers: int, heads: int, *aliases: str, bins: int = 80, vocab: int = 51865, decoder: int = 0) -> Entry:
    config = {**bart_config("whisper", hidden, layers, heads, vocab, decoder_layers=decoder), "num_mel_bins": bins}
    return Entry(name=name, config=config, source=WHISPER, aliases=aliases)


FAMILY = Family(
    name="whisper",
    title="Whisper",
    architectures={"whisper": whisper},
    entries=(
        _entry("whisper-tiny", 384, 4, 6),
        _entry("whisper-base", 512, 6, 8),
        _entry("whisper-small", 768, 12, 12),
        _entry("whisper-medium", 1024, 24, 16),
        _entry("whisper-large", 1280, 32, 20, "whisper-large-v2", "whisper"),
        _entry("whisper-large-v3", 1280, 32, 20, bins=128, vocab=51866),
        _entry("whisper-large-v3-turbo", 1280, 32, 20, "whisper-turbo", bins=128, vocab=51866, decoder=4),
    ),
)
