"""OpenVINO: the same small ONNX graphs as for ONNX Runtime, compiled for the CPU with its precision fixed.

On a CPU with bfloat16 OpenVINO computes fp32 graphs in bfloat16 unless told otherwise: the hint makes each dtype what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from microbench.backends.onnxruntime import OrtSession
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

#: The hint that makes OpenVINO compute in a dtype; bf16 graphs are stored in fp32.
HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}


class OpenVinoSession(OrtSession):
    """openvino on one device; graphs are built by the parent, compiled and run here."""

    executions = ("graph",)

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import numpy
        import onnx
        import openvino

        name = {"cpu": "CPU", "xpu": "GPU", "npu": "NPU"}.get(device.split(":")[0])
        self.core = openvino.Core()
        if name is None or not any(found.split(".")[0] == name for found in self.core.available_devices):
            raise Unsupported(f"this openvino has no plugin for device {device!r}")
        self.np, self.onnx, self.openvino, self.name = numpy, onnx, openvino, name
        self.version, self.threads, self.hint = openvino.__version__.split("-")[0], threads, "f32"
        self.capabilities = self.core.get_property(name, "OPTIMIZATION_CAPABILITIES")

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        if case.dtype not in HINTS:
            raise Unsupported(f"the openvino backend has no {case.dtype}")
        if case.dtype != "fp32" and case.dtype.upper() not in self.capabilities:
            raise Unsupported(f"openvino does not list {case.dtype.upper()} among this device's capabilities")
        if case.params.get("quantization", "none") != "none":
            raise Unsupported("openvino quantizes ahead of time, with calibration data")
        self.hint = HINTS[case.dtype]
        kernel = super().build(Case(benchmark=case.benchmark, dtype="fp32", params=case.params), inputs)
        return Kernel(kernel.run, kernel.result, kernel.poison, {**kernel.notes, "inference_precision": self.hint})

    def external(self, name: str, array: Any) -> Any:
        """Return a weight inside the graph: OpenVINO takes none from memory beside it."""
        return self.onnx.numpy_helper.from_array(array, name)

    def session(self, model: Any, weights: Mapping[str, Any] | None = None) -> Any:
        """Return a compiled model."""
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": self.hint}
        if self.name == "CPU":
            settings["INFERENCE_NUM_THREADS"] = str(self.threads)
        return self.core.compile_model(self.core.read_model(model.SerializeToString()), self.name, settings)

    def bound(self, session: Any, feeds: Mapping[str, Any], shape: tuple[int, ...], dtype: Any, **notes: Any) -> Kernel:
        """Return a Kernel that runs one inference request on tensors in place."""
        request = session.create_infer_request()
        kept = {name: self.openvino.Tensor(self.np.ascontiguousarray(array), shared_memory=True) for name, array in feeds.items()}
        for name, tensor in kept.items():
            request.set_tensor(name, tensor)
        out = self.np.full(shape, self.np.nan, dtype)
        target = self.openvino.Tensor(out, shared_memory=True)
        request.set_output_tensor(target)
        keep = (kept, target)
        return Kernel(lambda: (request.infer(), keep)[0], lambda: out, lambda: out.fill(self.np.nan), notes)


BACKEND = Backend(
    name="openvino",
    module="openvino",
    install="advisor env create openvino",
    needs=("onnx",),
    requirements=("openvino", "onnx", "numpy"),
    open=OpenVinoSession,
    dtypes={
        "gemm": ("fp32", "bf16", "fp16"),
        "attention": ("fp32", "bf16", "fp16"),
        "launch": ("fp32",),
        "model": ("fp32", "bf16", "fp16"),
    },
    variants={"model": ("graph",), "gemm": ("constant", "dynamic"), "attention": ("graph",)},
    devices=("cpu", "xpu", "npu"),
)
