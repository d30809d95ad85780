"""Network descriptions, their random weights and inputs: numpy arrays from a seed, the same for every framework.

A description is a JSON object. Transformers::

    {"kind": "encoder" | "decoder", "layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocab", "max_seq",
     "gated_mlp": false, "causal": false, "head": "none" | "lm", "head_dim": hidden / heads}

An encoder is BERT's layer (normalisation after the residual), a decoder GPT's (before it), both with biases, GELU and learned
positions; ``gated_mlp`` makes it llama's: RMS norm, SwiGLU, rotary positions, no biases. ``head`` defaults to ``lm`` for a decoder.
Convolutional networks (bottleneck ResNets)::

    {"kind": "resnet", "blocks": [3, 4, 6, 3], "width": 64, "classes": 1000}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from microbench.reference import generator

TRANSFORMERS = ("encoder", "decoder")
#: Output channels of a bottleneck block over its inner ones (He et al. 2015, table 1).
EXPANSION = 4
ROPE_BASE = 10000.0
NORM_EPSILON = 1e-5


def complete(network: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description with its defaults filled in; ValueError if it is none."""
    full = dict(network)
    kind = full.get("kind")
    if kind == "resnet":
        return {"blocks": [3, 4, 6, 3], "width": 64, "classes": 1000, **full}
    if kind not in TRANSFORMERS:
        raise ValueError(f"unknown kind of network {kind!r}")
    full.setdefault("kv_heads", full["heads"])
    full.setdefault("head_dim", full["hidden"] // full["heads"])
    full.setdefault("gated_mlp", False)
    full.setdefault("causal", kind == "decoder")
    full.setdefault("head", "lm" if kind == "decoder" else "none")
    if full["heads"] % full["kv_heads"]:
        raise ValueError("heads is not a multiple of kv_heads")
    return full


def make_weights(network: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Return the weights by name as float32; linear weights are (in, out), convolutions (out, in, height, width)."""
    rng = generator(seed, "weights", sorted(network.items(), key=lambda item: item[0]))
    return _resnet(network, rng) if network["kind"] == "resnet" else _transformer(network, rng)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    values = rng.standard_normal(shape, dtype=np.float32)
    values *= np.float32(deviation)
    return values


def _transformer(net: Mapping[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    hidden, size, ffn = net["hidden"], net["head_dim"], net["ffn_hidden"]
    plain = not net["gated_mlp"]
    out: dict[str, np.ndarray] = {"tokens": _normal(rng, (net["vocab"], hidden), 0.02 if plain else 1.0)}

    def linear(name: str, rows: int, columns: int) -> None:
        out[f"{name}.w"] = _normal(rng, (rows, columns), 1 / math.sqrt(rows))
        if plain:
            out[f"{name}.b"] = _normal(rng, (columns,), 0.02)

    def norm(name: str) -> None:
        out[f"{name}.scale"] = 1 + _normal(rng, (hidden,), 0.02)
        if plain:
            out[f"{name}.bias"] = _normal(rng, (hidden,), 0.02)

    if plain:
        out["positions"] = _normal(rng, (net["max_seq"], hidden), 0.02)
    for i in range(net["layers"]):
        layer = f"layers.{i}"
        linear(f"{layer}.q", hidden, net["heads"] * size)
        linear(f"{layer}.k", hidden, net["kv_heads"] * size)
        linear(f"{layer}.v", hidden, net["kv_heads"] * size)
        linear(f"{layer}.o", net["heads"] * size, hidden)
        if net["gated_mlp"]:
            linear(f"{layer}.gate", hidden, ffn)
        linear(f"{layer}.up", hidden, ffn)
        linear(f"{layer}.down", ffn, hidden)
        norm(f"{layer}.norm1")
        norm(f"{layer}.norm2")
    norm("norm")
    return out


def _resnet(net: Mapping[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    out: dict[str, np.ndarray] = {}

    def conv(name: str, channels_in: int, channels_out: int, kernel: int, scale: float = 1.0) -> None:
        out[f"{name}.w"] = _normal(rng, (channels_out, channels_in, kernel, kernel), math.sqrt(2 / (channels_in * kernel * kernel)))
        out[f"{name}.scale"] = np.float32(scale) * (1 + _normal(rng, (channels_out,), 0.02))
        out[f"{name}.bias"] = _normal(rng, (channels_out,), 0.02)
        out[f"{name}.mean"] = _normal(rng, (channels_out,), 0.02)
        out[f"{name}.var"] = 1 + np.abs(_normal(rng, (channels_out,), 0.02))

    conv("stem", 3, net["width"], 7)
    channels = net["width"]
    for stage, i, inner, _stride in bottlenecks(net):
        block = f"stages.{stage}.{i}"
        conv(f"{block}.1", channels, inner, 1)
        conv(f"{block}.2", inner, inner, 3)
        # A small last scale keeps the residual stream from growing over the blocks, as trained networks do.
        conv(f"{block}.3", inner, inner * EXPANSION, 1, 0.25)
        if i == 0:
            conv(f"{block}.skip", channels, inner * EXPANSION, 1)
        channels = inner * EXPANSION
    out["classifier.w"] = _normal(rng, (channels, net["classes"]), 1 / math.sqrt(channels))
    out["classifier.b"] = _normal(rng, (net["classes"],), 0.02)
    return out


def bottlenecks(net: Mapping[str, Any]) -> list[tuple[int, int, int, int]]:
    """Return (stage, index, inner channels, stride) of each bottleneck block; a stage but the first halves the resolution."""
    return [
        (stage, i, net["width"] << stage, 2 if i == 0 and stage > 0 else 1)
        for stage, count in enumerate(net["blocks"])
        for i in range(count)
    ]


def make_inputs(network: Mapping[str, Any], params: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Return ``tokens`` (batch, seq) int64 or ``images`` (batch, 3, resolution, resolution) float32, and ``targets`` for training."""
    batch = int(params["batch"])
    rng = generator(seed, "inputs", batch, params.get("seq"), params.get("resolution"))
    if network["kind"] == "resnet":
        size = int(params.get("resolution") or 224)
        images = rng.standard_normal((batch, 3, size, size), dtype=np.float32)
        return {"images": images, "targets": rng.integers(0, network["classes"], (batch,))}
    seq = int(params.get("seq") or network["max_seq"])
    if seq > network["max_seq"]:
        raise ValueError(f"seq {seq} is longer than max_seq {network['max_seq']}")
    tokens = rng.integers(0, network["vocab"], (batch, seq))
    return {"tokens": tokens, "targets": rng.integers(0, network["vocab"], (batch, seq))}


def rotary(net: Mapping[str, Any], seq: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cosine and sine tables (seq, head_dim) of rotary positions, halves rotated against each other (Su et al. 2021)."""
    half = net["head_dim"] // 2
    angles = np.arange(seq)[:, None] / ROPE_BASE ** (np.arange(half)[None, :] / half)
    angles = np.concatenate([angles, angles], axis=1)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def flops(network: Mapping[str, Any], params: Mapping[str, Any]) -> float:
    """Return FLOPs of one call: products of the forward pass (2 a multiply-add), three times that for a training step."""
    net = complete(network)
    batch = float(params["batch"])
    if net["kind"] == "resnet":
        total = _resnet_flops(net, int(params.get("resolution") or 224))
    else:
        seq = float(params.get("seq") or net["max_seq"])
        size, hidden = net["head_dim"], net["hidden"]
        weights = hidden * size * (2 * net["heads"] + 2 * net["kv_heads"]) + (3 if net["gated_mlp"] else 2) * hidden * net["ffn_hidden"]
        head = hidden * net["vocab"] if net["head"] == "lm" or params.get("mode") == "train" else 0
        total = 2 * seq * (net["layers"] * (weights + 2 * seq * net["heads"] * size) + head)
    return batch * total * (3 if params.get("mode") == "train" else 1)


def _resnet_flops(net: Mapping[str, Any], resolution: int) -> float:
    side = math.ceil(resolution / 2)
    total = 2.0 * side * side * 3 * net["width"] * 49
    side = math.ceil(side / 2)
    channels = net["width"]
    for _, i, inner, stride in bottlenecks(net):
        total += 2.0 * side * side * channels * inner
        side = math.ceil(side / stride)
        total += 2.0 * side * side * inner * inner * 9 + 2.0 * side * side * inner * inner * EXPANSION
        if i == 0:
            total += 2.0 * side * side * channels * inner * EXPANSION
        channels = inner * EXPANSION
    return total + 2.0 * channels * net["classes"]
