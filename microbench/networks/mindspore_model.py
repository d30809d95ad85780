"""A described network in MindSpore: its operators as one jitted graph, or eagerly."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import ops

from microbench.networks.layered import forward
from microbench.networks.weights import NORM_EPSILON
from microbench.plugin import Kernel, Unsupported
from microbench.protocol import Case

TYPES = {"fp64": ms.float64, "fp32": ms.float32, "fp16": ms.float16}


class MsOps:
    """MindSpore's operators; images are NCHW."""

    def __init__(self, weights: Mapping[str, Any], kind: Any) -> None:
        self.weights, self.kind = weights, kind
        self.layer_norm = ops.LayerNorm(begin_norm_axis=-1, begin_params_axis=-1, epsilon=NORM_EPSILON)

    def constant(self, array: Any) -> Any:
        return ms.Tensor(array, self.kind)

    def embed(self, tokens: Any) -> Any:
        return ops.gather(self.weights["tokens"], tokens, 0)

    def linear(self, name: str, x: Any) -> Any:
        w = self.weights[f"{name}.w"]
        y = ops.matmul(x.reshape(-1, w.shape[0]), w)
        y = ops.bias_add(y, self.weights[f"{name}.b"]) if f"{name}.b" in self.weights else y
        return y.reshape(*x.shape[:-1], w.shape[1])

    def norm(self, name: str, x: Any) -> Any:
        scale, bias = self.weights[f"{name}.scale"], self.weights.get(f"{name}.bias")
        if bias is None:
            wide = x if x.dtype == ms.float64 else x.astype(ms.float32)
            return (wide * ops.rsqrt((wide * wide).mean(-1, keep_dims=True) + NORM_EPSILON)).astype(x.dtype) * scale
        return self.layer_norm(x, scale, bias)[0]

    def split(self, x: Any, count: int, size: int) -> Any:
        return ops.transpose(x.reshape(x.shape[0], x.shape[1], count, size), (0, 2, 1, 3))

    def merge(self, x: Any) -> Any:
        return ops.transpose(x, (0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])

    def repeat(self, x: Any, times: int) -> Any:
        batch, heads, seq, size = x.shape
        return ops.broadcast_to(x.reshape(batch, heads, 1, seq, size), (batch, heads, times, seq, size)).reshape(batch, -1, seq, size)

    def rotate(self, x: Any, cos: Any, sin: Any) -> Any:
        half = x.shape[-1] // 2
        return x * cos + ops.cat((-x[..., half:], x[..., :half]), -1) * sin

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = ops.matmul(q * q.shape[-1] ** -0.5, ops.transpose(k, (0, 1, 3, 2)))
        if causal:
            query, keys = scores.shape[-2:]
            scores = scores + ms.Tensor(np.triu(np.full((query, keys), -10000.0), keys - query + 1), scores.dtype)
        return ops.matmul(ops.softmax(scores, -1), v)

    def gelu(self, x: Any) -> Any:
        return ops.gelu(x, approximate="tanh")

    def silu(self, x: Any) -> Any:
        return ops.silu(x)

    def head(self, x: Any) -> Any:
        return ops.matmul(x, ops.transpose(self.weights["tokens"], (1, 0)))

    def unit(self, name: str, x: Any, stride: int, padding: int, train: bool) -> Any:
        y = ops.conv2d(x, self.weights[f"{name}.w"], stride=stride, pad_mode="pad", padding=padding)
        scale, bias, mean, var = (self.weights[f"{name}.{part}"] for part in ("scale", "bias", "mean", "var"))
        return ops.batch_norm(y, mean, var, scale, bias, training=train, eps=NORM_EPSILON)

    def relu(self, x: Any) -> Any:
        return ops.relu(x)

    def max_pool(self, x: Any) -> Any:
        return ops.max_pool2d(x, 3, 2, 1)

    def mean_pool(self, x: Any) -> Any:
        return x.mean((2, 3))


def build(session: Any, case: Case, inputs: Mapping[str, Any]) -> Kernel:
    """Make the network ready: execution ``graph`` (ms.jit) or ``eager``."""
    execution = case.params.get("execution", "graph")
    if case.params.get("mode") == "train":
        raise Unsupported("the mindspore backend has no training step")
    if execution not in ("graph", "eager"):
        raise Unsupported(f"mindspore has no execution {execution!r}")
    if case.params.get("quantization", "none") != "none":
        raise Unsupported("mindspore has no dynamic int8 of its own")
    if case.dtype not in TYPES:
        raise Unsupported(f"mindspore has no {case.dtype} networks on a CPU here")
    start, kind = time.perf_counter(), TYPES[case.dtype]
    weights = {name: ms.Tensor(value, kind) for name, value in inputs["weights"].items()}
    ops_, net = MsOps(weights, kind), inputs["network"]
    x = ms.Tensor(inputs["images"], kind) if "images" in inputs else ms.Tensor(inputs["tokens"], ms.int32)

    def network(y: Any) -> Any:
        return forward(net, ops_, y)

    return session.kernel(network, x, capture="bytecode" if execution == "graph" else None, start=start)
