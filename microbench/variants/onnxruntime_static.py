"""onnxruntime on statically quantized networks: int8 weights and activations with ranges from calibration.

The ``model`` benchmark's case says ``quantization: int8-static``. The ranges come from the batch itself, which favours the error and leaves
the speed as it is.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from microbench.backends.onnxruntime import OrtSession
from microbench.networks.onnx_model import has_vnni
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case


class StaticSession(OrtSession):
    """A session that calibrates and quantizes a network before onnxruntime runs it."""

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make a quantized network ready."""
        if case.benchmark != "model" or case.params.get("quantization") != "int8-static" or "images" not in inputs:
            raise Unsupported("this variation takes convolutional networks in int8-static")
        self.images = inputs["images"]
        whole = replace(case, params={**case.params, "quantization": "none"})
        kernel = super().build(whole, inputs)
        return Kernel(kernel.run, kernel.result, kernel.poison, {**kernel.notes, "reduce_range": not has_vnni()})

    def session(self, model: Any, weights: Mapping[str, Any] | None = None) -> Any:
        """Return an InferenceSession on the quantized graph."""
        return super().session(quantized(self, model), weights)


def quantized(session: StaticSession, model: Any) -> Any:
    """Return ``model`` with batch norms folded into convolutions, then quantized by its ranges on the images."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Images(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter([{"images": session.images}])

        def get_next(self) -> Any:
            return next(self.left, None)

    logging.getLogger().setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = session.ort.SessionOptions()
        options.graph_optimization_level = session.ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(folder / "folded.onnx")
        options.log_severity_level = 4
        session.ort.InferenceSession(model.SerializeToString(), options, providers=[session.provider])
        quantize_static(
            folder / "folded.onnx",
            folder / "int8.onnx",
            Images(),
            quant_format=QuantFormat.QDQ,
            weight_type=QuantType.QInt8,
            per_channel=True,
            # Seven bits where the CPU has no VNNI: its kernels would saturate at eight.
            reduce_range=not has_vnni(),
        )
        return session.onnx.load(folder / "int8.onnx")


BACKEND = Backend(
    name="onnxruntime-static",
    module="onnxruntime",
    install="pip install onnxruntime onnx",
    open=StaticSession,
    dtypes={"model": ("fp32",)},
)
