"""From sizes to blocks: the operators, exact parameters and kept activations of a transformer.

Parameters of a GPT-2-shaped model: ``L(12h^2 + 13h) + Vh + sh + 2h`` (Radford et al. 2019; checked against torch).
Kept activations follow Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4, which
gives ``sbh(34 + 5as/h)`` bytes a layer at 16 bits. Here, in elements per token, for hidden h, heads a, feed-forward f:

    not divided by tensor parallelism      norm inputs 2h, inputs of the two column products 2h                      4h (8 bytes)
    divided by tensor parallelism          q, k, v 3h, context 1h, activation input and output 2f = 8h              12h (24 bytes)
    dropout masks, one byte each           after attention and after the MLP                                         2h bytes
    attention scores (apart; see counts)   softmax output, dropout output: 2 a s, mask a s bytes: none with flash attention

8 + 24 + 2 = 34. Sequence parallelism divides the first and third row by the tensor-parallel degree as well. A gated MLP keeps
gate, up, activated gate and product: 4f in place of 2f (3f where a fused kernel recomputes the activated gate).
"""

from __future__ import annotations

from typing import Any, Literal

from advisor.model.blockbuilder import BlockBuilder
from advisor.model.layout import LayerKind, Layout
from advisor.model.records import Block, Kind, Model, Transformer


def attention_part(b: BlockBuilder, t: Transformer, layout: Layout, window: int | None, *, causal: bool) -> None:
    """Add self attention: projections (grouped or latent), scores, output projection."""
    out_bias = layout.biased(layout.out_bias, t)
    value_dim = t.value_head_dim or t.head_dim
    if t.kv_lora_rank:
        _latent_projections(b, t)
        kv_heads = t.heads
    else:
        _grouped_projections(b, t, layout)
        kv_heads = t.kv_heads
    b.weights(layout.attention_parameters, split="heads")
    b.attention(t.heads, kv_heads, t.head_dim, value_dim, causal=causal, window=window)
    b.gemm("attention.out", t.hidden, t.heads * value_dim, split="row", bias=out_bias)
    b.keep(t.heads * (t.head_dim + value_dim) + kv_heads * (t.head_dim + value_dim), split=True)


def _grouped_projections(b: BlockBuilder, t: Transformer, layout: Layout) -> None:
    bias = layout.biased(layout.qkv_bias, t)
    value_dim = t.value_head_dim or t.head_dim
    width = t.heads * t.head_dim + t.kv_heads * (t.head_dim + value_dim)
    b.gemm("attention.qkv", width, t.hidden, split="heads", bias=bias)
    if layout.qk_norm == "head":
        # One gain of a head's width for all heads: every rank holds it, the work is divided.
        b.weights((2 if layout.qk_norm_bias else 1) * 2 * t.head_dim)
    elif layout.qk_norm == "full":
        b.weights((2 if layout.qk_norm_bias else 1) * (t.heads + t.kv_heads) * t.head_dim, split="heads")
    if layout.qk_norm != "none":
        both = (t.heads + t.kv_heads) * t.head_dim
        b.elementwise("attention.qk_norm", both, both, split="heads")
        b.keep(both, split=True)
    _rotary(b, t, layout)


def _rotary(b: BlockBuilder, t: Transformer, layout: Layout) -> None:
    if (t.causal and not t.learned_positions) if layout.rotary is None else layout.rotary:
        both = (t.heads + t.kv_heads) * t.head_dim
        b.elementwise("attention.rotary", both, both, split="heads")


def _latent_projections(b: BlockBuilder, t: Transformer) -> None:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): low-rank queries, keys and values."""
    rank, rope, value_dim = t.kv_lora_rank or 0, t.rope_head_dim or 0, t.value_head_dim or t.head_dim
    if t.q_lora_rank:
        b.gemm("attention.q_down", t.q_lora_rank, t.hidden)
        b.norm("attention.q_norm", t.q_lora_rank, bias=False)
        b.gemm("attention.q_up", t.heads * t.head_dim, t.q_lora_rank, split="heads")
        b.keep(2 * t.q_lora_rank)
    else:
        b.gemm("attention.q", t.heads * t.head_dim, t.hidden, split="heads")
    b.gemm("attention.kv_down", rank + rope, t.hidden)
    b.norm("attention.kv_norm", rank, bias=False)
    b.gemm("attention.kv_up", t.heads * (t.head_dim - rope + value_dim), rank, split="heads")
    b.keep(2 * rank + rope)
    b.elementwise("attention.rotary", t.heads * rope + rope, t.heads * rope + rope, split="heads")


def mlp_part(b: BlockBuilder, hidden: int, ffn: int, *, gated: bool, bias: bool, name: str = "mlp") -> None:
    """Add a dense feed-forward network of width ``ffn``."""
    b.gemm(f"{name}.up", 2 * ffn if gated else ffn, hidden, split="column", bias=bias)
    b.elementwise(f"{name}.activation", 2 * ffn if gated else ffn, ffn, split="column")
    b.gemm(f"{name}.down", hidden, ffn, split="row", bias=bias)
    b.keep((4 if gated else 2) * ffn, split=True)


def experts_part(b: BlockBuilder, t: Transformer, layout: Layout) -> None:
    """Add a mixture of experts: router, the routed experts a token visits, and shared experts."""
    ffn, top = t.moe_ffn_hidden or t.ffn_hidden, t.experts_per_token
    wide = 2 * ffn if t.gated_mlp else ffn
    bias = layout.expert_bias
    b.gemm("moe.router", t.experts, t.hidden, bias=layout.router_bias)
    b.elementwise("moe.dispatch", top * t.hidden, top * t.hidden)
    b.gemm("moe.up", wide, t.hidden, split="experts", experts=t.experts, per_token=top, bias=bias)
    b.elementwise("moe.activation", top * wide, top * ffn, split="experts")
    b.gemm("moe.down", t.hidden, ffn, split="experts", experts=t.experts, per_token=top, bias=bias)
    b.elementwise("moe.combine", top * t.hidden, t.hidden)
    b.keep(t.experts + 2 * top * t.hidden)
    b.keep(top * (4 if t.gated_mlp else 2) * ffn, split=True)
    shared = layout.shared_ffn_hidden if layout.shared_ffn_hidden is not None else t.shared_experts * ffn
    if shared:
        mlp_part(b, t.hidden, shared, gated=t.gated_mlp, bias=bias, name="moe.shared")
    if layout.shared_gate:
        b.gemm("moe.shared_gate", 1, t.hidden)


def layer_block(
    t: Transformer, layout: Layout, kind: LayerKind, *, tokens: int | None = None, stack: Literal["main", "encoder"] = "main"
) -> Block:
    """Return one group of layers."""
    b = BlockBuilder(tokens)
    norm_bias = layout.biased(layout.norm_bias, t)
    if layout.layer_norms:
        b.norm("norm", t.hidden, bias=norm_bias, count=layout.layer_norms, affine=layout.norm_affine)
    b.keep(layout.layer_norms * t.hidden)
    attention_part(b, t, layout, kind.window, causal=t.causal)
    if kind.moe:
        experts_part(b, t, layout)
    else:
        mlp_part(b, t.hidden, t.ffn_hidden, gated=t.gated_mlp, bias=layout.biased(layout.mlp_bias, t))
    # One norm in front of attention and MLP together (parallel layers): both read the same input, and one sum closes the layer.
    parallel = layout.layer_norms < 2
    b.keep((1 if parallel else 2) * t.hidden)
    b.elementwise("residual", 3 * t.hidden if parallel else 2 * t.hidden, t.hidden, count=1 if parallel else 2)
    if layout.biased(layout.dropout, t):
        b.mask_bytes = 2.0 * t.hidden
    return b.build("layer", kind.name, kind.repeat, stack=stack)


def layer_kinds(t: Transformer) -> tuple[LayerKind, ...]:
    """Derive the groups of layers from the sizes: leading dense layers, then experts where there are any."""
    if t.experts > 1:
        kinds = (
            LayerKind(name="dense layer", repeat=t.dense_layers, window=t.window),
            LayerKind(name="expert layer", repeat=t.layers - t.dense_layers, moe=True, window=t.window),
        )
        return tuple(kind for kind in kinds if kind.repeat > 0)
    return (LayerKind(name="layer", repeat=t.layers, window=t.window),)


def embedding_block(t: Transformer, layout: Layout) -> Block:
    """Return the token, position and type tables and what follows them at once."""
    b = BlockBuilder()
    width = layout.embedding_size or t.hidden
    b.weights(t.vocab * width, split="vocab")
    b.elementwise("embedding", width, width, split="vocab")
    if t.learned_positions:
        place = t.hidden if layout.positions_at_hidden else width
        b.weights((layout.position_rows or t.max_seq) * place)
        b.elementwise("positions", 2 * place, place)
    b.weights(layout.token_types * width)
    if layout.embedding_norm:
        b.norm("embedding.norm", width, bias=layout.biased(layout.norm_bias, t))
        b.keep(width)
    if width != t.hidden:
        b.gemm("embedding.project", t.hidden, width, bias=layout.embedding_projection_bias)
        b.keep(width)
    if layout.biased(layout.dropout, t):
        b.mask_bytes = float(t.hidden)
    return b.build("embedding", "embedding")


def head_block(t: Transformer, layout: Layout) -> Block | None:
    """Return the last norm and the vocabulary product; logits themselves are not among the kept activations (see cost/memory)."""
    b = BlockBuilder()
    norm_bias = layout.biased(layout.norm_bias, t)
    width = layout.embedding_size or t.hidden
    if layout.final_norm:
        b.norm("final_norm", t.hidden, bias=norm_bias, affine=layout.norm_affine)
        b.keep(t.hidden)
    if layout.pooler:
        b.gemm("pooler", t.hidden, t.hidden, bias=True, tokens=1)
    if layout.mlm_transform:
        b.gemm("head.transform", width, t.hidden, bias=True)
        b.elementwise("head.activation", width, width)
        b.norm("head.norm", width, bias=True)
        b.keep(t.hidden + 2 * width)
    elif layout.lm_head and width != t.hidden:
        b.gemm("head.project", width, t.hidden, bias=False)
        b.keep(t.hidden)
    if layout.lm_head:
        b.gemm("logits", t.vocab, width, split="vocab", bias=layout.lm_head_bias, owns_weight=not t.tied_embeddings)
        b.keep(width)
    for name, n, k, tokens in layout.head_products:
        b.gemm(name, n, k, bias=True, tokens=tokens)
    return b.build("head", "head") if b.operators or b.parameters else None


def build_transformer(
    t: Transformer,
    *,
    name: str,
    family: str,
    kind: Kind = "decoder",
    layout: Layout | None = None,
    **fields: Any,
) -> Model:
    """Return the Model of one stack of layers between an embedding and a head.

    ``fields`` are further fields of Model (``aliases``, ``source``, ``fp16_safe``, ``ignored_fields`` …). Cheap (tens of
    microseconds): fit for every row of a table.
    """
    layout = layout or Layout()
    blocks: list[Block] = [embedding_block(t, layout)]
    blocks += [layer_block(t, layout, group) for group in layout.kinds or layer_kinds(t)]
    head = head_block(t, layout)
    if head is not None:
        blocks.append(head)
    return assemble(blocks, name=name, family=family, kind=kind, transformer=t, default_seq=t.max_seq, **fields)


def assemble(blocks: list[Block], *, name: str, family: str, kind: Kind, default_seq: int, **fields: Any) -> Model:
    """Return the Model of ``blocks`` with its parameters summed, and those one token touches where there are experts."""
    total = sum(block.parameters * block.repeat for block in blocks)
    transformer: Transformer | None = fields.get("transformer")
    active: int | None = None
    if transformer is not None and transformer.experts > 1:
        routed = sum(block.expert_parameters * block.repeat for block in blocks)
        active = total - routed + routed * transformer.experts_per_token // transformer.experts
    fields.setdefault("active_parameters", active)
    fields.setdefault("sample", "sequence")
    return Model(name=name, family=family, kind=kind, parameters=total, blocks=tuple(blocks), default_seq=default_seq, **fields)
