"""An ONNX graph, read in a child process without its external weights: products, convolutions and attention by shape inference."""

from __future__ import annotations

from advisor.errors import UsageError
from advisor.model.importers.captured import capture, to_model
from advisor.model.records import Model
from advisor.resources import user_path

_MEMORY_LIMIT = 8 << 30
#: The format itself holds no more in one file (protobuf); larger models keep their weights beside it.
_LARGEST_FILE = 2 << 30


def read_onnx(path: str) -> Model:
    """Return the Model of an ``.onnx`` file. Unknown batch sizes are 1, other unknown lengths 128, and the source says so."""
    file = user_path(path)
    try:
        size = file.stat().st_size if file.is_file() else -1
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path!r}: {error}", code="CANNOT-READ") from error
    if size < 0:
        raise UsageError(f"cannot read {file}: no such file", code="CANNOT-READ")
    if size > _LARGEST_FILE:
        raise UsageError(f"{file} is larger than 2 GiB", "keep the weights in a file of their own (external data)", code="TOO-LARGE")
    document = capture(
        "advisor.model.importers._onnx_child", str(file.resolve()), what=str(file), extra="onnx", memory_limit_bytes=_MEMORY_LIMIT
    )
    return to_model(document, what=str(file))
