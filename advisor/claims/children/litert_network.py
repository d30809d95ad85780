"""A convolutional network through the LiteRT converter: size of its file, or milliseconds of one run, in fp32 or in static int8.

Weights are random; the ranges of activations are found on random images (post-training calibration). The file is kept, since
converting takes longer than running.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import answer
from advisor.claims.children._timing import seconds

CALIBRATION = 8


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ``quantity`` (bytes, ms) of each of ``networks`` (names of tf.keras.applications) in ``quantization`` (none, int8)."""
    return [_one(str(name), arguments) for name in arguments["networks"]]


def _one(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    kind, side = str(arguments["quantization"]), int(arguments.get("side") or 224)
    path = Path(arguments["cache"]) / f"{name}-{side}-{kind}.tflite"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(_converted(name, kind, side))
        part.replace(path)
    detail = {"quantization": kind, "bytes": path.stat().st_size}
    if arguments["quantity"] == "bytes" or arguments.get("prepare"):
        return {"label": name, "value": float(path.stat().st_size), "detail": detail}
    return {"label": name, "value": 1000 * _seconds(path, arguments), "detail": detail}


def _converted(name: str, kind: str, side: int) -> bytes:
    import numpy as np
    import tensorflow as tf

    tf.keras.utils.set_random_seed(1)
    model = getattr(tf.keras.applications, name)(weights=None, input_shape=(side, side, 3))
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if kind == "int8":
        rng = np.random.default_rng(1)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([rng.random((1, side, side, 3), dtype=np.float32)] for _ in range(CALIBRATION))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    return bytes(converter.convert())


def _seconds(path: Path, arguments: Mapping[str, Any]) -> float:
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    threads = int(arguments["threads"])
    interpreter = Interpreter(model_path=str(path), num_threads=threads)
    interpreter.allocate_tensors()
    entry, exit_ = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    interpreter.set_tensor(entry["index"], np.random.default_rng(1).random(entry["shape"], dtype=np.float32))
    interpreter.invoke()
    scores = interpreter.get_tensor(exit_["index"])
    if not np.isfinite(scores).all() or abs(float(scores.sum()) - 1) > 0.1:
        raise RuntimeError(f"{path.stem}: the probabilities sum to {float(scores.sum()):.3g}")
    return seconds(interpreter.invoke, threads=threads, budget_s=float(arguments.get("budget_s") or 3.0))


if __name__ == "__main__":
    answer(measure)
