"""Apache TVM: the same small ONNX graphs as for ONNX Runtime, imported into Relax and compiled for this CPU with untuned schedules."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from microbench.backends.onnxruntime import OrtSession
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case


class TvmSession(OrtSession):
    """tvm's compiler and virtual machine; graphs are built by the parent, compiled and run here."""

    executions = ("graph",)

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import numpy
        import onnx
        import tvm

        if device != "cpu":
            raise Unsupported("the tvm backend compiles for the CPU: its schedules are a CPU's")
        from microbench.backends import _tvm_schedule

        self.np, self.onnx, self.tvm, self.threads = numpy, onnx, tvm, threads
        self.version, self.schedule, self.target = tvm.__version__, _tvm_schedule, _tvm_schedule.native_target(threads)

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        if case.dtype not in ("fp32", "fp64"):
            raise Unsupported(f"the tvm backend has no {case.dtype} schedules")
        if case.params.get("quantization", "none") != "none":
            raise Unsupported("tvm quantizes no networks by itself")
        return super().build(case, inputs)

    def external(self, name: str, array: Any) -> Any:
        """Return a weight inside the graph."""
        return self.onnx.numpy_helper.from_array(array, name)

    def session(self, model: Any, weights: Mapping[str, Any] | None = None) -> Any:
        """Return (virtual machine, seconds of compilation)."""
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        start = time.perf_counter()
        executable = self.schedule.compiled(from_onnx(model), self.target)
        return relax.VirtualMachine(executable, self.tvm.cpu()), time.perf_counter() - start

    def bound(self, session: Any, feeds: Mapping[str, Any], shape: tuple[int, ...], dtype: Any, **notes: Any) -> Kernel:
        """Return a Kernel that runs the compiled function; every result is memory of the machine's, so there is nothing to poison."""
        machine, compile_s = session
        arguments = [self.tvm.runtime.tensor(self.np.ascontiguousarray(array), self.tvm.cpu()) for array in feeds.values()]
        function, box = machine["main"], [None]

        def run() -> None:
            box[0] = function(*arguments)

        def result() -> Any:
            found: Any = box[0]
            return (found if hasattr(found, "numpy") else found[0]).numpy().reshape(shape)

        return Kernel(run, result, None, {**notes, "compile_s": compile_s, "schedule": "untuned"})


def environment(threads: int) -> dict[str, str]:
    """Return what holds before tvm is imported."""
    return {"TVM_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}


BACKEND = Backend(
    name="tvm",
    module="tvm",
    needs=("onnx",),
    install="advisor env create tvm",
    requirements=("apache-tvm", "onnx", "numpy"),
    open=TvmSession,
    env=environment,
    dtypes={"gemm": ("fp32", "fp64"), "attention": ("fp32",), "launch": ("fp32",), "model": ("fp32",)},
    variants={"model": ("graph",), "gemm": ("constant", "dynamic"), "attention": ("graph",)},
)
