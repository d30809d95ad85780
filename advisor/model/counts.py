"""Exact counts over a Model: parameters, forward FLOPs, key-value bytes, attention scores.

A multiply-add is two FLOPs; only matrix products, attention and convolutions are counted, as torch's FlopCounterMode does.
"""

from __future__ import annotations

from collections.abc import Iterator

from advisor.model.records import Attention, Block, Conv, Gemm, Model, Operator


def operators(model: Model) -> Iterator[tuple[Block, Operator]]:
    """Yield every operator with its block (``block.repeat`` times each in one forward pass)."""
    for block in model.blocks:
        for operator in block.operators:
            yield block, operator


def parameters(model: Model) -> int:
    """Return the parameters, summed over the blocks; equal to ``model.parameters``."""
    return sum(block.parameters * block.repeat for block in model.blocks)


def block_tokens(block: Block, seq: int, source_seq: int) -> int:
    """Return the tokens one sample has in ``block``."""
    if block.tokens_per_sample is not None:
        return block.tokens_per_sample
    return source_seq if block.stack == "encoder" else seq


def gemm_flops(op: Gemm, tokens: int) -> int:
    """FLOPs of a Gemm over ``tokens`` tokens: 2 n k a token, for each expert visited."""
    return 2 * op.n * op.k * op.count * op.experts_per_token * tokens


def score_pairs(op: Attention, queries: int, keys: int, *, causal: bool) -> int:
    """Return the (query, key) pairs of one head: all of them, or with ``causal`` only those the mask and window let through."""
    if not causal or op.cross:
        return queries * keys
    window = min(op.window or keys, keys)
    if not op.causal:
        return queries * keys
    # Query i of the last ``queries`` positions sees min(position, window) keys.
    first = keys - queries + 1
    growing = max(0, min(window, keys) - first + 1)
    ramp = growing * (first + first + growing - 1) // 2
    return ramp + (queries - growing) * window


def attention_flops(op: Attention, queries: int, keys: int, *, causal: bool = False) -> int:
    """FLOPs of scores and context: 2 (head_dim + value_dim) for every pair and head."""
    return 2 * op.heads * (op.head_dim + op.value_dim) * op.count * score_pairs(op, queries, keys, causal=causal)


def conv_flops(op: Conv) -> int:
    """FLOPs of a convolution over one image: 2 per weight and output pixel."""
    width = op.kernel if op.kernel_w is None else op.kernel_w
    return 2 * op.count * op.out_h * op.out_w * op.out_channels * (op.in_channels // op.groups) * op.kernel * width


def operator_flops(block: Block, op: Operator, seq: int, source_seq: int, *, causal: bool = False) -> int:
    """FLOPs of one operator for one sample, forward."""
    tokens = block_tokens(block, seq, source_seq)
    if isinstance(op, Gemm):
        own = op.tokens_per_sample
        return gemm_flops(op, own if own is not None else source_seq if op.source else tokens)
    if isinstance(op, Attention):
        queries = op.tokens_per_sample if op.tokens_per_sample is not None else tokens
        keys = op.keys_per_sample if op.keys_per_sample is not None else source_seq if op.cross else queries
        return attention_flops(op, queries, keys, causal=causal)
    if isinstance(op, Conv):
        return conv_flops(op)
    return 0


def forward_flops(model: Model, seq: int | None = None, *, batch: int = 1, source_seq: int | None = None, causal: bool = False) -> int:
    """FLOPs of one forward pass over ``batch`` samples of ``seq`` tokens (default: the model's own length).

    With ``causal`` False (the default, and torch's convention) attention is counted over all pairs:
    ``2(12Lh^2 + Vh)s + 4Lhs^2`` for the GPT-2 shape. With True only the pairs a causal mask or a window leaves are counted.
    ``source_seq`` is the encoder's length of an encoder-decoder model (default: ``seq``).
    """
    length = model.default_seq if seq is None else seq
    source = length if source_seq is None else source_seq
    return batch * sum(block.repeat * operator_flops(block, op, length, source, causal=causal) for block, op in operators(model))


def flops_per_token(model: Model, seq: int | None = None) -> float:
    """Forward FLOPs a token (an image for models that count images) at length ``seq``, full attention."""
    length = model.default_seq if seq is None else seq
    total = forward_flops(model, length)
    return float(total) if model.sample == "image" else total / length


def kv_bytes_per_token(model: Model, bytes_per_element: float = 2.0) -> float:
    """Bytes of key-value cache a token takes over all decoder layers; 0 for models that keep none."""
    t = model.transformer
    if t is None or not t.causal:
        return 0.0
    return t.layers * t.kv_elements_per_token_layer * bytes_per_element


def score_elements_per_token(block: Block, keys: int) -> int:
    """Elements of one attention matrix a token has in one repeat of ``block``: heads x keys.

    Unfused attention keeps two such matrices and a dropout mask of one byte (``5 a s`` bytes a token at 16 bits); flash keeps none.
    """
    return sum(op.heads * op.count * (op.keys_per_sample or keys) for op in block.operators if isinstance(op, Attention))
