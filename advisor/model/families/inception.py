"""Inception v3."""

from __future__ import annotations

from advisor.model.convolutional import ConvNet, Map
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model

INCEPTION = "Szegedy et al. 2015, Rethinking the Inception Architecture, arXiv 1512.00567, table 1, as torchvision builds it"


def _wide(net: ConvNet, x: Map, out: int) -> Map:
    """1 x 7."""
    return net.conv(x, out, 1, kernel_w=7, padding=(0, 3))


def _tall(net: ConvNet, x: Map, out: int) -> Map:
    """7 x 1."""
    return net.conv(x, out, 7, kernel_w=1, padding=(3, 0))


def _a(net: ConvNet, x: Map, pooled: int) -> Map:
    one = net.conv(x, 64)
    five = net.conv(net.conv(x, 48), 64, 5)
    three = net.conv(net.conv(net.conv(x, 64), 96, 3), 96, 3)
    return net.concat(one, five, three, net.conv(net.pool(x, 3, 1, 1), pooled))


def _b(net: ConvNet, x: Map) -> Map:
    three = net.conv(x, 384, 3, 2, padding=0)
    double = net.conv(net.conv(net.conv(x, 64), 96, 3), 96, 3, 2, padding=0)
    return net.concat(three, double, net.pool(x, 3, 2))


def _c(net: ConvNet, x: Map, inner: int) -> Map:
    one = net.conv(x, 192)
    seven = _tall(net, _wide(net, net.conv(x, inner), inner), 192)
    double = _wide(net, _tall(net, _wide(net, _tall(net, net.conv(x, inner), inner), inner), inner), 192)
    return net.concat(one, seven, double, net.conv(net.pool(x, 3, 1, 1), 192))


def _d(net: ConvNet, x: Map) -> Map:
    three = net.conv(net.conv(x, 192), 320, 3, 2, padding=0)
    seven = net.conv(_tall(net, _wide(net, net.conv(x, 192), 192), 192), 192, 3, 2, padding=0)
    return net.concat(three, seven, net.pool(x, 3, 2))


def _pair(net: ConvNet, x: Map) -> Map:
    """1 x 3 and 3 x 1 side by side."""
    return net.concat(net.conv(x, 384, 1, kernel_w=3, padding=(0, 1)), net.conv(x, 384, 3, kernel_w=1, padding=(1, 0)))


def _e(net: ConvNet, x: Map) -> Map:
    one = net.conv(x, 320)
    three = _pair(net, net.conv(x, 384))
    double = _pair(net, net.conv(net.conv(x, 448), 384, 3))
    return net.concat(one, three, double, net.conv(net.pool(x, 3, 1, 1), 192))


def inception_v3(c: Fields, name: str) -> Model:
    """``family: inception_v3``: 299 pixels. The auxiliary classifier counts as parameters alone: inference does not run it."""
    labels = c.integer("num_labels", default=1000)
    net = ConvNet(c.integer("image_size", default=299, high=1 << 14))
    x = net.conv(net.conv(net.conv(net.input, 32, 3, 2, padding=0), 32, 3, padding=0), 64, 3)
    x = net.pool(x, 3, 2, name="max_pool")
    x = net.conv(net.conv(x, 80), 192, 3, padding=0)
    x = net.pool(x, 3, 2, name="max_pool")
    net.stage("stem")
    for pooled in (32, 64, 64):
        x = _a(net, x, pooled)
    x = _b(net, x)
    net.stage("35 x 35")
    for inner in (128, 160, 160, 192):
        x = _c(net, x, inner)
    # Auxiliary classifier on this map: 1 x 1 to 128, 5 x 5 to 768, both with batch norm, then the classes.
    net.weights(x.channels * 128 + 2 * 128 + 128 * 768 * 25 + 2 * 768 + 768 * labels + labels)
    x = _d(net, x)
    net.stage("17 x 17")
    x = _e(net, _e(net, x))
    net.stage("8 x 8")
    net.global_pool(x)
    net.linear(x.channels, labels)
    net.stage("head")
    return net.build(name, "inception")


FAMILY = Family(
    name="inception",
    title="Inception",
    architectures={"inception_v3": inception_v3},
    entries=(Entry(name="inception-v3", config={"model_type": "inception_v3"}, source=INCEPTION, aliases=("inception",)),),
)
