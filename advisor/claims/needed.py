"""Packages that experiments of the shipped claims can use, and for what."""

from __future__ import annotations

PACKAGES = {
    "torch": "training, precision, compilation, memory, sharding",
    "jax": "XLA beside eager execution",
    "onnxruntime": "graph inference, int8, fusion",
    "onnx": "graphs for onnxruntime",
    "lmdb": "random access against loose files",
    "pyarrow": "memory-mapped tables against parsed text",
}
