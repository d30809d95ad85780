"""Bytes of an int8 ONNX file over those of the fp32 one: a stack of linear layers through onnxruntime's dynamic quantizer."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import answer

OPSET, IR_VERSION = 17, 9


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ratio for each width in ``widths`` (default 64 and 512), six layers each."""
    return [_ratio(int(width), int(arguments["seed"])) for width in arguments.get("widths") or (64, 512)]


def _ratio(width: int, seed: int) -> dict[str, Any]:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
    from onnxruntime.quantization import QuantType, quantize_dynamic

    rng = np.random.default_rng(seed)
    nodes, tensors, last = [], [], "x"
    for layer in range(6):
        weight = rng.standard_normal((width, width), dtype=np.float32) / np.float32(width**0.5)
        tensors.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes += [helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]), helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"])]
        last = f"r{layer}"
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, width]) for name in ("x", last))
    graph = helper.make_graph(nodes, "stack", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        whole, small = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, whole)
        quantize_dynamic(whole, small, weight_type=QuantType.QInt8)
        sizes = whole.stat().st_size, small.stat().st_size
    detail = {"fp32_bytes": sizes[0], "int8_bytes": sizes[1]}
    return {"label": f"6 linear layers of {width}", "value": sizes[1] / sizes[0], "detail": detail}


if __name__ == "__main__":
    answer(measure)
