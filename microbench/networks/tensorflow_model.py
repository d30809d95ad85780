"""A described network in TensorFlow: tf.function with or without XLA, one training step; also the function LiteRT converts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from microbench.networks.layered import forward
from microbench.networks.weights import NORM_EPSILON
from microbench.plugin import Kernel, Unsupported
from microbench.protocol import Case

TYPES = {"fp64": tf.float64, "fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}
LEARNING_RATE = 1e-4
#: A graph is one protocol buffer of at most 2 GiB; half of it leaves room for copies that are folded.
LARGEST_GRAPH = 1 << 30


class TfOps:
    """TensorFlow's layers; images are NHWC and convolutions HWIO, which is what its CPU kernels take."""

    def __init__(self, weights: Mapping[str, Any], kind: Any) -> None:
        self.weights, self.kind = weights, kind

    def constant(self, array: Any) -> Any:
        return tf.constant(array, self.kind)

    def embed(self, tokens: Any) -> Any:
        return tf.gather(self.weights["tokens"], tokens)

    def linear(self, name: str, x: Any) -> Any:
        w = self.weights[f"{name}.w"]
        # One product over all rows: a batched one would be split by sample.
        y = tf.matmul(tf.reshape(x, [-1, w.shape[0]]), w)
        y = tf.nn.bias_add(y, self.weights[f"{name}.b"]) if f"{name}.b" in self.weights else y
        return tf.reshape(y, [*x.shape[:-1], w.shape[1]])

    def norm(self, name: str, x: Any) -> Any:
        scale, bias = self.weights[f"{name}.scale"], self.weights.get(f"{name}.bias")
        wide = x if x.dtype in (tf.float32, tf.float64) else tf.cast(x, tf.float32)
        if bias is None:
            return tf.cast(wide * tf.math.rsqrt(tf.reduce_mean(tf.square(wide), -1, keepdims=True) + NORM_EPSILON), x.dtype) * scale
        mean, variance = tf.nn.moments(wide, [-1], keepdims=True)
        return tf.cast((wide - mean) * tf.math.rsqrt(variance + NORM_EPSILON), x.dtype) * scale + bias

    def split(self, x: Any, count: int, size: int) -> Any:
        return tf.transpose(tf.reshape(x, [*x.shape[:2], count, size]), [0, 2, 1, 3])

    def merge(self, x: Any) -> Any:
        return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [x.shape[0], x.shape[2], x.shape[1] * x.shape[3]])

    def repeat(self, x: Any, times: int) -> Any:
        return tf.repeat(x, times, axis=1)

    def rotate(self, x: Any, cos: Any, sin: Any) -> Any:
        first, second = tf.split(x, 2, axis=-1)
        return x * cos + tf.concat([-second, first], -1) * sin

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = tf.matmul(q * tf.cast(q.shape[-1] ** -0.5, q.dtype), k, transpose_b=True)
        if causal:
            query, keys = scores.shape[-2:]
            scores += tf.constant(np.triu(np.full((query, keys), -10000.0), keys - query + 1), scores.dtype)
        return tf.matmul(tf.nn.softmax(scores), v)

    def gelu(self, x: Any) -> Any:
        return tf.nn.gelu(x, approximate=True)

    def silu(self, x: Any) -> Any:
        return tf.nn.silu(x)

    def head(self, x: Any) -> Any:
        table = self.weights["tokens"]
        return tf.reshape(tf.matmul(tf.reshape(x, [-1, table.shape[1]]), table, transpose_b=True), [*x.shape[:-1], table.shape[0]])

    def unit(self, name: str, x: Any, stride: int, padding: int, train: bool) -> Any:
        y = tf.nn.conv2d(x, self.weights[f"{name}.w"], stride, [[0, 0], [padding] * 2, [padding] * 2, [0, 0]])
        scale, bias, mean, var = (self.weights[f"{name}.{part}"] for part in ("scale", "bias", "mean", "var"))
        if train:
            mean, var = tf.nn.moments(y, [0, 1, 2])
            return tf.nn.batch_normalization(y, mean, var, bias, scale, NORM_EPSILON)
        factor = scale * tf.cast(tf.math.rsqrt(var + tf.cast(NORM_EPSILON, var.dtype)), y.dtype)
        return y * factor + (bias - mean * factor)

    def relu(self, x: Any) -> Any:
        return tf.nn.relu(x)

    def max_pool(self, x: Any) -> Any:
        # XLA pools without padding of its own; nothing is negative here, so zeros pad without a trace.
        return tf.nn.max_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, "VALID")

    def mean_pool(self, x: Any) -> Any:
        return tf.reduce_mean(x, [1, 2])


def prepared(inputs: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return weights and input as TensorFlow lays them out: convolutions HWIO, images NHWC, tokens int32."""
    weights = {name: np.ascontiguousarray(a.transpose(2, 3, 1, 0)) if a.ndim == 4 else a for name, a in inputs["weights"].items()}
    if "images" in inputs:
        return weights, np.ascontiguousarray(inputs["images"].transpose(0, 2, 3, 1))
    return weights, inputs["tokens"].astype(np.int32)


def inference(inputs: Mapping[str, Any], kind: Any) -> tuple[Callable[..., Any], Any]:
    """Return (the network as a function of its input, the input); weights are constants of the graph that is traced, as in a frozen
    model, where they fit into one."""
    arrays, x = prepared(inputs)
    weights: dict[str, Any] = {name: value.astype(kind.as_numpy_dtype) for name, value in arrays.items()}
    if sum(value.nbytes for value in weights.values()) > LARGEST_GRAPH:
        weights = {name: tf.constant(value) for name, value in weights.items()}
    ops = TfOps(weights, kind)
    return lambda y: forward(inputs["network"], ops, y), tf.constant(x.astype(kind.as_numpy_dtype) if x.dtype.kind == "f" else x)


def build(session: Any, case: Case, inputs: Mapping[str, Any]) -> Kernel:
    """Make the network ready: execution ``graph`` (tf.function), ``xla`` (compiled by XLA) or ``eager``."""
    execution = case.params.get("execution", "graph")
    if execution not in ("graph", "xla", "eager"):
        raise Unsupported(f"tensorflow has no execution {execution!r}")
    if case.params.get("quantization", "none") != "none":
        raise Unsupported("tensorflow quantizes for LiteRT, not for its own kernels")
    if case.dtype not in TYPES:
        raise Unsupported(f"tensorflow has no {case.dtype} networks here")
    start = time.perf_counter()
    if case.params.get("mode") == "train":
        return _train(session, case, inputs, execution, start)
    function, x = inference(inputs, TYPES[case.dtype])
    return session.kernel(session.function(function, execution), x, start=start)


def _train(session: Any, case: Case, inputs: Mapping[str, Any], execution: str, start: float) -> Kernel:
    """One step of AdamW with PyTorch's defaults on float32 weights, products in the narrow type; ``result`` runs one more."""
    net, kind = inputs["network"], TYPES[case.dtype]
    weights, x = prepared(inputs)
    state = {name: tf.Variable(value) for name, value in weights.items()}
    trained = [name for name in state if not name.endswith((".mean", ".var"))]
    moments = {name: (tf.Variable(tf.zeros_like(state[name])), tf.Variable(tf.zeros_like(state[name]))) for name in trained}
    count, targets = tf.Variable(0.0), tf.constant(inputs["targets"])

    def step(y: Any) -> Any:
        with tf.GradientTape() as tape:
            narrow = {name: tf.cast(value, kind) for name, value in state.items()}
            logits = tf.cast(forward(net, TfOps(narrow, kind), tf.cast(y, kind) if y.dtype.is_floating else y, train=True), tf.float32)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
            samples = tf.reduce_mean(tf.reshape(loss, [loss.shape[0], -1]), 1)
            total = tf.reduce_mean(samples)
        gradients = tape.gradient(total, [state[name] for name in trained])
        count.assign_add(1.0)
        one, two = 1 - 0.9**count, 1 - 0.999**count
        for name, gradient in zip(trained, gradients, strict=True):
            if gradient is None:
                continue
            g, (first, second), value = tf.convert_to_tensor(gradient), moments[name], state[name]
            first.assign(0.9 * first + 0.1 * g)
            second.assign(0.999 * second + 0.001 * g * g)
            value.assign(value * (1 - LEARNING_RATE * 0.01) - LEARNING_RATE * (first / one) / (tf.sqrt(second / two) + 1e-8))
        return samples

    kernel = session.kernel(session.function(step, execution), tf.constant(x), start=start)

    def result() -> tuple[Any, Any]:
        before = kernel.result()
        kernel.run()
        return before, kernel.result()

    return Kernel(kernel.run, result, None, kernel.notes)
