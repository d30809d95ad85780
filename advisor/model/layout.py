"""What a family adds to a transformer's sizes: biases, norms, and what stands before and after its layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from advisor.model.records import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """``repeat`` layers that are alike: mixture of experts or dense, with or without a window."""

    name: str
    repeat: int
    moe: bool = False
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Details of a transformer. None follows the norm: layernorm families have biases and dropout, rmsnorm families have neither."""

    qkv_bias: bool | None = None
    out_bias: bool | None = None
    mlp_bias: bool | None = None
    norm_bias: bool | None = None
    norm_affine: bool = True
    layer_norms: int = 2
    final_norm: bool = True
    embedding_norm: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"
    """``head``: one gain over a head's width shared by all heads; ``full``: over all heads' width together."""
    qk_norm_bias: bool = False
    rotary: bool | None = None
    """None: there is a rotary embedding unless positions are learned."""
    dropout: bool | None = None
    kinds: tuple[LayerKind, ...] = ()
    """The groups of layers; empty: derived from ``dense_layers`` and ``window``."""
    position_rows: int | None = None
    """Rows of the learned position table (None: ``max_seq``)."""
    token_types: int = 0
    embedding_size: int | None = None
    """Width of the token table where it is not ``hidden`` (a projection follows)."""
    embedding_projection_bias: bool = True
    positions_at_hidden: bool = False
    """Positions are added after that projection, at the layers' width."""
    lm_head: bool = True
    lm_head_bias: bool = False
    mlm_transform: bool = False
    """A dense layer, activation and norm before the vocabulary (BERT's masked-language head)."""
    pooler: bool = False
    head_products: tuple[tuple[str, int, int, int | None], ...] = ()
    """Further dense layers of the head, with biases: name, outputs, inputs, and tokens a sample (None: all of them)."""
    attention_parameters: int = 0
    """Parameters of one layer's attention beyond its matrices (sinks, gates)."""
    shared_ffn_hidden: int | None = None
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False

    def biased(self, flag: bool | None, t: Transformer) -> bool:
        """Resolve a bias that follows the norm."""
        return t.norm == "layernorm" if flag is None else flag
