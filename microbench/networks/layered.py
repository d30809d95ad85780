"""The forward pass of a description in terms of layers, for frameworks that have fused kernels for them: one walk, an Ops a framework.

``forward`` of the sibling module spells everything out in array arithmetic; here the framework's own layer norm, softmax, GELU and
convolution are used, since those are what people run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from microbench.networks.weights import bottlenecks, rotary


class Ops(Protocol):
    """A framework's layers; weights are looked up by the names of ``make_weights``. Images are in whatever layout ``conv`` takes."""

    weights: Mapping[str, Any]

    def constant(self, array: Any) -> Any:
        """Return a numpy table in the precision of the network."""
        ...

    def embed(self, tokens: Any) -> Any:
        """Return rows of ``weights["tokens"]``."""
        ...

    def linear(self, name: str, x: Any) -> Any:
        """Return x W, plus the bias where there is one."""
        ...

    def norm(self, name: str, x: Any) -> Any:
        """Return layer norm over the last axis; RMS norm where there is no bias."""
        ...

    def split(self, x: Any, count: int, size: int) -> Any:
        """Return (batch, seq, count size) as (batch, count, seq, size)."""
        ...

    def merge(self, x: Any) -> Any:
        """Return (batch, count, seq, size) as (batch, seq, count size)."""
        ...

    def repeat(self, x: Any, times: int) -> Any:
        """Return x with every head (axis 1) repeated ``times`` times."""
        ...

    def rotate(self, x: Any, cos: Any, sin: Any) -> Any:
        """Return x cos + (its halves swapped, the first negated) sin."""
        ...

    def attention(self, q: Any, k: Any, v: Any, causal: bool) -> Any:
        """Return softmax(q k' / sqrt(size)) v, masked to keys not later than the query where ``causal``."""
        ...

    def gelu(self, x: Any) -> Any:
        """Return GELU in its tanh form."""
        ...

    def silu(self, x: Any) -> Any:
        """Return x sigmoid(x)."""
        ...

    def head(self, x: Any) -> Any:
        """Return x E', E the embedding."""
        ...

    def unit(self, name: str, x: Any, stride: int, padding: int, train: bool) -> Any:
        """Return a convolution and its batch norm, by the batch's own statistics where ``train``."""
        ...

    def relu(self, x: Any) -> Any:
        """Return max(x, 0)."""
        ...

    def max_pool(self, x: Any) -> Any:
        """Return the maximum over 3 x 3 with stride 2, one row and column of padding on either side; x is not negative."""
        ...

    def mean_pool(self, x: Any) -> Any:
        """Return (batch, channels)."""
        ...


def forward(net: Mapping[str, Any], o: Ops, x: Any, *, train: bool = False) -> Any:
    """Return the network's output, as ``microbench.networks.forward.forward`` does."""
    return _resnet(net, o, x, train) if net["kind"] == "resnet" else _transformer(net, o, x, lm=train or net["head"] == "lm")


def _transformer(net: Mapping[str, Any], o: Ops, tokens: Any, *, lm: bool) -> Any:
    seq = int(tokens.shape[1])
    x, before, tables = o.embed(tokens), net["kind"] == "decoder", None
    if net["gated_mlp"]:
        tables = tuple(o.constant(table) for table in rotary(net, seq))
    else:
        x = x + o.weights["positions"][:seq]
    if not before:
        x = o.norm("norm", x)
    for i in range(net["layers"]):
        name = f"layers.{i}"
        if before:
            x = x + _attention(net, o, name, o.norm(f"{name}.norm1", x), tables)
            x = x + _mlp(net, o, name, o.norm(f"{name}.norm2", x))
        else:
            x = o.norm(f"{name}.norm1", x + _attention(net, o, name, x, tables))
            x = o.norm(f"{name}.norm2", x + _mlp(net, o, name, x))
    if before:
        x = o.norm("norm", x)
    return o.head(x) if lm else x


def _attention(net: Mapping[str, Any], o: Ops, name: str, x: Any, tables: Any) -> Any:
    heads, kv, size = net["heads"], net["kv_heads"], net["head_dim"]
    q = o.split(o.linear(f"{name}.q", x), heads, size)
    k, v = (o.split(o.linear(f"{name}.{letter}", x), kv, size) for letter in "kv")
    if tables is not None:
        q, k = o.rotate(q, *tables), o.rotate(k, *tables)
    if kv != heads:
        k, v = o.repeat(k, heads // kv), o.repeat(v, heads // kv)
    return o.linear(f"{name}.o", o.merge(o.attention(q, k, v, bool(net["causal"]))))


def _mlp(net: Mapping[str, Any], o: Ops, name: str, x: Any) -> Any:
    if net["gated_mlp"]:
        return o.linear(f"{name}.down", o.silu(o.linear(f"{name}.gate", x)) * o.linear(f"{name}.up", x))
    return o.linear(f"{name}.down", o.gelu(o.linear(f"{name}.up", x)))


def _resnet(net: Mapping[str, Any], o: Ops, x: Any, train: bool) -> Any:
    x = o.max_pool(o.relu(o.unit("stem", x, 2, 3, train)))
    for stage, i, _, stride in bottlenecks(net):
        name = f"stages.{stage}.{i}"
        skip = o.unit(f"{name}.skip", x, stride, 0, train) if i == 0 else x
        y = o.relu(o.unit(f"{name}.1", x, 1, 0, train))
        y = o.relu(o.unit(f"{name}.2", y, stride, 1, train))
        x = o.relu(o.unit(f"{name}.3", y, 1, 0, train) + skip)
    return o.linear("classifier", o.mean_pool(x))
