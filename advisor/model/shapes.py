"""A model from the few sizes a published table gives."""

from __future__ import annotations

from advisor.errors import UsageError
from advisor.model.layout import Layout
from advisor.model.records import Model, Transformer
from advisor.model.transformer import build_transformer

#: Vocabulary of GPT-2 and GPT-3 (Radford et al. 2019), assumed where a table does not name one.
DEFAULT_VOCAB = 50257


def transformer_from_shape(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int | None = None,
    ffn_hidden: int | None = None,
    vocab: int | None = None,
    max_seq: int = 2048,
    *,
    head_dim: int | None = None,
    gated_mlp: bool | None = None,
    tied_embeddings: bool | None = None,
    causal: bool = True,
    experts: int = 1,
    experts_per_token: int = 1,
    moe_ffn_hidden: int | None = None,
    parameters: float | None = None,
    name: str | None = None,
) -> Model:
    """Return the model with these sizes.

    A feed-forward width of 4 x hidden (or none given) means the GPT shape: layernorm, biases, learned positions, tied tables.
    Any other width means the Llama shape: gated MLP, rmsnorm, rotary positions, no biases, tables apart. ``gated_mlp`` and
    ``tied_embeddings`` overrule that; what they leave open, ``parameters`` (a published count) settles: the nearest reading wins.
    UsageError for sizes that no model has.
    """
    for what, value in (("layers", layers), ("hidden", hidden), ("heads", heads), ("max_seq", max_seq)):
        if value < 1:
            raise UsageError(f"{what} must be at least 1, not {value}")
    kv_heads = kv_heads or heads
    if heads % kv_heads:
        raise UsageError(f"{heads} heads cannot share {kv_heads} key-value heads; give a divisor of {heads}")
    if head_dim is None and hidden % heads:
        raise UsageError(f"hidden {hidden} is not divisible by {heads} heads; give head_dim")
    ffn = ffn_hidden or 4 * hidden
    readings = (gated_mlp,) if gated_mlp is not None else (ffn != 4 * hidden, ffn == 4 * hidden)
    candidates: list[Model] = []
    for gated in readings:
        for tied in (tied_embeddings,) if tied_embeddings is not None else (not gated, gated):
            t = Transformer(
                layers=layers,
                hidden=hidden,
                heads=heads,
                kv_heads=kv_heads,
                head_dim=head_dim or hidden // heads,
                ffn_hidden=ffn,
                vocab=vocab or DEFAULT_VOCAB,
                max_seq=max_seq,
                gated_mlp=gated,
                causal=causal,
                tied_embeddings=tied,
                learned_positions=not gated,
                norm="rmsnorm" if gated else "layernorm",
                experts=experts,
                experts_per_token=experts_per_token,
                moe_ffn_hidden=moe_ffn_hidden,
            )
            label = name or f"{'llama' if gated else 'gpt'}-l{layers}-h{hidden}"
            if candidates and parameters is None:
                return candidates[0]
            candidates.append(
                build_transformer(
                    t,
                    name=label,
                    family="shape",
                    kind="decoder" if causal else "encoder",
                    layout=Layout(),
                    source="sizes given by the user",
                )
            )
    return candidates[0] if parameters is None else min(candidates, key=lambda m: abs(m.parameters / parameters - 1.0))
