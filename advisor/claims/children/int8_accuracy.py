"""Accuracy lost by int8: a network trained here, calibrated and quantized by onnxruntime, both judged on held-out samples.

The task is made by rule (which of ten random prototypes a noisy image was drawn from), so that it needs no data set; its noise is set so
that the trained network errs on some samples, since an easy task would hide a loss.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import answer

CLASSES, SIZE, NOISE = 10, 64, 2.2
TRAIN, TEST, CALIBRATION = 6000, 4000, 256


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the loss of accuracy of static int8 with the 95 % interval of paired proportions (Agresti, section 10.1)."""
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import helper, numpy_helper
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    rng = np.random.default_rng(int(arguments["seed"]))
    prototypes = rng.standard_normal((CLASSES, SIZE)).astype(np.float32)
    labels = rng.integers(0, CLASSES, TRAIN + TEST)
    x = (prototypes[labels] + NOISE * rng.standard_normal((TRAIN + TEST, SIZE))).astype(np.float32)
    weights = _train(x[:TRAIN], labels[:TRAIN], int(arguments["seed"]), int(arguments["threads"]))

    nodes, last = [], "x"
    for index in range(len(weights) // 2):
        nodes.append(helper.make_node("Gemm", [last, f"w{2 * index}", f"w{2 * index + 1}"], [f"g{index}"]))
        last = f"g{index}"
        if index < len(weights) // 2 - 1:
            nodes.append(helper.make_node("Relu", [last], [f"r{index}"]))
            last = f"r{index}"
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", s]) for n, s in (("x", SIZE), (last, CLASSES))]
    tensors = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "classifier", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter([{"x": x[:CALIBRATION]}])

        def get_next(self) -> Any:
            return next(self.left, None)

    def right(path: Path) -> Any:
        session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        scores = session.run(None, {"x": x[TRAIN:]})[0]
        return scores.argmax(1) == labels[TRAIN:]

    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        whole, small = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, whole)
        # Seven bits for weights: eight-bit sums of pairs saturate on CPUs without VNNI.
        quantize_static(
            whole, small, Samples(), quant_format=QuantFormat.QDQ, weight_type=QuantType.QInt8, reduce_range=True, per_channel=False
        )
        wide, narrow = right(whole), right(small)
    lost, won = int((wide & ~narrow).sum()), int((narrow & ~wide).sum())
    drop = (lost - won) / TEST
    reach = 1.96 * ((lost + won) - (lost - won) ** 2 / TEST) ** 0.5 / TEST
    return [
        {
            "label": "small classifier, 4000 held-out samples",
            "value": drop,
            "low": drop - reach,
            "high": drop + reach,
            "detail": {"fp32_accuracy": float(wide.mean()), "int8_accuracy": float(narrow.mean())},
        }
    ]


def _train(x: Any, labels: Any, seed: int, threads: int) -> list[Any]:
    """Return weights (in, out) and biases of a three-layer perceptron after some passes over the data."""
    import numpy as np
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(SIZE, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    data, target = torch.from_numpy(x), torch.from_numpy(labels)
    for _ in range(5):
        for rows in torch.randperm(len(data)).split(128):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data[rows]), target[rows]).backward()
            optimizer.step()
    return [
        np.ascontiguousarray(t.detach().numpy()) for layer in model if isinstance(layer, nn.Linear) for t in (layer.weight.T, layer.bias)
    ]


if __name__ == "__main__":
    answer(measure)
