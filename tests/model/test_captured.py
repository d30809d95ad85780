"""Torch modules and ONNX graphs, read in a child process."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest

from advisor.errors import AdvisorError
from advisor.model import counts
from advisor.model.records import Attention, Conv
from advisor.model.registry import model

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_ONNX = importlib.util.find_spec("onnx") is not None

MODULE = """
import torch
from torch import nn
from torch.nn import functional as F

print("a user's file may print")


class Block(nn.Module):
    def __init__(self, h, a):
        super().__init__()
        self.a, self.norm, self.qkv, self.out = a, nn.LayerNorm(h), nn.Linear(h, 3 * h), nn.Linear(h, h)

    def forward(self, x):
        b, t, h = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.a, h // self.a).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, h))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(500, 64)
        self.blocks = nn.ModuleList(Block(64, 4) for _ in range(3))
        self.head = nn.Linear(64, 500, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build_model():
    return Decoder()


def picture():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=8),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )


def raises():
    raise ValueError("no such luck")
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return path


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_a_decoder_is_captured_whole(module: Path) -> None:
    found = model(f"{module}:build_model")
    h, v, s, layers = 64, 500, 128, 3
    assert found.parameters == v * h + layers * (4 * h * h + 4 * h + 2 * h)
    assert counts.forward_flops(found) == 2 * s * (layers * 4 * h * h + v * h) + layers * 4 * h * s * s
    attention = [op for _, op in counts.operators(found) if isinstance(op, Attention)]
    assert [(op.heads, op.head_dim, op.causal, op.count) for op in attention] == [(4, 16, True, layers)]
    # The work follows the length: twice the tokens, twice the products and four times the pairs.
    assert counts.forward_flops(found, 2 * s) == 4 * s * (layers * 4 * h * h + v * h) + 4 * layers * 4 * h * s * s


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_a_convolutional_module_is_captured(module: Path) -> None:
    found = model(f"{module}:picture")
    assert found.kind == "convolutional"
    assert found.parameters == (3 * 8 * 9 + 8) + 16 + (16 * 9 + 16) + 170
    assert counts.forward_flops(found) == 2 * (224 * 224 * 8 * 27 + 112 * 112 * 16 * 9 + 160)
    assert sum(op.count for _, op in counts.operators(found) if isinstance(op, Conv)) == 2


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
@pytest.mark.parametrize(("function", "says"), [("raises", "no such luck"), ("not-a-name", "not the name")])
def test_a_wrong_module_is_one_line(module: Path, function: str, says: str) -> None:
    with pytest.raises(AdvisorError) as caught:
        model(f"{module}:{function}")
    assert says in caught.value.line()
    assert "\n" not in caught.value.line()


def _graph(path: Path, batch: object, length: object) -> None:
    import onnx
    from onnx import TensorProto, helper

    def weight(name: str, *dims: int) -> onnx.TensorProto:
        return helper.make_tensor(name, TensorProto.FLOAT, dims, bytes(4 * math.prod(dims)), raw=True)

    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["c"]),
        helper.make_node("Transpose", ["c"], ["ct"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["c", "ct"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, length, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight("w1", 16, 64), weight("w2", 64, 8)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


@pytest.mark.skipif(not HAS_ONNX, reason="onnx is not installed")
def test_an_onnx_graph_with_open_dimensions(tmp_path: Path) -> None:
    _graph(tmp_path / "mlp.onnx", "batch", "sequence")
    found = model(str(tmp_path / "mlp.onnx"))
    assert found.parameters == 16 * 64 + 64 * 8
    assert counts.forward_flops(found) == 2 * 128 * (16 * 64 + 64 * 8 + 8 * 128)
    assert found.source is not None
    assert "sequence = 128" in found.source


@pytest.mark.skipif(not HAS_ONNX, reason="onnx is not installed")
def test_an_onnx_convolution(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    weight = helper.make_tensor("w", TensorProto.FLOAT, (8, 1, 3, 3), bytes(4 * 72), raw=True)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=4, strides=[2, 2], pads=[1, 1, 1, 1])
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(tmp_path / "conv.onnx"))
    found = model(str(tmp_path / "conv.onnx"))
    assert found.parameters == 72
    assert found.resolution == 32
    assert counts.forward_flops(found) == 2 * 16 * 16 * 8 * 9


@pytest.mark.skipif(not HAS_ONNX, reason="onnx is not installed")
@pytest.mark.parametrize(("file", "name"), [("light_resnet50", "resnet-50"), ("light_vgg19", "vgg-19")])
def test_the_graphs_that_onnx_ships_count_like_our_own(file: str, name: str) -> None:
    import onnx.backend.test

    path = Path(onnx.backend.test.__file__).parent / "data" / "light" / f"{file}.onnx"
    if not path.is_file():
        pytest.skip("this onnx ships no graphs")
    found, ours = model(str(path)), model(name)
    assert found.parameters == ours.parameters
    assert counts.forward_flops(found) == counts.forward_flops(ours)


@pytest.mark.skipif(not HAS_ONNX, reason="onnx is not installed")
@pytest.mark.parametrize("content", [b"", b"not onnx", b"\x08\x07" * 50, bytes(1000)], ids=["empty", "text", "broken", "zeros"])
def test_a_wrong_graph_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(AdvisorError) as caught:
        model(str(path))
    assert "\n" not in caught.value.line()
