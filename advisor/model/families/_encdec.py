"""What configurations of encoder-decoder models after BART have in common (BART, Whisper)."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.model.fields import Fields
from advisor.model.records import Transformer


@dataclass(frozen=True, slots=True)
class TwoStacks:
    """The decoder's sizes, and where the encoder differs from it."""

    decoder: Transformer
    encoder_heads: int
    encoder_ffn: int


def two_stacks(c: Fields, *, length: str, max_seq: int) -> TwoStacks:
    """Read both stacks; ``length`` is the key of the decoder's greatest length and ``max_seq`` its default."""
    hidden = c.integer("hidden_size")
    heads = c.integer("decoder_attention_heads", "num_attention_heads")
    encoder_heads = c.integer("encoder_attention_heads", default=heads)
    for count in (heads, encoder_heads):
        if hidden % count:
            raise c.fail(f"hidden size {hidden} is not divisible by {count} attention heads")
    layers = c.layers("encoder_layers", "num_hidden_layers")
    t = Transformer(
        layers=c.layers("decoder_layers", default=layers),
        encoder_layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn_hidden=c.integer("decoder_ffn_dim", "intermediate_size"),
        vocab=c.integer("vocab_size"),
        max_seq=c.integer(length, default=max_seq),
        learned_positions=True,
        tied_embeddings=c.flag("tie_word_embeddings", default=True),
    )
    c.ignore("num_hidden_layers")
    return TwoStacks(t, encoder_heads, c.integer("encoder_ffn_dim", default=t.ffn_hidden))


def bart_config(kind: str, hidden: int, layers: int, heads: int, vocab: int, *, decoder_layers: int = 0) -> dict[str, int | str]:
    """Return a configuration with the keys of BART, feed-forward four times as wide as the model."""
    return {
        "model_type": kind,
        "d_model": hidden,
        "encoder_layers": layers,
        "decoder_layers": decoder_layers or layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * hidden,
        "decoder_ffn_dim": 4 * hidden,
        "vocab_size": vocab,
    }
