"""Model: a neural network described by its shapes, and the operators of one forward pass over it.

The cost model never sees a family's name: it walks ``Model.operators``. Shapes are per sample of the batch and unsharded;
``split`` says how tensor parallelism divides an operator. All counts are exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["decoder", "encoder", "encoder-decoder", "vision", "convolutional", "state-space"]
Split = Literal["column", "row", "heads", "vocab", "experts", "none"]
Section = Literal["embedding", "layer", "head"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """A dense matrix product: (tokens x k) by (k x n), ``count`` times in its section.

    ``tokens_per_sample`` overrides the sequence length (patches of an image, 1 for a pooler). ``experts`` > 1: n and k are of
    one expert, each token visits ``experts_per_token`` of them. ``has_weight`` is False for a product of two activations.
    """

    name: str
    n: int
    k: int
    count: int = 1
    split: Split = "none"
    bias: bool = False
    tokens_per_sample: int | None = None
    experts: int = 1
    experts_per_token: int = 1
    has_weight: bool = True
    source: bool = False
    """Runs over the encoder's tokens inside a decoder layer (keys and values of cross attention)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Softmax attention of one layer: score (query x keys) and context products; ``window`` limits the keys.

    ``tokens_per_sample`` fixes the number of queries and ``keys_per_sample`` that of keys where they do not follow the sequence
    length (an image's patches, the frames of an audio encoder).
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    causal: bool
    window: int | None = None
    count: int = 1
    cross: bool = False
    """Keys come from another sequence (encoder-decoder)."""
    tokens_per_sample: int | None = None
    keys_per_sample: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """Memory-bound work: ``reads`` + ``writes`` elements per token (norms, activations, residuals, rotary …).

    A convolutional model has one token, the image: there the counts are elements per image.
    """

    name: str
    reads_per_token: float
    writes_per_token: float
    count: int = 1
    split: Split = "none"
    tokens_per_sample: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv:
    """A convolution over one image: NCHW, square kernels; output height and width already resolved."""

    name: str
    in_channels: int
    out_channels: int
    kernel: int
    stride: int
    groups: int
    out_h: int
    out_w: int
    count: int = 1
    bias: bool = False
    kernel_w: int | None = None


Operator = Gemm | Attention | Elementwise | Conv


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """``repeat`` identical layers (or the one embedding, or the one head) and the operators of one of them."""

    section: Section
    name: str
    repeat: int
    operators: tuple[Operator, ...]
    parameters: int
    """Parameters of one repeat, tied weights counted once over the model."""
    activation_elements_per_token: float = 0.0
    """Elements kept for backward per token of one repeat without recomputation, attention scores apart (see cost/memory)."""
    activation_elements_split_per_token: float = 0.0
    """The part of ``activation_elements_per_token`` that tensor parallelism divides; sequence parallelism divides the rest too."""
    activation_mask_bytes_per_token: float = 0.0
    """Dropout masks at one byte an element, whatever the precision; divided by sequence parallelism only."""
    unsplit_parameters: int = 0
    """Of ``parameters``: those every tensor-parallel rank holds whole (norms, biases after a row split, routers, positions)."""
    expert_parameters: int = 0
    """Of ``parameters``: those of routed experts, which expert parallelism divides."""
    stack: Literal["main", "encoder"] = "main"
    """``encoder`` marks the source side of an encoder-decoder model; its tokens are the source sequence."""
    tokens_per_sample: int | None = None
    """Tokens a sample has in this block where that does not follow the sequence length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Sizes of a transformer, for legality rules, memory terms and launch files; absent for convolutional models."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_hidden: int
    vocab: int
    max_seq: int
    gated_mlp: bool = False
    causal: bool = True
    tied_embeddings: bool = True
    learned_positions: bool = False
    norm: Literal["layernorm", "rmsnorm"] = "layernorm"
    experts: int = 1
    experts_per_token: int = 1
    moe_ffn_hidden: int | None = None
    shared_experts: int = 0
    dense_layers: int = 0
    """Leading layers with a dense MLP in a mixture-of-experts model."""
    kv_lora_rank: int | None = None
    q_lora_rank: int | None = None
    rope_head_dim: int | None = None
    value_head_dim: int | None = None
    window: int | None = None
    encoder_layers: int = 0

    @property
    def kv_elements_per_token_layer(self) -> int:
        """Elements of the key-value cache per token and layer (the latent of MLA where there is one)."""
        if self.kv_lora_rank:
            return self.kv_lora_rank + (self.rope_head_dim or 0)
        return self.kv_heads * (self.head_dim + (self.value_head_dim or self.head_dim))


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A network: exact parameter count and the blocks of its forward pass.

    ``sample`` names what a batch counts (``sequence`` or ``image``). ``default_seq`` is the model's own maximum length, or the
    tokens an image becomes. ``resolution`` is set for vision models. ``fp16_safe`` is False for families whose activations
    overflow fp16 (t5 and the like).
    """

    name: str
    family: str
    kind: Kind
    parameters: int
    blocks: tuple[Block, ...]
    sample: Literal["sequence", "image"]
    default_seq: int
    transformer: Transformer | None = None
    resolution: int | None = None
    fp16_safe: bool = True
    active_parameters: int | None = None
    """Parameters one token touches (mixture of experts); None means all."""
    aliases: tuple[str, ...] = ()
    source: str | None = None
    ignored_fields: tuple[str, ...] = field(default=())
    """Keys of an imported file that were not understood: reported, never silently dropped."""
