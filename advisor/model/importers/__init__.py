"""Models out of files: a Hugging Face configuration, our own YAML, an ONNX graph, a torch module."""

from __future__ import annotations

from advisor.model.records import Model


def import_model(path: str) -> Model:
    """Return the Model a file describes; the ending says which reader. UsageError for what cannot be read."""
    lower = path.lower()
    if lower.endswith(".onnx"):
        from advisor.model.importers.onnx import read_onnx

        return read_onnx(path)
    if ".py" in lower and (lower.endswith(".py") or lower.rsplit(":", 1)[0].endswith(".py")):
        from advisor.model.importers.torch import read_torch

        return read_torch(path)
    from advisor.model.importers.hf import read_config

    return read_config(path)
