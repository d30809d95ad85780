"""Encoder-decoder models (T5, BART, Whisper): two stacks and the cross attention between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from advisor.model.blockbuilder import BlockBuilder
from advisor.model.layout import Layout
from advisor.model.records import Block, Kind, Model, Transformer
from advisor.model.transformer import assemble, attention_part, mlp_part


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """What an encoder-decoder adds to Transformer and Layout.

    ``encoder_tokens`` fixes the encoder's length (audio frames); None: the source sequence. ``cross_bias`` counts the biases of
    the cross attention's products for q, k, v and output.
    """

    encoder_tokens: int | None = None
    encoder_ffn: int | None = None
    encoder_heads: int | None = None
    cross_bias: tuple[bool, bool, bool, bool] = (False, False, False, False)
    score_bias_parameters: int = 0
    """Parameters of relative-position biases, once for each stack."""
    encoder_embedding: Block | None = None
    decoder_embedding: Block | None = None


def _cross_part(b: BlockBuilder, t: Transformer, stacks: Stacks) -> None:
    """Add attention of the decoder's queries to the encoder's output; keys and values run over the source's tokens."""
    inner = t.heads * t.head_dim
    q, k, v, out = stacks.cross_bias
    b.gemm("cross.q", inner, t.hidden, split="heads", bias=q)
    tokens = stacks.encoder_tokens
    b.gemm("cross.k", inner, t.hidden, split="heads", bias=k, source=True, tokens=tokens)
    b.gemm("cross.v", inner, t.hidden, split="heads", bias=v, source=True, tokens=tokens)
    b.attention(t.heads, t.heads, t.head_dim, t.head_dim, causal=False, cross=True, keys=tokens)
    b.gemm("cross.out", t.hidden, inner, split="row", bias=out)
    b.keep(4 * inner, split=True)
    b.keep(t.hidden)


def _layer(t: Transformer, layout: Layout, stacks: Stacks, *, decoder: bool) -> Block:
    b = BlockBuilder(None if decoder else stacks.encoder_tokens)
    count = 3 if decoder else 2
    b.norm("norm", t.hidden, bias=layout.biased(layout.norm_bias, t), count=count)
    attention_part(b, t, layout, None, causal=decoder)
    if decoder:
        _cross_part(b, t, stacks)
    mlp_part(b, t.hidden, t.ffn_hidden, gated=t.gated_mlp, bias=layout.biased(layout.mlp_bias, t))
    b.keep((count + 2) * t.hidden)
    b.elementwise("residual", 2 * t.hidden, t.hidden, count=count)
    if layout.biased(layout.dropout, t):
        b.mask_bytes = float(count * t.hidden)
    if decoder:
        return b.build("layer", "decoder layer", t.layers)
    return b.build("layer", "encoder layer", t.encoder_layers, stack="encoder")


def _end(t: Transformer, layout: Layout, stacks: Stacks, *, norm: bool, stack: Literal["main", "encoder"]) -> Block | None:
    b = BlockBuilder(stacks.encoder_tokens if stack == "encoder" else None)
    if norm:
        b.norm("final_norm", t.hidden, bias=layout.biased(layout.norm_bias, t))
        b.keep(t.hidden)
    b.weights(stacks.score_bias_parameters)
    if stack == "main" and layout.lm_head:
        b.gemm("logits", t.vocab, t.hidden, split="vocab", bias=layout.lm_head_bias, owns_weight=not t.tied_embeddings)
        b.keep(t.hidden)
    if not b.operators and not b.parameters:
        return None
    return b.build("head", "head" if stack == "main" else "encoder end", stack=stack)


def build_encoder_decoder(
    t: Transformer,
    *,
    name: str,
    family: str,
    layout: Layout,
    stacks: Stacks,
    kind: Kind = "encoder-decoder",
    **fields: Any,
) -> Model:
    """Return the Model of an encoder-decoder; ``t.layers`` are the decoder's, ``t.encoder_layers`` the encoder's.

    The encoder's token table is the decoder's (tied), so the decoder's embedding holds the parameters of both.
    """
    encoder_t = replace(
        t,
        causal=False,
        ffn_hidden=stacks.encoder_ffn or t.ffn_hidden,
        heads=stacks.encoder_heads or t.heads,
        kv_heads=stacks.encoder_heads or t.heads,
        head_dim=t.head_dim * t.heads // (stacks.encoder_heads or t.heads),
    )
    parts = [
        stacks.encoder_embedding or _lookup(t, "encoder", owns=False),
        _layer(encoder_t, layout, stacks, decoder=False),
        _end(t, layout, stacks, norm=layout.final_norm, stack="encoder"),
        stacks.decoder_embedding or _lookup(t, "main", owns=True),
        _layer(t, layout, stacks, decoder=True),
        _end(t, layout, stacks, norm=layout.final_norm, stack="main"),
    ]
    blocks = [part for part in parts if part is not None]
    return assemble(blocks, name=name, family=family, kind=kind, transformer=t, default_seq=t.max_seq, **fields)


def _lookup(t: Transformer, stack: Literal["main", "encoder"], *, owns: bool) -> Block:
    b = BlockBuilder()
    if owns:
        b.weights(t.vocab * t.hidden, split="vocab")
    b.elementwise("embedding", t.hidden, t.hidden, split="vocab")
    return b.build("embedding", "embedding" if stack == "main" else "encoder embedding", stack=stack)


def positions_block(
    t: Transformer, *, rows: int, stack: Literal["main", "encoder"], owns_tokens: bool, norm: bool, tokens: bool = True
) -> Block:
    """Return an embedding with learned positions (BART, Whisper's decoder); ``tokens`` False: positions alone."""
    b = BlockBuilder()
    if owns_tokens:
        b.weights(t.vocab * t.hidden, split="vocab")
    if tokens:
        b.elementwise("embedding", t.hidden, t.hidden, split="vocab")
    b.weights(rows * t.hidden)
    b.elementwise("positions", 2 * t.hidden, t.hidden)
    if norm:
        b.norm("embedding.norm", t.hidden, bias=True)
        b.keep(t.hidden)
    return b.build("embedding", "embedding" if stack == "main" else "encoder embedding", stack=stack)
