"""A network captured operator by operator in a child process (torch or ONNX), and the Model made of it.

The child prints one JSON document behind ``MARK`` (whatever the user's own code prints before it is passed over):

    {"name", "parameters", "inputs": text, "sequence": length or null, "image": pixels or null, "tokens": int,
     "operators": [{"kind": "gemm"|"conv"|"attention"|"elementwise", …}], "notes": [text]}

``rows`` of a product is how many rows it has for a batch of one; where that is the sequence length, the work follows the length.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from advisor.errors import AdvisorError, EnvironmentLacks, UsageError
from advisor.model.records import Attention, Block, Conv, Elementwise, Gemm, Model, Operator
from microbench.child import python_child, run_child

MARK = "@advisor-capture "

#: A capture runs no arithmetic: what takes longer hangs. Importing torch on a slow disk takes a minute.
DEADLINE_S = 300.0


def capture(module: str, *args: str, what: str, extra: str, memory_limit_bytes: int) -> dict[str, Any]:
    """Run ``python -m module args`` with a deadline and return its document; an AdvisorError says why there is none."""
    result = run_child(python_child(module, *args), timeout_s=DEADLINE_S, memory_limit_bytes=memory_limit_bytes)
    line = next((text for text in reversed(result.stdout.splitlines()) if text.startswith(MARK)), None)
    if line is None:
        if result.status == "failed" and f"No module named '{extra}'" in result.stderr:
            raise EnvironmentLacks("NO-" + extra.upper(), f"reading {what} needs {extra}", f"pip install 'hw-advisor[{extra}]'")
        raise UsageError(f"{what} could not be captured: {result.reason}", code="CANNOT-CAPTURE")
    document: dict[str, Any] = json.loads(line[len(MARK) :])
    if "error" in document:
        raise UsageError(f"{what}: {document['error']}", document.get("hint"), code="CANNOT-CAPTURE")
    return document


def to_model(document: dict[str, Any], *, what: str) -> Model:
    """Return the Model of a captured document: one Block with every operator, equal ones merged."""
    try:
        return _to_model(document, what)
    except AdvisorError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{what}: the captured document is not understood ({error!r})", code="CANNOT-CAPTURE") from error


def _to_model(document: dict[str, Any], what: str) -> Model:
    sequence, image = document["sequence"], document["image"]
    counts: dict[Operator, int] = {}
    for raw in document["operators"]:
        op = _operator(raw, sequence)
        counts[op] = counts.get(op, 0) + int(raw.get("count", 1))
    operators = tuple(replace(op, count=count) for op, count in counts.items())
    causal = any(isinstance(op, Attention) and op.causal for op in operators)
    convolutional = any(isinstance(op, Conv) for op in operators) and not any(isinstance(op, Attention) for op in operators)
    block = Block(
        section="layer",
        name="whole network",
        repeat=1,
        operators=operators,
        parameters=document["parameters"],
        unsplit_parameters=document["parameters"],
        activation_elements_per_token=document["kept_elements"] / max(1, document["tokens"]),
    )
    return Model(
        name=document["name"],
        family="captured",
        kind="convolutional" if convolutional else "vision" if image else "decoder" if causal else "encoder",
        parameters=document["parameters"],
        blocks=(block,),
        sample="image" if image else "sequence",
        default_seq=document["tokens"],
        resolution=image,
        source=f"{what}, captured with {document['inputs']}",
        ignored_fields=tuple(document["notes"]),
    )


def _operator(raw: dict[str, Any], sequence: int | None) -> Operator:
    kind = raw["kind"]
    if kind == "gemm":
        rows = raw["rows"]
        return Gemm(
            name=raw["name"], n=raw["n"], k=raw["k"], has_weight=raw["has_weight"], tokens_per_sample=None if rows == sequence else rows
        )
    if kind == "conv":
        return Conv(**{key: raw[key] for key in ("name", *_CONV)})
    if kind == "attention":
        queries, keys = raw["queries"], raw["keys"]
        return Attention(
            heads=raw["heads"],
            kv_heads=raw["kv_heads"],
            head_dim=raw["head_dim"],
            value_dim=raw["value_dim"],
            causal=raw["causal"],
            tokens_per_sample=None if queries == sequence else queries,
            keys_per_sample=None if keys == sequence else keys,
        )
    tokens = max(1, raw["tokens"])
    return Elementwise(name=raw["name"], reads_per_token=raw["reads"] / tokens, writes_per_token=raw["writes"] / tokens)


_CONV = ("in_channels", "out_channels", "kernel", "kernel_w", "stride", "groups", "out_h", "out_w", "bias")
