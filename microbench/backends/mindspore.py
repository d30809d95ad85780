"""MindSpore on the CPU: products and networks as jitted graphs, networks also eagerly."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16"}


class MindsporeSession:
    """mindspore with a number of kernel threads."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import mindspore

        targets = {"cpu": "CPU", "cuda": "GPU", "npu": "Ascend"}
        kind = device.partition(":")[0]
        if kind not in targets:
            raise Unsupported(f"mindspore has no device {device!r}")
        try:
            mindspore.set_device(targets[kind])
        except (RuntimeError, ValueError) as error:
            raise Unsupported(f"this mindspore cannot use {device!r}: {str(error).splitlines()[0]}") from error
        mindspore.set_context(runtime_num_threads=threads)
        self.ms, self.version, self.threads = mindspore, mindspore.__version__, threads

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        if case.benchmark == "model":
            from microbench.networks import mindspore_model

            return mindspore_model.build(self, case, inputs)
        if case.benchmark not in ("gemm", "launch"):
            raise Unsupported(f"the mindspore backend has no {case.benchmark}")
        if case.dtype not in DTYPES:
            raise Unsupported(f"mindspore has no {case.dtype} products on a CPU")
        if case.params.get("weight") == "constant":
            raise Unsupported("a jitted product takes its weight as an argument")
        kind = getattr(self.ms, DTYPES[case.dtype])
        first, second = (self.ms.Tensor(inputs[name], kind) for name in ("ab" if case.benchmark == "gemm" else "xw"))
        count = 1 if case.benchmark == "gemm" else int(inputs["operators"])

        def chain(x: Any, w: Any) -> Any:
            for _ in range(count):
                x = self.ms.ops.matmul(x, w)
            return x

        return self.kernel(chain, first, second)

    def kernel(self, function: Callable[..., Any], *arguments: Any, capture: str | None = "ast", start: float | None = None) -> Kernel:
        """Return a Kernel that runs ``function`` as a graph or, without ``capture``, eagerly; every result is fresh memory.

        ``capture`` is how mindspore reads the graph: ``ast`` from the source of a plain function, ``bytecode`` where objects take part.
        """
        call = self.ms.jit(function, capture_mode=capture) if capture else function
        box: list[Any] = [None]

        def run() -> None:
            box[0] = call(*arguments)
            self.ms.runtime.synchronize()

        run()
        return Kernel(run, lambda: box[0].asnumpy().astype("float64"), None, {"prepare_s": time.perf_counter() - start} if start else {})


def environment(threads: int) -> dict[str, str]:
    """Return what holds before mindspore is imported: quiet, and as many threads as asked for."""
    return {"GLOG_v": "3", "OMP_NUM_THREADS": str(threads)}


BACKEND = Backend(
    name="mindspore",
    module="mindspore",
    install="advisor env create mindspore",
    requirements=("mindspore", "numpy"),
    open=MindsporeSession,
    env=environment,
    dtypes={"gemm": ("fp32", "fp64", "fp16"), "launch": ("fp32",), "model": ("fp32", "fp16")},
    variants={"gemm": ("dynamic",), "model": ("graph", "eager")},
    devices=("cpu", "cuda", "npu"),
)
