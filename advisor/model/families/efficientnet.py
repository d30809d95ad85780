"""EfficientNet, MobileNetV2, VGG and DenseNet."""

from __future__ import annotations

import math

from advisor.model.convolutional import ConvNet, Map
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model

EFFICIENT = "Tan and Le 2019, EfficientNet, arXiv 1905.11946, table 1 and section 5"
WIDESE = "NVIDIA DeepLearningExamples, PyTorch/Classification/ConvNets, EfficientNet-WideSE"
MOBILE = "Sandler et al. 2018, MobileNetV2, arXiv 1801.04381, table 2"
VGG = "Simonyan and Zisserman 2014, arXiv 1409.1556, table 1"
DENSE = "Huang et al. 2016, DenseNet, arXiv 1608.06993, table 1"

#: Expansion, kernel, stride, channels, layers of the seven stages of B0.
_B0 = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1))
_MOBILE = ((1, 1, 16, 1), (6, 2, 24, 2), (6, 2, 32, 3), (6, 2, 64, 4), (6, 1, 96, 3), (6, 2, 160, 3), (6, 1, 320, 1))


def _divisible(channels: float) -> int:
    """Round to a multiple of 8, never down by more than a tenth (both networks' rule)."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def _inverted(net: ConvNet, x: Map, out: int, kernel: int, stride: int, expand: int, act: str, *, squeeze: int | None) -> Map:
    """Inverted residual: widen, depthwise convolution, gate of width ``squeeze`` (None: no gate), narrow."""
    inner = _divisible(x.channels * expand)
    y = net.conv(x, inner, act=act) if expand != 1 else x
    y = net.conv(y, inner, kernel, stride, groups=inner, act=act, name="depthwise")
    if squeeze is not None:
        y = net.squeeze_excite(y, max(1, squeeze))
    y = net.conv(y, out, act=None)
    return net.add(y) if stride == 1 and x.channels == out else y


def efficientnet(c: Fields, name: str) -> Model:
    """``family: efficientnet``: ``width_coefficient``, ``depth_coefficient``, ``image_size``; ``wide_squeeze``: gates as wide as a
    quarter of the widened channels, not of the block's input (NVIDIA's widese)."""
    wide_gate = c.flag("wide_squeeze", default=False)
    wide, deep = c.number("width_coefficient", default=1.0), c.number("depth_coefficient", default=1.0)
    if wide > 64 or deep > 64:
        raise c.fail("the width and depth coefficients are at most 64")
    net = ConvNet(c.integer("image_size", default=224, high=1 << 16))
    x = net.conv(net.input, _divisible(32 * wide), 3, 2, act="silu")
    net.stage("stem")
    for index, (expand, kernel, stride, channels, layers) in enumerate(_B0):
        for layer in range(math.ceil(layers * deep)):
            base = _divisible(x.channels * expand) if wide_gate else x.channels
            first = stride if layer == 0 else 1
            x = _inverted(net, x, _divisible(channels * wide), kernel, first, expand, "silu", squeeze=base // 4)
        net.stage(f"stage {index + 1}")
    x = net.conv(x, 4 * x.channels, act="silu")
    net.global_pool(x)
    net.linear(x.channels, c.integer("num_labels", default=1000))
    net.stage("head")
    return net.build(name, "efficientnet")


def mobilenet_v2(c: Fields, name: str) -> Model:
    """``model_type: mobilenet_v2``."""
    net = ConvNet(c.integer("image_size", default=224, high=1 << 16))
    x = net.conv(net.input, 32, 3, 2, act="relu6")
    net.stage("stem")
    for index, (expand, stride, channels, layers) in enumerate(_MOBILE):
        for layer in range(layers):
            x = _inverted(net, x, channels, 3, stride if layer == 0 else 1, expand, "relu6", squeeze=None)
        net.stage(f"stage {index + 1}")
    x = net.conv(x, 1280, act="relu6")
    net.global_pool(x)
    net.linear(1280, c.integer("num_labels", default=1000))
    net.stage("head")
    return net.build(name, "efficientnet")


def vgg(c: Fields, name: str) -> Model:
    """``family: vgg``: ``depths`` are the convolutions of the five stages."""
    depths = c.integers("depths", low=1, high=100) or (2, 2, 3, 3, 3)
    if len(depths) != 5:
        raise c.fail("'depths' must be five numbers of convolutions")
    net = ConvNet(c.integer("image_size", default=224, high=1 << 16))
    x = net.input
    for index, (channels, depth) in enumerate(zip((64, 128, 256, 512, 512), depths, strict=True)):
        for _ in range(depth):
            x = net.conv(x, channels, 3, norm=False)
        x = net.pool(x, 2, 2, name="max_pool")
        net.stage(f"stage {index + 1}")
    net.linear(x.channels * 49, 4096, "dense1")
    net.linear(4096, 4096, "dense2")
    net.linear(4096, c.integer("num_labels", default=1000))
    net.stage("head")
    return net.build(name, "efficientnet")


def densenet(c: Fields, name: str) -> Model:
    """``family: densenet``: ``depths`` are the layers of the four dense blocks, ``growth_rate`` their width."""
    depths = c.integers("depths", low=1, high=200) or (6, 12, 24, 16)
    growth = c.integer("growth_rate", default=32, high=1024)
    net = ConvNet(c.integer("image_size", default=224, high=1 << 16))
    x = net.pool(net.conv(net.input, 64, 7, 2), 3, 2, 1, name="max_pool")
    net.stage("stem")
    for index, depth in enumerate(depths):
        for _ in range(depth):
            net.batch_norm(x, kept=True)
            net.activation(x, "relu")
            y = net.conv(x, 4 * growth)
            y = net.conv(y, growth, 3, norm=False, act=None, bias=False)
            x = net.concat(x, y)
        if index + 1 < len(depths):
            net.batch_norm(x, kept=True)
            net.activation(x, "relu")
            x = net.pool(net.conv(x, x.channels // 2, norm=False, act=None, bias=False), 2, 2, name="average_pool")
        net.stage(f"dense {index + 1}")
    net.batch_norm(x, kept=True)
    net.global_pool(x)
    net.linear(x.channels, c.integer("num_labels", default=1000))
    net.stage("head")
    return net.build(name, "efficientnet")


def _widese(name: str, wide: float, deep: float, size: int) -> Entry:
    config = {
        "model_type": "efficientnet",
        "width_coefficient": wide,
        "depth_coefficient": deep,
        "image_size": size,
        "wide_squeeze": True,
    }
    return Entry(name=f"efficientnet-widese-{name}", config=config, source=WIDESE)


def _efficient(name: str, wide: float, deep: float, size: int) -> Entry:
    config = {"model_type": "efficientnet", "width_coefficient": wide, "depth_coefficient": deep, "image_size": size}
    return Entry(name=f"efficientnet-{name}", config=config, source=EFFICIENT, aliases=(f"google/efficientnet-{name}",))


FAMILY = Family(
    name="efficientnet",
    title="EfficientNet, MobileNetV2, VGG, DenseNet",
    architectures={"efficientnet": efficientnet, "mobilenet_v2": mobilenet_v2, "vgg": vgg, "densenet": densenet},
    entries=(
        _efficient("b0", 1.0, 1.0, 224),
        _efficient("b1", 1.0, 1.1, 240),
        _efficient("b2", 1.1, 1.2, 260),
        _efficient("b3", 1.2, 1.4, 300),
        _efficient("b4", 1.4, 1.8, 380),
        _efficient("b5", 1.6, 2.2, 456),
        _efficient("b6", 1.8, 2.6, 528),
        _efficient("b7", 2.0, 3.1, 600),
        _widese("b0", 1.0, 1.0, 224),
        _widese("b4", 1.4, 1.8, 380),
        Entry(name="mobilenet-v2", config={"model_type": "mobilenet_v2"}, source=MOBILE, aliases=("mobilenet", "mobilenet_v2_1.0_224")),
        Entry(name="vgg-16", config={"model_type": "vgg"}, source=VGG),
        Entry(name="vgg-19", config={"model_type": "vgg", "depths": [2, 2, 4, 4, 4]}, source=VGG),
        Entry(name="densenet-121", config={"model_type": "densenet"}, source=DENSE),
        Entry(name="densenet-169", config={"model_type": "densenet", "depths": [6, 12, 32, 32]}, source=DENSE),
        Entry(name="densenet-201", config={"model_type": "densenet", "depths": [6, 12, 48, 32]}, source=DENSE),
    ),
)
