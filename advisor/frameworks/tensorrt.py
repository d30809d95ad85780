"""TensorRT."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._spec import FrameworkSpec


def query() -> dict[str, Any]:
    """Return that a builder can be made, which needs a working driver; without one it loads and can use nothing."""
    import tensorrt

    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    builder = tensorrt.Builder(logger)
    if builder is None:
        raise RuntimeError("TensorRT makes no builder: no usable CUDA device or driver")
    detail = {
        "fast_fp16": bool(getattr(builder, "platform_has_fast_fp16", False)),
        "fast_int8": bool(getattr(builder, "platform_has_fast_int8", False)),
    }
    return {"version": tensorrt.__version__, "build": "cuda", "targets": ["cuda"], "detail": detail}


FRAMEWORK = FrameworkSpec(
    name="tensorrt",
    title="TensorRT",
    distributions=("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu11"),
    module="tensorrt",
    install="pip install tensorrt",
    query=query,
    bench_backend="tensorrt",
)
