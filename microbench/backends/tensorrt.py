"""TensorRT: the same small ONNX graphs as for ONNX Runtime, built into an engine for a CUDA device; torch holds the memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from microbench.backends._cuda import no_device
from microbench.backends.onnxruntime import OrtSession
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

DTYPES = ("fp32", "tf32", "fp16")


class TensorRtSession(OrtSession):
    """tensorrt on one CUDA device; graphs are built by the parent, engines here."""

    executions = ("graph",)

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import numpy
        import onnx
        import tensorrt
        import torch

        if not device.startswith("cuda") or not torch.cuda.is_available():
            raise Unsupported(f"tensorrt runs on a CUDA device, not on {device!r}")
        torch.cuda.set_device(device)
        self.np, self.onnx, self.trt, self.torch, self.device, self.threads = numpy, onnx, tensorrt, torch, device, threads
        self.version, self.logger, self.dtype = tensorrt.__version__, tensorrt.Logger(tensorrt.Logger.ERROR), "fp32"

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        if case.dtype not in DTYPES:
            raise Unsupported(f"the tensorrt backend has no {case.dtype}")
        if case.params.get("quantization", "none") != "none":
            raise Unsupported("tensorrt quantizes ahead of time, with calibration data")
        self.dtype = case.dtype
        stored = "fp32" if case.dtype == "tf32" else case.dtype
        return super().build(Case(benchmark=case.benchmark, dtype=stored, params=case.params), inputs)

    def external(self, name: str, array: Any) -> Any:
        """Return a weight inside the graph."""
        return self.onnx.numpy_helper.from_array(array, name)

    def session(self, model: Any, weights: Mapping[str, Any] | None = None) -> Any:
        """Return (engine, seconds of building). Types are those of the graph; TF32 is used only where the case says so."""
        trt, start = self.trt, time.perf_counter()
        builder = trt.Builder(self.logger)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = trt.OnnxParser(network, self.logger)
        if not parser.parse(model.SerializeToString()):
            raise Unsupported(f"tensorrt does not take the graph: {parser.get_error(0).desc()}")
        config = builder.create_builder_config()
        if self.dtype != "tf32":
            config.clear_flag(trt.BuilderFlag.TF32)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise Unsupported("tensorrt builds no engine for this graph")
        return trt.Runtime(self.logger).deserialize_cuda_engine(plan), time.perf_counter() - start

    def bound(self, session: Any, feeds: Mapping[str, Any], shape: tuple[int, ...], dtype: Any, **notes: Any) -> Kernel:
        """Return a Kernel that runs the engine on a stream and waits for it."""
        engine, build_s = session
        torch, context, stream = self.torch, engine.create_execution_context(), self.torch.cuda.Stream()
        tensors = {name: torch.from_numpy(self.np.ascontiguousarray(array)).to(self.device) for name, array in feeds.items()}
        out = torch.from_numpy(self.np.zeros(shape, dtype)).to(self.device)
        for index in range(engine.num_io_tensors):
            name = engine.get_tensor_name(index)
            context.set_tensor_address(name, tensors.get(name, out).data_ptr())
        keep = (tensors, engine)

        def run() -> None:
            if not context.execute_async_v3(stream.cuda_stream):
                raise RuntimeError("the engine did not start")
            stream.synchronize()

        return Kernel(run, lambda: (out.double().cpu().numpy(), keep)[0], lambda: out.fill_(float("nan")), {**notes, "build_s": build_s})


BACKEND = Backend(
    name="tensorrt",
    module="tensorrt",
    needs=("torch", "onnx"),
    install="advisor env create tensorrt",
    requirements=("tensorrt", "torch", "onnx", "numpy"),
    impossible=no_device,
    open=TensorRtSession,
    dtypes={"gemm": DTYPES, "attention": ("fp32", "fp16"), "launch": ("fp32",), "model": DTYPES},
    variants={"model": ("graph",), "gemm": ("constant", "dynamic"), "attention": ("graph",)},
    devices=("cuda",),
)
