"""Largest relative error of an exported network in onnxruntime against PyTorch, by the TorchScript exporter and by torch.export."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import answer


def _network() -> Any:
    """Return a small residual convolutional network with batch norm."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(channels)

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.norm(self.conv(x)))

    stem = nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(stem, *(Block(32) for _ in range(4)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 100)).eval()


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Export both ways and compare; a way that is not installed is left out, none at all is an ImportError."""
    import onnxruntime
    import torch

    torch.manual_seed(int(arguments["seed"]))
    model, x = _network(), torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        want = model(x)
    rows, missing = [], None
    for label, dynamo in (("TorchScript exporter", False), ("torch.export", True)):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = Path(folder) / "model.onnx"
            try:
                source = model if dynamo else torch.jit.trace(model, x)
                torch.onnx.export(source, (x,), str(path), input_names=["x"], dynamo=dynamo)
            except ImportError as error:
                missing = error
                continue
            session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            got = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
        error_value = float((got - want).abs().max() / want.abs().max())
        rows.append({"label": label, "value": max(error_value, 1e-12), "detail": {"outputs": int(want.numel())}})
    if not rows and missing is not None:
        raise missing
    return rows


if __name__ == "__main__":
    answer(measure)
