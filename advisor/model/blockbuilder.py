"""Collects the operators of one block and counts its parameters and kept activations as they are added."""

from __future__ import annotations

from typing import Literal

from advisor.model.records import Attention, Block, Conv, Elementwise, Gemm, Operator, Section, Split


class BlockBuilder:
    """Adds operators one by one; ``build`` returns the Block. Widths are elements per token (per image for convolutions)."""

    def __init__(self, tokens_per_sample: int | None = None) -> None:
        self.tokens = tokens_per_sample
        self.operators: list[Operator] = []
        self.parameters = 0
        self.unsplit_parameters = 0
        self.expert_parameters = 0
        self.kept = 0.0
        self.kept_split = 0.0
        self.mask_bytes = 0.0

    def weights(self, count: int, *, split: Split = "none") -> None:
        """Count ``count`` parameters that belong to no operator below (embedding tables, biases of attention scores)."""
        self.parameters += count
        if split == "none":
            self.unsplit_parameters += count

    def gemm(
        self,
        name: str,
        n: int,
        k: int,
        *,
        split: Split = "none",
        bias: bool = False,
        count: int = 1,
        experts: int = 1,
        per_token: int = 1,
        owns_weight: bool = True,
        tokens: int | None = None,
        source: bool = False,
    ) -> None:
        """Add ``count`` products with a weight of n x k; ``owns_weight`` is False where the weight is tied to another block's."""
        self.operators.append(
            Gemm(
                name=name,
                n=n,
                k=k,
                count=count,
                split=split,
                bias=bias,
                tokens_per_sample=self.tokens if tokens is None else tokens,
                experts=experts,
                experts_per_token=per_token,
                source=source,
            )
        )
        matrix = n * k * count * experts if owns_weight else 0
        vector = n * count * experts if bias else 0
        self.parameters += matrix + vector
        if split == "none":
            self.unsplit_parameters += matrix + vector
        elif split == "row":
            # Each rank adds its part of the sum; the bias is added once, by all.
            self.unsplit_parameters += vector
        elif split == "experts":
            self.expert_parameters += matrix + vector

    def norm(self, name: str, width: int, *, bias: bool, count: int = 1, split: Split = "none", affine: bool = True) -> None:
        """Add a normalisation over ``width`` elements: a gain, and a shift where ``bias``."""
        if affine:
            self.weights(count * width * (2 if bias else 1), split=split)
        self.elementwise(name, width, width, count=count, split=split)

    def elementwise(
        self, name: str, reads: float, writes: float, *, count: int = 1, split: Split = "none", tokens: int | None = None
    ) -> None:
        """Add memory-bound work."""
        self.operators.append(
            Elementwise(
                name=name,
                reads_per_token=reads,
                writes_per_token=writes,
                count=count,
                split=split,
                tokens_per_sample=self.tokens if tokens is None else tokens,
            )
        )

    def attention(
        self,
        heads: int,
        kv_heads: int,
        head_dim: int,
        value_dim: int,
        *,
        causal: bool,
        window: int | None = None,
        cross: bool = False,
        keys: int | None = None,
    ) -> None:
        """Add softmax attention."""
        self.operators.append(
            Attention(
                heads=heads,
                kv_heads=kv_heads,
                head_dim=head_dim,
                value_dim=value_dim,
                causal=causal,
                window=window,
                cross=cross,
                tokens_per_sample=self.tokens,
                keys_per_sample=keys if keys is not None else (None if cross else self.tokens),
            )
        )

    def conv(self, conv: Conv) -> None:
        """Add a convolution and its weights."""
        self.operators.append(conv)
        width = conv.kernel if conv.kernel_w is None else conv.kernel_w
        weight = conv.out_channels * (conv.in_channels // conv.groups) * conv.kernel * width
        self.weights(conv.count * (weight + (conv.out_channels if conv.bias else 0)))

    def keep(self, elements: float, *, split: bool = False) -> None:
        """Note ``elements`` per token that backward needs; ``split`` where tensor parallelism divides them."""
        self.kept += elements
        if split:
            self.kept_split += elements

    def build(self, section: Section, name: str, repeat: int = 1, *, stack: Literal["main", "encoder"] = "main") -> Block:
        """Return the block."""
        return Block(
            section=section,
            name=name,
            repeat=repeat,
            operators=tuple(self.operators),
            parameters=self.parameters,
            activation_elements_per_token=self.kept,
            activation_elements_split_per_token=self.kept_split,
            activation_mask_bytes_per_token=self.mask_bytes,
            unsplit_parameters=self.unsplit_parameters,
            expert_parameters=self.expert_parameters,
            stack=stack,
            tokens_per_sample=self.tokens,
        )
