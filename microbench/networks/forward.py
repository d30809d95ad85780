"""The forward pass of a description, written once over an array module: numpy for the reference, jax.numpy under jit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from microbench.networks.weights import NORM_EPSILON, bottlenecks, rotary

Weights = Mapping[str, Any]


def forward(xp: Any, net: Mapping[str, Any], w: Weights, x: Any, conv: Callable[..., Any], *, train: bool = False) -> Any:
    """Return the network's output: hidden states (batch, seq, hidden), logits (batch, seq, vocab) or classes (batch, classes).

    ``x`` is tokens or images; ``conv(x, w, stride, padding)`` is a convolution in NCHW. ``train`` normalises by batch statistics
    and always ends in logits.
    """
    if net["kind"] == "resnet":
        return _resnet(xp, net, w, x, conv, train)
    return _transformer(xp, net, w, x, lm=train or net["head"] == "lm")


def _linear(w: Weights, name: str, x: Any) -> Any:
    y = x @ w[f"{name}.w"]
    return y + w[f"{name}.b"] if f"{name}.b" in w else y


def _norm(xp: Any, w: Weights, name: str, x: Any) -> Any:
    """Layer norm, or RMS norm where there is no bias, computed in at least float32."""
    wide = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
    if f"{name}.bias" in w:
        wide = wide - wide.mean(axis=-1, keepdims=True)
    wide = wide / xp.sqrt(xp.mean(wide * wide, axis=-1, keepdims=True) + NORM_EPSILON)
    y = wide.astype(x.dtype) * w[f"{name}.scale"]
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def _softmax(xp: Any, x: Any) -> Any:
    x = xp.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def _gelu(xp: Any, x: Any) -> Any:
    """GELU in its tanh form (Hendrycks and Gimpel 2016, section 2), which all frameworks have."""
    return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def _rotate(xp: Any, x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    turned = xp.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * cos + turned * sin


def _attention(xp: Any, net: Mapping[str, Any], w: Weights, name: str, x: Any, tables: Any) -> Any:
    batch, seq, _ = x.shape
    heads, kv, size = net["heads"], net["kv_heads"], net["head_dim"]

    def split(letter: str, count: int) -> Any:
        return _linear(w, f"{name}.{letter}", x).reshape(batch, seq, count, size).swapaxes(1, 2)

    q, k, v = split("q", heads), split("k", kv), split("v", kv)
    if tables is not None:
        q, k = _rotate(xp, q, *tables), _rotate(xp, k, *tables)
    if kv != heads:
        k, v = xp.repeat(k, heads // kv, axis=1), xp.repeat(v, heads // kv, axis=1)
    scores = (q @ k.swapaxes(-1, -2)) * size**-0.5
    if net["causal"]:
        mask = np.triu(np.ones((seq, seq), bool), 1)
        scores = xp.where(mask, xp.asarray(-10000.0, dtype=scores.dtype), scores)
    context = _softmax(xp, scores) @ v
    return _linear(w, f"{name}.o", context.swapaxes(1, 2).reshape(batch, seq, heads * size))


def _mlp(xp: Any, net: Mapping[str, Any], w: Weights, name: str, x: Any) -> Any:
    if net["gated_mlp"]:
        gate = _linear(w, f"{name}.gate", x)
        return _linear(w, f"{name}.down", gate / (1 + xp.exp(-gate)) * _linear(w, f"{name}.up", x))
    return _linear(w, f"{name}.down", _gelu(xp, _linear(w, f"{name}.up", x)))


def _transformer(xp: Any, net: Mapping[str, Any], w: Weights, tokens: Any, *, lm: bool) -> Any:
    seq = tokens.shape[1]
    x = w["tokens"][tokens]
    tables = None
    if net["gated_mlp"]:
        tables = tuple(xp.asarray(table, dtype=x.dtype) for table in rotary(net, seq))
    else:
        x = x + w["positions"][:seq]
    before = net["kind"] == "decoder"
    if not before:
        x = _norm(xp, w, "norm", x)
    for i in range(net["layers"]):
        name = f"layers.{i}"
        if before:
            x = x + _attention(xp, net, w, name, _norm(xp, w, f"{name}.norm1", x), tables)
            x = x + _mlp(xp, net, w, name, _norm(xp, w, f"{name}.norm2", x))
        else:
            x = _norm(xp, w, f"{name}.norm1", x + _attention(xp, net, w, name, x, tables))
            x = _norm(xp, w, f"{name}.norm2", x + _mlp(xp, net, w, name, x))
    if before:
        x = _norm(xp, w, "norm", x)
    return x @ w["tokens"].T if lm else x


def _resnet(xp: Any, net: Mapping[str, Any], w: Weights, x: Any, conv: Callable[..., Any], train: bool) -> Any:
    def unit(name: str, y: Any, stride: int, padding: int) -> Any:
        y = conv(y, w[f"{name}.w"], stride, padding)
        if train:
            wide = y if y.dtype in (np.float32, np.float64) else y.astype(np.float32)
            mean, var = wide.mean(axis=(0, 2, 3)), wide.var(axis=(0, 2, 3))
        else:
            mean, var = w[f"{name}.mean"], w[f"{name}.var"]
        scale = (w[f"{name}.scale"] / xp.sqrt(var + NORM_EPSILON)).astype(y.dtype)
        shift = (w[f"{name}.bias"] - mean * scale).astype(y.dtype)
        return y * scale[None, :, None, None] + shift[None, :, None, None]

    x = xp.maximum(unit("stem", x, 2, 3), 0)
    x = _max_pool(xp, x)
    for stage, i, _, stride in bottlenecks(net):
        name = f"stages.{stage}.{i}"
        skip = unit(f"{name}.skip", x, stride, 0) if i == 0 else x
        y = xp.maximum(unit(f"{name}.1", x, 1, 0), 0)
        y = xp.maximum(unit(f"{name}.2", y, stride, 1), 0)
        x = xp.maximum(unit(f"{name}.3", y, 1, 0) + skip, 0)
    return _linear(w, "classifier", x.mean(axis=(2, 3)))


def _max_pool(xp: Any, x: Any) -> Any:
    """Maximum over 3 x 3 with stride 2 and padding 1; inputs are not negative, so zeros pad without a trace."""
    height, width = (x.shape[2] + 1) // 2, (x.shape[3] + 1) // 2
    padded = xp.pad(x, ((0, 0), (0, 0), (1, 2), (1, 2)))
    best = None
    for i in range(3):
        for j in range(3):
            part = padded[:, :, i : i + 2 * height : 2, j : j + 2 * width : 2]
            best = part if best is None else xp.maximum(best, part)
    return best


def numpy_conv(x: np.ndarray, w: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """Return a convolution in NCHW as one matrix product for each image."""
    kernel = w.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]
    batch, channels, height, width = windows.shape[:4]
    matrix = w.reshape(w.shape[0], -1)
    out = np.empty((batch, w.shape[0], height, width), x.dtype)
    for index in range(batch):
        columns = windows[index].transpose(0, 3, 4, 1, 2).reshape(channels * kernel * kernel, height * width)
        out[index] = (matrix @ columns).reshape(-1, height, width)
    return out


def losses(xp: Any, logits: Any, targets: Any) -> Any:
    """Return the cross entropy of each sample (the mean over its positions), computed in at least float32."""
    wide = logits if logits.dtype in (np.float32, np.float64) else logits.astype(np.float32)
    wide = wide - wide.max(axis=-1, keepdims=True)
    chosen = xp.take_along_axis(wide, targets[..., None], axis=-1)[..., 0]
    loss = xp.log(xp.exp(wide).sum(axis=-1)) - chosen
    return loss.reshape(loss.shape[0], -1).mean(axis=1)
