"""GEMM shapes for ``--shapes``: those of a known model, or a user's own list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from advisor.errors import UsageError
from advisor.model.records import Conv, Gemm, Model
from advisor.yamlio import parse_yaml, read_text

#: Rows of the activation: one token, a small batch of decoding, a prefill.
TOKENS = (1, 8, 64, 512)
QUICK_TOKENS = (1, 512)
#: No operand larger than this: 4 GiB of float64.
MAX_ELEMENTS = 1 << 29

Shape = tuple[int, int, int]


def shapes_of(model: Model, *, quick: bool) -> tuple[Shape, ...]:
    """Return (m, n, k) of every distinct product of the model's forward pass; convolutions as the product they amount to."""
    found: dict[Shape, None] = {}
    for block in model.blocks:
        for operator in block.operators:
            if isinstance(operator, Gemm) and operator.has_weight:
                rows = (1,) if operator.tokens_per_sample == 1 else QUICK_TOKENS if quick else TOKENS
                for m in rows:
                    found[m, operator.n, operator.k] = None
            elif isinstance(operator, Conv):
                width = operator.kernel_w or operator.kernel
                k = operator.in_channels // operator.groups * operator.kernel * width
                found[operator.out_h * operator.out_w, operator.out_channels // operator.groups, k] = None
    return tuple(shape for shape in found if _fits(shape))


def read_shapes(path: Path) -> tuple[Shape, ...]:
    """Return the shapes in a JSON or YAML file: a list of [m, n, k] or of objects with those keys; UsageError if it is none."""
    text = read_text(path)
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        document = parse_yaml(text, str(path))
    if isinstance(document, dict) and "shapes" in document:
        document = document["shapes"]
    if not isinstance(document, list) or not document:
        raise UsageError(f"{path} is not a list of shapes", "write [[m, n, k], ...]", code="BAD-SHAPES")
    return tuple(_shape(item, index, path) for index, item in enumerate(document))


def _shape(item: Any, index: int, path: Path) -> Shape:
    values: Any = [item.get(name) for name in ("m", "n", "k")] if isinstance(item, dict) else item
    whole = isinstance(values, list) and len(values) == 3 and all(type(v) is int and v > 0 for v in values)
    if not whole:
        raise UsageError(f"{path}: entry {index} is not three positive whole numbers m, n, k", code="BAD-SHAPES")
    m, n, k = (int(value) for value in values)
    shape = (m, n, k)
    if not _fits(shape):
        raise UsageError(f"{path}: entry {index} has an operand of more than {MAX_ELEMENTS:,} elements", code="BAD-SHAPES")
    return shape


def _fits(shape: Shape) -> bool:
    m, n, k = shape
    return max(m * k, k * n, m * n) <= MAX_ELEMENTS
