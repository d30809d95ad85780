"""Child of the ONNX importer: fixes open dimensions, infers shapes, writes down the operators that count."""

from __future__ import annotations

import json
import sys
from math import prod
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, shape_inference

from advisor.model.importers.captured import MARK

_LENGTH = 128
_PRODUCTS = {"MatMul", "MatMulInteger", "QLinearMatMul", "FusedMatMul", "MatMulNBits"}
_CONVOLUTIONS = {"Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "FusedConv"}
_FREE = {"Constant", "Shape", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Flatten", "Cast", "ConstantOfShape", "Range", "Dropout"}
_INDEX_TYPES = {TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL}


class Graph:
    """Shapes and weights of a graph whose open dimensions have been given values."""

    def __init__(self, model: Any) -> None:
        self.notes = _fix_open(model)
        try:
            model = shape_inference.infer_shapes(model, data_prop=True)
        except Exception as error:  # noqa: BLE001 - onnx raises several types of its own
            self.notes.append(f"shape inference failed: {error}")
        self.graph = model.graph
        self.weights = {tensor.name: tensor for tensor in self.graph.initializer}
        self.shapes: dict[str, list[int]] = {name: list(tensor.dims) for name, tensor in self.weights.items()}
        for value in (*self.graph.input, *self.graph.value_info, *self.graph.output):
            dims = value.type.tensor_type.shape.dim
            if value.type.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
                self.shapes[value.name] = [dim.dim_value for dim in dims]
        self.fixed = self._fixed()
        self.operators: list[dict[str, Any]] = []
        self.unknown: dict[str, int] = {}
        self.kept = 0
        self.tokens = 1

    def shape(self, name: str) -> list[int] | None:
        """Return the shape of a value, None where inference did not find it."""
        return self.shapes.get(name)

    def _fixed(self) -> set[str]:
        """Names of values that depend on no input: weights, also those behind a dequantization, a cast or a transpose."""
        fixed = set(self.weights)
        for node in self.graph.node:
            if all(name in fixed for name in node.input if name):
                fixed.update(node.output)
        return fixed

    def parameters(self) -> int:
        """Elements of the weights: initializers and constants that are no indices, without the running statistics of batch norms."""
        statistics = {name for node in self.graph.node if node.op_type == "BatchNormalization" for name in node.input[3:5]}
        # A single number is a constant of a formula (an epsilon, a scale), unless it is the bias of one output.
        biases = {name for node in self.graph.node if node.op_type in ("Gemm", "Conv") for name in node.input[2:3]}
        total: int = sum(
            prod(tensor.dims)
            for name, tensor in self.weights.items()
            if name not in statistics and tensor.data_type not in _INDEX_TYPES and (prod(tensor.dims) > 1 or name in biases)
        )
        for node in self.graph.node:
            if node.op_type == "ConstantOfShape" and node.output[0] in self.fixed - statistics:
                total += prod(self.shape(node.output[0]) or [0])
            for attribute in node.attribute if node.op_type == "Constant" else ():
                if attribute.name == "value" and attribute.t.data_type not in _INDEX_TYPES and len(attribute.t.dims) >= 2:
                    total += prod(attribute.t.dims)
        return total

    def walk(self) -> None:
        """Write down every node."""
        for node in self.graph.node:
            if node.op_type in _PRODUCTS:
                self._product(node)
            elif node.op_type == "Gemm":
                self._gemm(node)
            elif node.op_type in _CONVOLUTIONS:
                self._convolution(node)
            elif node.op_type not in _FREE and not all(name in self.fixed for name in node.output):
                self._elementwise(node)

    def _missing(self, node: Any) -> None:
        self.unknown[node.op_type] = self.unknown.get(node.op_type, 0) + 1

    def _product(self, node: Any) -> None:
        # The integer forms carry scales between the operands: a, scale, zero, b.
        second = 3 if node.op_type == "QLinearMatMul" else 1
        left, right = self.shape(node.input[0]), self.shape(node.input[second])
        if left is None or right is None or not left or not right:
            self._missing(node)
            return
        weight = next((name for name in (node.input[second], node.input[0]) if name in self.fixed), None)
        rows = left[-2] if len(left) > 1 else 1
        batch = prod(left[:-2])
        n = right[-1] if len(right) > 1 else 1
        if weight is not None and len(right) == 2:
            rows, batch = rows * batch, 1
        else:
            batch = max(batch, prod(right[:-2]))
        self._add_product(weight or "product", n, left[-1], rows, batch, weight is not None)
        self.kept += n * rows * batch

    def _gemm(self, node: Any) -> None:
        left, right = self.shape(node.input[0]), self.shape(node.input[1])
        if left is None or right is None or len(left) != 2 or len(right) != 2:
            self._missing(node)
            return
        flags = {attribute.name: attribute.i for attribute in node.attribute}
        rows, k = (left[1], left[0]) if flags.get("transA") else (left[0], left[1])
        n = right[0] if flags.get("transB") else right[1]
        weight = node.input[1] if node.input[1] in self.fixed else None
        self._add_product(weight or "product", n, k, rows, 1, weight is not None)
        self.kept += n * rows

    def _add_product(self, name: str, n: int, k: int, rows: int, count: int, has_weight: bool) -> None:
        self.operators.append({"kind": "gemm", "name": name, "n": n, "k": k, "rows": rows, "count": count, "has_weight": has_weight})

    def _convolution(self, node: Any) -> None:
        place = 3 if node.op_type == "QLinearConv" else 1
        x, weight, out = self.shape(node.input[0]), self.shape(node.input[place]), self.shape(node.output[0])
        if x is None or weight is None or out is None or len(weight) not in (3, 4):
            self._missing(node)
            return
        values = {attribute.name: attribute for attribute in node.attribute}
        groups = values["group"].i if "group" in values else 1
        strides = list(values["strides"].ints) if "strides" in values else [1]
        transposed = node.op_type == "ConvTranspose"
        channels = (weight[0], weight[1] * groups) if transposed else (weight[1] * groups, weight[0])
        kernel, sizes = [*weight[2:], 1], [*(x if transposed else out)[2:], 1]
        self.operators.append(
            {
                "kind": "conv",
                "name": node.input[place],
                "in_channels": channels[0],
                "out_channels": channels[1],
                "kernel": kernel[0],
                "kernel_w": kernel[1],
                "stride": strides[0],
                "groups": groups,
                "out_h": sizes[0],
                "out_w": sizes[1],
                "bias": len(node.input) > place + 1,
            }
        )
        self.kept += prod(out)

    def _elementwise(self, node: Any) -> None:
        out = self.shape(node.output[0]) if node.output else None
        if out is None:
            return
        reads = sum(prod(shape) for name in node.input if (shape := self.shape(name)) is not None)
        self.operators.append({"kind": "elementwise", "name": node.op_type, "reads": reads, "writes": prod(out), "tokens": self.tokens})
        self.kept += prod(out)


def _fix_open(model: Any) -> list[str]:
    """Give every open dimension of the inputs a value: the first is the batch, 1; any other 128. Say which."""
    initial = {tensor.name for tensor in model.graph.initializer}
    chosen: dict[str, int] = {}
    for value in model.graph.input:
        if value.name in initial:
            continue
        for place, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                if place == 0 and len(value.type.tensor_type.shape.dim) > 1 and dim.dim_value > 1:
                    chosen[f"batch of {value.name} (fixed)"] = dim.dim_value
                continue
            name = dim.dim_param or f"{value.name}[{place}]"
            size = 1 if place == 0 or "batch" in name.lower() else _LENGTH
            chosen[name] = size
            dim.Clear()
            dim.dim_value = size
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return [f"{name} = {size}" for name, size in chosen.items()]


def describe(path: str) -> dict[str, Any]:
    """Read, infer and write down; a document with ``error`` where the file is no ONNX graph."""
    model = onnx.load(path, load_external_data=False)
    if not model.graph.node:
        return {"error": "it holds no operators"}
    graph = Graph(model)
    inputs = [value for value in graph.graph.input if value.name not in graph.weights]
    first = graph.shape(inputs[0].name) if inputs else None
    image = first[-1] if first and len(first) == 4 else None
    sequence = first[1] if first and len(first) in (2, 3) else None
    graph.tokens = sequence or 1
    graph.walk()
    if graph.unknown:
        listed = ", ".join(f"{count} {name}" for name, count in sorted(graph.unknown.items()))
        return {"error": f"shapes of {listed} are unknown", "hint": "run onnx.shape_inference on it, or export it with fixed shapes"}
    shapes = ", ".join(f"{value.name} {graph.shape(value.name)}" for value in inputs)
    return {
        "name": graph.graph.name if graph.graph.name not in ("", "main_graph", "torch_jit") else Path(path).stem,
        "parameters": graph.parameters(),
        "inputs": shapes + (f" ({'; '.join(graph.notes)})" if graph.notes else ""),
        "sequence": sequence,
        "image": image,
        "tokens": graph.tokens,
        "kept_elements": graph.kept,
        "operators": graph.operators,
        "notes": [],
    }


def main() -> None:
    """Print the document of ``FILE``."""
    try:
        document = describe(sys.argv[1])
    except Exception as error:  # noqa: BLE001 - protobuf, onnx and the file system each raise their own
        document = {"error": f"not a readable ONNX file ({type(error).__name__}: {str(error)[:200]})"}
    print(MARK + json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
