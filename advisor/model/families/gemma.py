"""Gemma 1, 2 and 3 (trained in bf16: their activations overflow fp16)."""

from __future__ import annotations

from typing import Any

from advisor.model.families._decoder import has_head, local_layers, sizes
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.layout import LayerKind, Layout
from advisor.model.records import Model, Transformer
from advisor.model.transformer import build_transformer

GEMMA1 = "Gemma team 2024, arXiv 2403.08295, table 1; released configuration"
GEMMA2 = "Gemma team 2024, Gemma 2, arXiv 2408.00118, table 1; released configuration"
GEMMA3 = "Gemma team 2025, Gemma 3, arXiv 2503.19786, table 1; released configuration"


def _kinds(c: Fields, t: Transformer, window: int, every: int) -> tuple[LayerKind, ...]:
    """Every ``every``-th layer sees all keys, the others a window, unless ``layer_types`` says otherwise."""
    local = local_layers(c, t.layers, t.layers - t.layers // every)
    kinds = (LayerKind(name="local layer", repeat=local, window=window), LayerKind(name="global layer", repeat=t.layers - local))
    return tuple(kind for kind in kinds if kind.repeat)


def _build(c: Fields, name: str, t: Transformer, layout: Layout) -> Model:
    c.ignore("attention_bias", "use_bidirectional_attention")
    return build_transformer(t, name=name, family="gemma", layout=layout, fp16_safe=False)


def gemma(c: Fields, name: str) -> Model:
    """``model_type: gemma``: tied tables, heads of 256."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=True, max_seq=8192, head_dim=c.integer("head_dim", default=256))
    return _build(c, name, t, Layout(lm_head=has_head(c)))


def gemma2(c: Fields, name: str) -> Model:
    """``model_type: gemma2``: norms before and after attention and MLP; every other layer has a window."""
    t = sizes(c, gated=True, norm="rmsnorm", tied=True, max_seq=8192, head_dim=c.integer("head_dim", default=256))
    kinds = _kinds(c, t, c.integer("sliding_window", default=4096), 2)
    return _build(c, name, t, Layout(layer_norms=4, kinds=kinds, lm_head=has_head(c)))


def gemma3_text(c: Fields, name: str) -> Model:
    """``model_type: gemma3_text``: norms on heads too; five layers with a window for each without."""
    # The released files of the larger models name only what differs from the 4b model.
    c.fill({"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4})
    t = sizes(c, gated=True, norm="rmsnorm", tied=True, max_seq=131072, head_dim=c.integer("head_dim", default=256))
    every = c.integer("sliding_window_pattern", "_sliding_window_pattern", default=6)
    kinds = _kinds(c, t, c.integer("sliding_window", default=4096), every)
    return _build(c, name, t, Layout(layer_norms=4, qk_norm="head", kinds=kinds, lm_head=has_head(c)))


def gemma3(c: Fields, name: str) -> Model:
    """``model_type: gemma3``: the language part; the vision part is reported as ignored."""
    inner = c.section("text_config")
    return gemma3_text(inner if inner is not None else c, name)


def _entry(name: str, kind: str, source: str, sizes_: tuple[int, int, int, int, int, int, int, int], *aliases: str, **more: Any) -> Entry:
    layers, hidden, heads, kv_heads, head_dim, ffn, vocab, length = sizes_
    config = {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "max_position_embeddings": length,
        **more,
    }
    return Entry(name=name, config=config, source=source, aliases=aliases)


FAMILY = Family(
    name="gemma",
    title="Gemma",
    architectures={"gemma": gemma, "gemma2": gemma2, "gemma3_text": gemma3_text, "gemma3": gemma3},
    entries=(
        _entry("gemma-2b", "gemma", GEMMA1, (18, 2048, 8, 1, 256, 16384, 256000, 8192)),
        _entry("gemma-7b", "gemma", GEMMA1, (28, 3072, 16, 16, 256, 24576, 256000, 8192)),
        _entry("gemma-2-2b", "gemma2", GEMMA2, (26, 2304, 8, 4, 256, 9216, 256000, 8192), sliding_window=4096),
        _entry("gemma-2-9b", "gemma2", GEMMA2, (42, 3584, 16, 8, 256, 14336, 256000, 8192), sliding_window=4096),
        _entry("gemma-2-27b", "gemma2", GEMMA2, (46, 4608, 32, 16, 128, 36864, 256000, 8192), sliding_window=4096),
        _entry("gemma-3-270m", "gemma3_text", GEMMA3, (18, 640, 4, 1, 256, 2048, 262144, 32768), sliding_window=512),
        _entry("gemma-3-1b", "gemma3_text", GEMMA3, (26, 1152, 4, 1, 256, 6912, 262144, 32768), sliding_window=512),
        _entry("gemma-3-4b", "gemma3_text", GEMMA3, (34, 2560, 8, 4, 256, 10240, 262208, 131072), sliding_window=1024),
        _entry("gemma-3-12b", "gemma3_text", GEMMA3, (48, 3840, 16, 8, 256, 15360, 262208, 131072), sliding_window=1024),
        _entry("gemma-3-27b", "gemma3_text", GEMMA3, (62, 5376, 32, 16, 128, 21504, 262208, 131072), sliding_window=1024),
    ),
)
