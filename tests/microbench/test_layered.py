"""The walk in layers gives what the walk in arrays gives, whatever framework the layers come from: here, numpy's arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from microbench.networks import forward as plain
from microbench.networks.layered import forward
from microbench.networks.weights import NORM_EPSILON, complete, make_inputs, make_weights

ENCODER = {"kind": "encoder", "layers": 2, "hidden": 32, "heads": 4, "ffn_hidden": 64, "vocab": 50, "max_seq": 16}
NETWORKS = {
    "encoder": ENCODER,
    "gpt": {**ENCODER, "kind": "decoder"},
    "llama": {**ENCODER, "kind": "decoder", "kv_heads": 2, "gated_mlp": True},
    "resnet": {"kind": "resnet", "blocks": [1, 2], "width": 8, "classes": 10},
}


class NumpyOps:
    """Layers in numpy, from the formulas."""

    def __init__(self, weights):
        self.weights = weights

    def constant(self, array):
        return array

    def embed(self, tokens):
        return self.weights["tokens"][tokens]

    def linear(self, name, x):
        return x @ self.weights[f"{name}.w"] + self.weights.get(f"{name}.b", 0.0)

    def norm(self, name, x):
        bias = self.weights.get(f"{name}.bias")
        centred = x - x.mean(-1, keepdims=True) if bias is not None else x
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + NORM_EPSILON) * self.weights[f"{name}.scale"] + (
            0.0 if bias is None else bias
        )

    def split(self, x, count, size):
        return x.reshape(*x.shape[:2], count, size).transpose(0, 2, 1, 3)

    def merge(self, x):
        return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)

    def repeat(self, x, times):
        return np.repeat(x, times, axis=1)

    def rotate(self, x, cos, sin):
        first, second = np.split(x, 2, axis=-1)
        return x * cos + np.concatenate([-second, first], -1) * sin

    def attention(self, q, k, v, causal):
        scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    def gelu(self, x):
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def silu(self, x):
        return x / (1 + np.exp(-x))

    def head(self, x):
        return x @ self.weights["tokens"].T

    def unit(self, name, x, stride, padding, train):
        y = plain.numpy_conv(x, self.weights[f"{name}.w"], stride, padding)
        scale, bias, mean, var = (self.weights[f"{name}.{part}"][:, None, None] for part in ("scale", "bias", "mean", "var"))
        if train:
            mean, var = y.mean((0, 2, 3), keepdims=True), y.var((0, 2, 3), keepdims=True)
        return (y - mean) / np.sqrt(var + NORM_EPSILON) * scale + bias

    def relu(self, x):
        return np.maximum(x, 0)

    def max_pool(self, x):
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
        return windows[:, :, ::2, ::2].max((-1, -2))

    def mean_pool(self, x):
        return x.mean((2, 3))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_it_agrees_with_the_walk_in_arrays(name, train):
    net = complete(NETWORKS[name])
    weights = {key: value.astype(np.float64) for key, value in make_weights(net, 3).items()}
    inputs = make_inputs(net, {"batch": 2, "seq": 12, "resolution": 32}, 4)
    x = inputs["images"].astype(np.float64) if "images" in inputs else inputs["tokens"]
    want = plain.forward(np, net, weights, x, plain.numpy_conv, train=train)
    got = forward(net, NumpyOps(weights), x, train=train)
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 1e-8 * np.abs(want).max()
