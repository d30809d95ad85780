"""YOLOv8 detectors (n, s, m, l, x)."""

from __future__ import annotations

import math
from collections.abc import Callable

from advisor.model.convolutional import ConvNet, Map
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model

YOLO = "Jocher et al. 2023, Ultralytics YOLOv8, model description yolov8.yaml (80 classes, 640 pixels)"

#: Depth multiple, width multiple and largest number of channels of each size.
_SCALES = {
    "n": (0.33, 0.25, 1024),
    "s": (0.33, 0.50, 1024),
    "m": (0.67, 0.75, 768),
    "l": (1.00, 1.00, 512),
    "x": (1.00, 1.25, 512),
}
#: Bins of the distance distribution of each box side.
_BINS = 16


def _c2f(net: ConvNet, x: Map, out: int, repeat: int, *, shortcut: bool) -> Map:
    """Cross-stage block: half of the channels pass ``repeat`` bottlenecks, all intermediate maps are concatenated."""
    net.conv(x, out, act="silu")
    half = Map(out // 2, x.height, x.width)
    for _ in range(repeat):
        y = net.conv(half, half.channels, 3, act="silu")
        net.conv(y, half.channels, 3, act="silu")
        if shortcut:
            net.add(half)
    return net.conv(net.concat(*([half] * (repeat + 2))), out, act="silu")


def yolov8(c: Fields, name: str) -> Model:
    """``family: yolov8``: ``scale`` (n, s, m, l or x), ``image_size`` (a multiple of 32), ``num_labels``."""
    scale = c.text("scale", default="n")
    if scale not in _SCALES:
        raise c.fail(f"'scale' must be one of {', '.join(_SCALES)}, not {scale!r}")
    size = c.integer("image_size", default=640, low=32, high=1 << 14)
    if size % 32:
        raise c.fail(f"'image_size' must be a multiple of 32, not {size}")
    labels = c.integer("num_labels", default=80, high=1 << 16)
    deep, wide, most = _SCALES[scale]

    def width(channels: int) -> int:
        return math.ceil(min(channels, most) * wide / 8) * 8

    def depth(layers: int) -> int:
        return max(round(layers * deep), 1)

    net = ConvNet(size)
    x = net.conv(net.input, width(64), 3, 2, act="silu")
    maps: list[Map] = []
    for index, (channels, layers) in enumerate(((128, 3), (256, 6), (512, 6), (1024, 3))):
        x = net.conv(x, width(channels), 3, 2, act="silu")
        x = _c2f(net, x, width(channels), depth(layers), shortcut=True)
        maps.append(x)
        net.stage(f"backbone {index + 1}")
    x = _pyramid_pool(net, x)
    net.stage("pyramid pooling")
    features = _neck(net, maps[1], maps[2], x, width, depth(3))
    net.stage("neck")
    _detect(net, features, labels)
    net.stage("head")
    return net.build(name, "yolo")


def _pyramid_pool(net: ConvNet, x: Map) -> Map:
    """Three max pools in a row, all concatenated."""
    half = net.conv(x, x.channels // 2, act="silu")
    for _ in range(3):
        net.pool(half, 5, 1, 2, name="max_pool")
    return net.conv(net.concat(half, half, half, half), x.channels, act="silu")


def _neck(net: ConvNet, p3: Map, p4: Map, p5: Map, width: Callable[[int], int], repeat: int) -> list[Map]:
    """Top-down, then bottom-up: features of strides 8, 16 and 32."""
    a = _c2f(net, net.concat(net.upsample(p5), p4), width(512), repeat, shortcut=False)
    b = _c2f(net, net.concat(net.upsample(a), p3), width(256), repeat, shortcut=False)
    down = net.conv(b, width(256), 3, 2, act="silu")
    d = _c2f(net, net.concat(down, a), width(512), repeat, shortcut=False)
    down = net.conv(d, width(512), 3, 2, act="silu")
    e = _c2f(net, net.concat(down, p5), width(1024), repeat, shortcut=False)
    return [b, d, e]


def _detect(net: ConvNet, features: list[Map], labels: int) -> None:
    """Boxes (a distribution for each side) and classes at each of the three strides."""
    first = features[0].channels
    box, cls = max(16, first // 4, 4 * _BINS), max(first, min(labels, 100))
    for x in features:
        for inner, out in ((box, 4 * _BINS), (cls, labels)):
            y = net.conv(net.conv(x, inner, 3, act="silu"), inner, 3, act="silu")
            net.conv(y, out, norm=False, act=None)
    # The expectation over the bins: a 1 x 1 convolution with fixed weights, over four sides of every anchor.
    anchors = sum(x.height * x.width for x in features)
    net.conv(Map(_BINS, 4, anchors), 1, norm=False, act=None, bias=False, name="box_expectation")


FAMILY = Family(
    name="yolo",
    title="YOLOv8",
    architectures={"yolov8": yolov8},
    entries=tuple(
        Entry(
            name=f"yolov8{scale}",
            config={"model_type": "yolov8", "scale": scale},
            source=YOLO,
            aliases=(f"ultralytics/yolov8{scale}", f"yolo-v8{scale}"),
        )
        for scale in _SCALES
    ),
)
