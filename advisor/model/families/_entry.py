"""Rows of sizes as members of the zoo."""

from __future__ import annotations

from typing import Any

from advisor.model.family import Entry

#: How a member of the zoo names its source where that is the configuration released with the weights.
RELEASED = "released configuration of "


def row(name: str, kind: str, source: str, sizes: tuple[int, int, int, int, int, int], *aliases: str, **more: Any) -> Entry:
    """Return an Entry from (layers, hidden, heads, ffn, vocab, length) under the names most configurations use."""
    layers, hidden, heads, ffn, vocab, length = sizes
    config = {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "max_position_embeddings": length,
        **more,
    }
    return Entry(name=name, config=config, source=source, aliases=aliases)
