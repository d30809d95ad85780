"""Llama 1, 2, 3, 3.1, 3.2 and 3.3, and models of their shape (rmsnorm, gated MLP, rotary positions, grouped queries)."""

from __future__ import annotations

from typing import Any

from advisor.model.families._decoder import decoder, sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model

LLAMA1 = "Touvron et al. 2023, LLaMA, arXiv 2302.13971, table 2; released configuration"
LLAMA2 = "Touvron et al. 2023, Llama 2, arXiv 2307.09288; released configuration"
LLAMA3 = "Grattafiori et al. 2024, The Llama 3 Herd of Models, arXiv 2407.21783, table 3; released configuration"


def llama(c: Fields, name: str) -> Model:
    """``model_type: llama``."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=False, max_seq=2048)
    attention = c.flag("attention_bias", "qkv_bias", default=False)
    return decoder(c, t, name, "llama", qkv_bias=attention, out_bias=attention, mlp_bias=c.flag("mlp_bias", default=False))


def _entry(name: str, source: str, sizes_: tuple[int, int, int, int, int, int, int], *aliases: str, **more: Any) -> Entry:
    layers, hidden, heads, kv_heads, ffn, vocab, length = sizes_
    config = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "max_position_embeddings": length,
        **more,
    }
    return Entry(name=name, config=config, source=source, aliases=aliases)


FAMILY = Family(
    name="llama",
    title="Llama",
    architectures={"llama": llama},
    entries=(
        _entry("llama-7b", LLAMA1, (32, 4096, 32, 32, 11008, 32000, 2048), "llama-1-7b"),
        _entry("llama-13b", LLAMA1, (40, 5120, 40, 40, 13824, 32000, 2048), "llama-1-13b"),
        _entry("llama-30b", LLAMA1, (60, 6656, 52, 52, 17920, 32000, 2048), "llama-1-30b", "llama-33b"),
        _entry("llama-65b", LLAMA1, (80, 8192, 64, 64, 22016, 32000, 2048), "llama-1-65b"),
        _entry("llama-2-7b", LLAMA2, (32, 4096, 32, 32, 11008, 32000, 4096)),
        _entry("llama-2-13b", LLAMA2, (40, 5120, 40, 40, 13824, 32000, 4096)),
        _entry("llama-2-34b", LLAMA2, (48, 8192, 64, 8, 22016, 32000, 4096)),
        _entry("llama-2-70b", LLAMA2, (80, 8192, 64, 8, 28672, 32000, 4096), "llama-70b"),
        _entry("llama-3-8b", LLAMA3, (32, 4096, 32, 8, 14336, 128256, 8192), "meta-llama-3-8b", "llama-8b"),
        _entry("llama-3-70b", LLAMA3, (80, 8192, 64, 8, 28672, 128256, 8192), "meta-llama-3-70b"),
        _entry("llama-3.1-8b", LLAMA3, (32, 4096, 32, 8, 14336, 128256, 131072), "meta-llama-3.1-8b"),
        _entry("llama-3.1-70b", LLAMA3, (80, 8192, 64, 8, 28672, 128256, 131072), "meta-llama-3.1-70b"),
        _entry("llama-3.1-405b", LLAMA3, (126, 16384, 128, 8, 53248, 128256, 131072), "meta-llama-3.1-405b", "llama-405b", "llama-3-405b"),
        _entry("llama-3.2-1b", LLAMA3, (16, 2048, 32, 8, 8192, 128256, 131072), tie_word_embeddings=True),
        _entry("llama-3.2-3b", LLAMA3, (28, 3072, 24, 8, 8192, 128256, 131072), head_dim=128, tie_word_embeddings=True),
        _entry("llama-3.3-70b", LLAMA3, (80, 8192, 64, 8, 28672, 128256, 131072)),
        _entry(
            "tinyllama-1.1b",
            "Zhang et al. 2024, TinyLlama, arXiv 2401.02385; released configuration",
            (22, 2048, 32, 4, 5632, 32000, 2048),
            "tinyllama-1.1b-chat-v1.0",
        ),
    ),
)
