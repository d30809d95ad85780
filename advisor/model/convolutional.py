"""Builds convolutional networks layer by layer, following the size of the picture.

Operators are gathered in stages (one Block each); equal convolutions of a stage are merged with a count. The whole image is the
model's one token, so element counts are per image. Kept activations, in elements: a batch norm keeps its input, an activation its
output (which is the next convolution's input), SiLU its input as well, a convolution without a norm its output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from advisor.errors import UsageError
from advisor.model.blockbuilder import BlockBuilder
from advisor.model.records import Block, Conv, Model, Operator
from advisor.model.transformer import assemble

#: Larger pictures are not refused by any network, but by every memory; this keeps nonsense out.
LARGEST_IMAGE = 1 << 16


@dataclass(frozen=True, slots=True)
class Map:
    """A feature map: channels, height, width."""

    channels: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        """Elements of the map, one image."""
        return self.channels * self.height * self.width


class ConvNet:
    """A network under construction. Every layer takes a Map and returns the Map it makes."""

    def __init__(self, resolution: int, channels: int = 3) -> None:
        if not 1 <= resolution <= LARGEST_IMAGE:
            raise UsageError(f"the resolution must be between 1 and {LARGEST_IMAGE}, not {resolution}", code="BAD-MODEL")
        self.resolution = resolution
        self.input = Map(channels, resolution, resolution)
        self.blocks: list[Block] = []
        self._stage = BlockBuilder()

    def conv(
        self,
        x: Map,
        out: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        groups: int = 1,
        norm: bool = True,
        act: str | None = "relu",
        bias: bool | None = None,
        padding: int | tuple[int, int] | None = None,
        kernel_w: int | None = None,
        name: str = "conv",
    ) -> Map:
        """Convolution, then batch norm and an activation where asked; padding is half of the kernel unless given."""
        wide = kernel if kernel_w is None else kernel_w
        pad = (kernel // 2, wide // 2) if padding is None else (padding, padding) if isinstance(padding, int) else padding
        y = Map(out, (x.height + 2 * pad[0] - kernel) // stride + 1, (x.width + 2 * pad[1] - wide) // stride + 1)
        if y.height < 1 or y.width < 1:
            raise UsageError(f"a picture of {self.resolution} pixels is too small for this network", code="BAD-MODEL")
        self._stage.conv(
            Conv(
                name=name,
                in_channels=x.channels,
                out_channels=out,
                kernel=kernel,
                stride=stride,
                groups=groups,
                out_h=y.height,
                out_w=y.width,
                bias=not norm if bias is None else bias,
                kernel_w=kernel_w,
            )
        )
        self._stage.keep(y.elements)
        if norm:
            self.batch_norm(y)
        if act is not None:
            self.activation(y, act)
            if norm:
                self._stage.keep(y.elements * (2 if act == "silu" else 1))
        return y

    def batch_norm(self, x: Map, *, kept: bool = False) -> None:
        """Batch norm: gain and shift a channel. Inference engines fold it into the convolution before it."""
        self._stage.weights(2 * x.channels)
        self._stage.elementwise("batch_norm", x.elements, x.elements)
        if kept:
            self._stage.keep(x.elements)

    def activation(self, x: Map, act: str) -> None:
        """An element-wise non-linearity."""
        self._stage.elementwise(act, x.elements, x.elements)

    def pool(self, x: Map, kernel: int, stride: int, padding: int = 0, *, ceil: bool = False, name: str = "pool") -> Map:
        """Max or average pooling; ``ceil`` rounds the size up."""
        extra = stride - 1 if ceil else 0
        y = Map(x.channels, (x.height + 2 * padding - kernel + extra) // stride + 1, (x.width + 2 * padding - kernel + extra) // stride + 1)
        if y.height < 1 or y.width < 1:
            raise UsageError(f"a picture of {self.resolution} pixels is too small for this network", code="BAD-MODEL")
        self._stage.elementwise(name, x.elements, y.elements)
        self._stage.keep(y.elements)
        return y

    def global_pool(self, x: Map) -> Map:
        """Average over the whole map."""
        self._stage.elementwise("global_pool", x.elements, x.channels)
        self._stage.keep(x.channels)
        return Map(x.channels, 1, 1)

    def add(self, x: Map, act: str | None = None) -> Map:
        """Residual sum, with an activation behind it where asked."""
        self._stage.elementwise("residual", 2 * x.elements, x.elements)
        if act is not None:
            self.activation(x, act)
            self._stage.keep(x.elements)
        return x

    def concat(self, *maps: Map) -> Map:
        """Concatenate channels."""
        y = Map(sum(m.channels for m in maps), maps[0].height, maps[0].width)
        self._stage.elementwise("concat", y.elements, y.elements)
        return y

    def upsample(self, x: Map) -> Map:
        """Nearest-neighbour doubling of the size."""
        y = Map(x.channels, 2 * x.height, 2 * x.width)
        self._stage.elementwise("upsample", x.elements, y.elements)
        return y

    def squeeze_excite(self, x: Map, squeezed: int, act: str = "silu") -> Map:
        """Scale the channels by a gate computed from their means (two 1 x 1 convolutions with biases)."""
        pooled = self.global_pool(x)
        inner = self.conv(pooled, squeezed, norm=False, act=act, name="se.reduce")
        self.conv(inner, x.channels, norm=False, act="sigmoid", name="se.expand")
        self._stage.elementwise("se.scale", x.elements + x.channels, x.elements)
        self._stage.keep(x.elements)
        return x

    def linear(self, features: int, out: int, name: str = "classes") -> int:
        """A dense layer on the flattened features."""
        self._stage.gemm(name, out, features, bias=True, tokens=1)
        self._stage.keep(features)
        return out

    def weights(self, count: int) -> None:
        """Count parameters that do no work of their own."""
        self._stage.weights(count)

    def stage(self, name: str) -> None:
        """Close the stage: what was added since the last one becomes a Block."""
        section = "head" if name == "head" else "layer"
        block = self._stage.build("head" if section == "head" else "layer", name)
        self.blocks.append(replace(block, operators=_merged(block.operators)))
        self._stage = BlockBuilder()

    def build(self, name: str, family: str, **fields: Any) -> Model:
        """Return the Model; one sample is one image, and one token."""
        return assemble(
            self.blocks,
            name=name,
            family=family,
            kind="convolutional",
            default_seq=1,
            sample="image",
            resolution=self.resolution,
            **fields,
        )


def _merged(operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """Merge equal operators into one with a count, in the order in which they first appear."""
    counts: dict[Operator, int] = {}
    for op in operators:
        single = replace(op, count=1)
        counts[single] = counts.get(single, 0) + op.count
    return tuple(replace(op, count=count) for op, count in counts.items())
