"""What the configurations of most transformers have in common."""

from __future__ import annotations

from typing import Any, Literal

from advisor.model.fields import Fields
from advisor.model.layout import Layout
from advisor.model.records import Model, Transformer
from advisor.model.transformer import build_transformer


def sizes(
    c: Fields,
    *,
    gated: bool,
    norm: Literal["layernorm", "rmsnorm"],
    tied: bool,
    learned: bool = False,
    max_seq: int | None = None,
    ffn_default: int | None = None,
    **changes: Any,
) -> Transformer:
    """Read the sizes every family has; ``changes`` are fields of Transformer that the family settles itself."""
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    kv_heads = c.integer("num_key_value_heads", default=heads, high=heads)
    if heads % kv_heads:
        raise c.fail(f"{heads} attention heads cannot share {kv_heads} key-value heads")
    head_dim = changes.pop("head_dim", None) or c.optional("head_dim")
    if head_dim is None:
        if hidden % heads:
            raise c.fail(f"hidden size {hidden} is not divisible by {heads} attention heads", "give 'head_dim'")
        head_dim = hidden // heads
    values: dict[str, Any] = {
        "layers": c.layers(),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "ffn_hidden": c.integer("intermediate_size", default=ffn_default),
        "vocab": c.integer("vocab_size"),
        "max_seq": c.integer("max_position_embeddings", default=max_seq),
        "gated_mlp": gated,
        "tied_embeddings": c.flag("tie_word_embeddings", default=tied),
        "learned_positions": learned,
        "norm": norm,
    }
    return Transformer(**(values | changes))


def experts(c: Fields, *, default: int = 1, per_token: int = 1) -> dict[str, Any]:
    """Read the sizes of a mixture of experts."""
    count = c.integer("num_local_experts", default=default)
    return {"experts": count, "experts_per_token": c.integer("num_experts_per_tok", default=min(per_token, count), high=count)}


def has_head(c: Fields, *, default: bool = True) -> bool:
    """Tell from ``architectures`` whether a decoder comes with its vocabulary head."""
    names = c.texts("architectures")
    return any(not name.endswith("Model") or name.endswith("LMHeadModel") for name in names) if names else default


def decoder(c: Fields, t: Transformer, name: str, family: str, **traits: Any) -> Model:
    """Build a decoder of these sizes; ``traits`` are fields of Layout. ``architectures`` says whether it has a vocabulary head."""
    return build_transformer(t, name=name, family=family, layout=Layout(lm_head=has_head(c), **traits))


def local_layers(c: Fields, layers: int, default: int) -> int:
    """Return how many layers see a window: as ``layer_types`` lists them, else ``default``."""
    named = c.texts("layer_types")
    if not named:
        return default
    if len(named) != layers:
        raise c.fail(f"'layer_types' names {len(named)} layers of {layers}")
    return sum(1 for name in named if name in ("sliding_attention", "chunked_attention", "local"))
