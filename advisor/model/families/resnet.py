"""ResNet, ResNeXt, SE-ResNeXt and wide ResNet (the v1.5 form: the stride is on the 3 x 3 convolution)."""

from __future__ import annotations

from advisor.model.convolutional import ConvNet, Map
from advisor.model.family import Entry, Family
from advisor.model.fields import Fields
from advisor.model.records import Model

RESNET = "He et al. 2015, Deep Residual Learning, arXiv 1512.03385, table 1; stride on the 3x3 convolution (v1.5)"
RESNEXT = "Xie et al. 2016, ResNeXt, arXiv 1611.05431, table 1"
SENET = "Hu et al. 2017, Squeeze-and-Excitation Networks, arXiv 1709.01507, section 4 (reduction 16)"
WIDE = "Zagoruyko and Komodakis 2016, Wide Residual Networks, arXiv 1605.07146"


def resnet(c: Fields, name: str) -> Model:
    """``model_type: resnet``: ``depths``, ``hidden_sizes`` (channels out of each stage), ``layer_type`` (bottleneck or basic),
    ``groups``, ``width_per_group``, ``squeeze_excite``, ``image_size``, ``num_labels``."""
    depths = c.integers("depths", low=1, high=1000) or (3, 4, 6, 3)
    kind = c.text("layer_type", default="bottleneck")
    if kind not in ("bottleneck", "basic"):
        raise c.fail(f"'layer_type' must be bottleneck or basic, not {kind!r}")
    expansion = 4 if kind == "bottleneck" else 1
    outs = c.integers("hidden_sizes", low=expansion, high=1 << 20) or tuple(expansion * 64 * 2**stage for stage in range(len(depths)))
    if len(outs) != len(depths) or not 1 <= len(depths) <= 16:
        raise c.fail("'depths' and 'hidden_sizes' must have one number for each stage")
    if c.flag("downsample_in_first_stage", default=False) or c.flag("downsample_in_bottleneck", default=False):
        raise c.fail("strides in the first stage or on the 1x1 convolution are not described here", "capture the torch module instead")
    net = ConvNet(c.integer("image_size", default=224, high=1 << 16), c.integer("num_channels", default=3, high=1 << 16))
    c.ignore("out_features", "out_indices", "stage_names")
    groups = c.integer("groups", default=1, high=1 << 12)
    width = c.integer("width_per_group", default=64, high=1 << 12)
    gate = c.flag("squeeze_excite", default=False)
    x = net.conv(net.input, c.integer("embedding_size", default=64, high=1 << 16), 7, 2)
    x = net.pool(x, 3, 2, 1, name="max_pool")
    net.stage("stem")
    for index, depth in enumerate(depths):
        for block in range(depth):
            stride = 2 if index > 0 and block == 0 else 1
            if kind == "bottleneck":
                x = _bottleneck(net, x, outs[index] // 4, stride, groups, width, gate)
            else:
                x = _basic(net, x, outs[index], stride)
        net.stage(f"stage {index + 1}")
    net.global_pool(x)
    net.linear(x.channels, c.integer("num_labels", default=c.length("id2label") or 1000))
    net.stage("head")
    return net.build(name, "resnet")


def _shortcut(net: ConvNet, x: Map, out: int, stride: int) -> None:
    if stride != 1 or x.channels != out:
        net.conv(x, out, 1, stride, act=None, name="shortcut")


def _basic(net: ConvNet, x: Map, planes: int, stride: int) -> Map:
    _shortcut(net, x, planes, stride)
    y = net.conv(x, planes, 3, stride)
    return net.add(net.conv(y, planes, 3, act=None), "relu")


def _bottleneck(net: ConvNet, x: Map, planes: int, stride: int, groups: int, width: int, gate: bool) -> Map:
    inner = max(1, planes * width // 64) * groups
    _shortcut(net, x, 4 * planes, stride)
    y = net.conv(x, inner)
    y = net.conv(y, inner, 3, stride, groups=groups)
    y = net.conv(y, 4 * planes, act=None)
    if gate:
        y = net.squeeze_excite(y, max(1, 4 * planes // 16), act="relu")
    return net.add(y, "relu")


def _entry(name: str, depths: tuple[int, int, int, int], source: str, *aliases: str, **more: object) -> Entry:
    return Entry(name=name, config={"model_type": "resnet", "depths": list(depths), **more}, source=source, aliases=aliases)


_X = {"groups": 32, "width_per_group": 4}

FAMILY = Family(
    name="resnet",
    title="ResNet and its kin",
    architectures={"resnet": resnet},
    entries=(
        _entry("resnet-18", (2, 2, 2, 2), RESNET, "microsoft/resnet-18", layer_type="basic"),
        _entry("resnet-34", (3, 4, 6, 3), RESNET, "microsoft/resnet-34", layer_type="basic"),
        _entry("resnet-50", (3, 4, 6, 3), RESNET, "microsoft/resnet-50", "resnet50v1.5", "rn50v1.5", "resnet", "rn50"),
        _entry("resnet-101", (3, 4, 23, 3), RESNET, "microsoft/resnet-101"),
        _entry("resnet-152", (3, 8, 36, 3), RESNET, "microsoft/resnet-152"),
        _entry("resnext-50-32x4d", (3, 4, 6, 3), RESNEXT, **_X),
        _entry("resnext-101-32x4d", (3, 4, 23, 3), RESNEXT, **_X),
        _entry("resnext-101-32x8d", (3, 4, 23, 3), RESNEXT, groups=32, width_per_group=8),
        _entry("se-resnext-101-32x4d", (3, 4, 23, 3), SENET, "seresnext101-32x4d", squeeze_excite=True, **_X),
        _entry("wide-resnet-50-2", (3, 4, 6, 3), WIDE, width_per_group=128),
        _entry("wide-resnet-101-2", (3, 4, 23, 3), WIDE, width_per_group=128),
    ),
)
