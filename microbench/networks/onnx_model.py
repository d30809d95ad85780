"""A described network as an ONNX graph, built node by node from the shared weights; dynamic int8 by onnxruntime's own quantizer."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from microbench.networks.weights import NORM_EPSILON, bottlenecks, rotary
from microbench.plugin import Kernel, Unsupported
from microbench.protocol import Case

OPSET, IR_VERSION = 20, 9
TYPES = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}


class Graph:
    """Nodes and initializers under construction; every method returns the name of its output."""

    def __init__(self, weights: Mapping[str, np.ndarray], kind: Any) -> None:
        self.weights, self.kind = weights, kind
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def weight(self, name: str) -> str:
        self.constants.setdefault(name, self.weights[name].astype(self.kind))
        return name

    def constant(self, value: Any, kind: Any = None) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype=kind or self.kind)
        return name

    def shape(self, *sizes: int) -> str:
        return self.constant(sizes, np.int64)

    def linear(self, name: str, x: str) -> str:
        y = self.node("MatMul", x, self.weight(f"{name}.w"))
        return self.node("Add", y, self.weight(f"{name}.b")) if f"{name}.b" in self.weights else y

    def norm(self, name: str, x: str) -> str:
        if f"{name}.bias" in self.weights:
            return self.node(
                "LayerNormalization", x, self.weight(f"{name}.scale"), self.weight(f"{name}.bias"), axis=-1, epsilon=NORM_EPSILON
            )
        square = self.node("ReduceMean", self.node("Mul", x, x), self.constant([-1], np.int64))
        root = self.node("Sqrt", self.node("Add", square, self.constant(NORM_EPSILON)))
        return self.node("Mul", self.node("Div", x, root), self.weight(f"{name}.scale"))

    def model(self, inputs: list[Any], output: str, shape: tuple[int, ...]) -> Any:
        value = helper.make_tensor_value_info(output, helper.np_dtype_to_tensor_dtype(np.dtype(self.kind)), shape)
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "network", inputs, [value], tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def transformer(net: Mapping[str, Any], g: Graph, batch: int, seq: int) -> str:
    """Add a transformer over the input ``token_ids``; return the name of its output."""
    x = g.node("Gather", g.weight("tokens"), "token_ids")
    tables = None
    if net["gated_mlp"]:
        tables = tuple(g.constant(table) for table in rotary(net, seq))
    else:
        g.constants["positions"] = g.weights["positions"][:seq].astype(g.kind)
        x = g.node("Add", x, "positions")
    mask = g.constant(np.triu(np.full((seq, seq), -10000.0), 1)) if net["causal"] else None
    before = net["kind"] == "decoder"
    if not before:
        x = g.norm("norm", x)
    for i in range(net["layers"]):
        name = f"layers.{i}"
        if before:
            x = g.node("Add", x, _attention(net, g, name, g.norm(f"{name}.norm1", x), batch, seq, tables, mask))
            x = g.node("Add", x, _mlp(net, g, name, g.norm(f"{name}.norm2", x)))
        else:
            x = g.norm(f"{name}.norm1", g.node("Add", x, _attention(net, g, name, x, batch, seq, tables, mask)))
            x = g.norm(f"{name}.norm2", g.node("Add", x, _mlp(net, g, name, x)))
    if before:
        x = g.norm("norm", x)
    if net["head"] == "lm":
        g.constants["head"] = np.ascontiguousarray(g.weights["tokens"].T.astype(g.kind))
        x = g.node("MatMul", x, "head")
    return x


def _attention(net: Mapping[str, Any], g: Graph, name: str, x: str, batch: int, seq: int, tables: Any, mask: str | None) -> str:
    heads, kv, size = net["heads"], net["kv_heads"], net["head_dim"]

    def split(letter: str, count: int) -> str:
        return g.node("Transpose", g.node("Reshape", g.linear(f"{name}.{letter}", x), g.shape(batch, seq, count, size)), perm=[0, 2, 1, 3])

    q, k, v = split("q", heads), split("k", kv), split("v", kv)
    if tables is not None:
        q, k = _rotate(g, q, size, tables), _rotate(g, k, size, tables)
    if kv != heads:
        wide, flat = g.shape(batch, kv, heads // kv, seq, size), g.shape(batch, heads, seq, size)
        axis = g.constant([2], np.int64)
        k, v = (g.node("Reshape", g.node("Expand", g.node("Unsqueeze", t, axis), wide), flat) for t in (k, v))
    scores = g.node("MatMul", g.node("Mul", q, g.constant(size**-0.5)), g.node("Transpose", k, perm=[0, 1, 3, 2]))
    if mask is not None:
        scores = g.node("Add", scores, mask)
    context = g.node("Transpose", g.node("MatMul", g.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return g.linear(f"{name}.o", g.node("Reshape", context, g.shape(batch, seq, heads * size)))


def _rotate(g: Graph, x: str, size: int, tables: tuple[str, str]) -> str:
    low, middle, high, axis = (g.constant([value], np.int64) for value in (0, size // 2, size, 3))
    turned = g.node("Concat", g.node("Neg", g.node("Slice", x, middle, high, axis)), g.node("Slice", x, low, middle, axis), axis=3)
    return g.node("Add", g.node("Mul", x, tables[0]), g.node("Mul", turned, tables[1]))


def _mlp(net: Mapping[str, Any], g: Graph, name: str, x: str) -> str:
    if net["gated_mlp"]:
        gate = g.linear(f"{name}.gate", x)
        return g.linear(f"{name}.down", g.node("Mul", g.node("Mul", gate, g.node("Sigmoid", gate)), g.linear(f"{name}.up", x)))
    return g.linear(f"{name}.down", g.node("Gelu", g.linear(f"{name}.up", x), approximate="tanh"))


def resnet(net: Mapping[str, Any], g: Graph) -> str:
    """Add a bottleneck ResNet over the input ``images``; return the name of its output."""

    def unit(name: str, x: str, stride: int, padding: int) -> str:
        y = g.node("Conv", x, g.weight(f"{name}.w"), strides=[stride] * 2, pads=[padding] * 4)
        parts = [g.weight(f"{name}.{part}") for part in ("scale", "bias", "mean", "var")]
        return g.node("BatchNormalization", y, *parts, epsilon=NORM_EPSILON)

    x = g.node("Relu", unit("stem", "images", 2, 3))
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, i, _, stride in bottlenecks(net):
        name = f"stages.{stage}.{i}"
        skip = unit(f"{name}.skip", x, stride, 0) if i == 0 else x
        y = g.node("Relu", unit(f"{name}.1", x, 1, 0))
        y = g.node("Relu", unit(f"{name}.2", y, stride, 1))
        x = g.node("Relu", g.node("Add", unit(f"{name}.3", y, 1, 0), skip))
    pooled = g.node("Flatten", g.node("GlobalAveragePool", x), axis=1)
    return g.linear("classifier", pooled)


def build(session: Any, case: Case, inputs: Mapping[str, Any]) -> Kernel:
    """Make the network ready: graph, optional dynamic quantization, session with inputs and output bound."""
    if case.params.get("mode") == "train":
        raise Unsupported("graphs are built for inference; there is no training step for them")
    session.execution = case.params.get("execution", "graph")
    if session.execution not in session.executions:
        raise Unsupported(f"an ONNX graph runs as {', '.join(session.executions)} here, not as {session.execution!r}")
    if case.dtype not in TYPES:
        raise Unsupported(f"no {case.dtype} kernels for MatMul and Conv behind an ONNX graph here")
    start = time.perf_counter()
    net, g = inputs["network"], Graph(inputs["weights"], TYPES[case.dtype])
    batch = int(case.params["batch"])
    if net["kind"] == "resnet":
        feed = {"images": inputs["images"].astype(g.kind)}
        output, shape = resnet(net, g), (batch, net["classes"])
    else:
        feed = {"token_ids": inputs["tokens"]}
        seq = inputs["tokens"].shape[1]
        output = transformer(net, g, batch, seq)
        shape = (batch, seq, net["vocab"] if net["head"] == "lm" else net["hidden"])
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in feed.items()]
    model = g.model(infos, output, shape)
    notes: dict[str, Any] = {}
    if case.params.get("quantization", "none") != "none":
        model, notes = _quantized(case, model)
    ready = session.session(model)
    return session.bound(ready, feed, shape, g.kind, **notes, prepare_s=time.perf_counter() - start)


def has_vnni() -> bool:
    """Tell whether the CPU multiplies 8-bit numbers without saturating sums of pairs: VNNI on x86; ARM's instructions do not saturate."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_vnni" in text or "avx_vnni" in text or "asimd" in text


def _quantized(case: Case, model: Any) -> tuple[Any, dict[str, Any]]:
    """Quantize weights to int8; to seven bits where the CPU has no VNNI, since its kernels would saturate there."""
    if case.params["quantization"] != "int8-dynamic" or case.dtype != "fp32":
        raise Unsupported("onnxruntime quantizes fp32 graphs to int8-dynamic")
    import logging

    from onnxruntime.quantization import QuantType, quantize_dynamic

    reduce_range = not has_vnni()
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "quantized.onnx"
        quantize_dynamic(
            model,
            target,
            op_types_to_quantize=["MatMul"],
            weight_type=QuantType.QInt8,
            reduce_range=reduce_range,
            extra_options={"EnableSubgraph": False},
        )
        return onnx.load(target), {"reduce_range": reduce_range}
