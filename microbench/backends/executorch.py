"""ExecuTorch: torch modules exported, lowered to XNNPACK and run by its runtime in this process; dynamic int8 by its quantizer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case


class ExecutorchSession:
    """The runtime with a pool of ``threads``; torch only exports."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import importlib.metadata

        import torch
        from executorch.extension.pybindings import portable_lib
        from executorch.runtime import Runtime

        if device != "cpu":
            raise Unsupported("the executorch backend runs on the CPU, through XNNPACK")
        portable_lib._unsafe_reset_threadpool(threads)
        torch.set_num_threads(threads)
        self.torch, self.runtime, self.threads = torch, Runtime.get(), threads
        self.version = importlib.metadata.version("executorch")

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        builders = {"gemm": self._gemm, "model": self._model}
        if case.benchmark not in builders:
            raise Unsupported(f"the executorch backend has no {case.benchmark}")
        if case.dtype not in ("fp32", "fp16"):
            raise Unsupported(f"XNNPACK has no {case.dtype} kernels for a CPU")
        return builders[case.benchmark](case, inputs)

    def lowered(self, module: Any, arguments: tuple[Any, ...], quantize: bool = False) -> Kernel:
        """Export ``module`` for its arguments, lower what XNNPACK takes, and return a Kernel that executes the program."""
        import warnings

        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        start = time.perf_counter()
        with warnings.catch_warnings(), self.torch.no_grad():
            warnings.simplefilter("ignore")
            if quantize:
                module = self._quantized(module, arguments)
            exported = self.torch.export.export(module, arguments)
            program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
        delegated = sum(len(plan.delegates) for plan in program.executorch_program.execution_plan)
        # The runtime reads the program and its weights where they lie: the buffer must live as long as the method.
        buffer = program.buffer
        loaded = self.runtime.load_program(buffer)
        method, keep = loaded.load_method("forward"), (buffer, loaded)
        if method is None:
            raise RuntimeError("the lowered program has no method `forward`")
        box: list[Any] = [None]

        def run() -> None:
            box[0] = method.execute(arguments)[0]

        notes = {"prepare_s": time.perf_counter() - start, "delegates": delegated, "program_bytes": len(buffer)}
        return Kernel(run, lambda: (box[0].double().numpy(), keep)[0], None, notes)

    def _quantized(self, module: Any, arguments: tuple[Any, ...]) -> Any:
        """Return ``module`` with dynamic int8 in its linear layers, a scale a channel, as XNNPACK's quantizer annotates them."""
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True))
        prepared = prepare_pt2e(self.torch.export.export(module, arguments).module(), quantizer)
        prepared(*arguments)
        return convert_pt2e(prepared)

    def _gemm(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        torch, kind = self.torch, self.torch.float16 if case.dtype == "fp16" else self.torch.float32
        a = torch.from_numpy(inputs["a"]).to(kind)
        if case.params.get("weight") != "constant":
            raise Unsupported("XNNPACK packs the weights of a program when it is loaded; it takes no product of two inputs here")
        layer = torch.nn.Linear(inputs["b"].shape[0], inputs["b"].shape[1], bias=False)
        layer.weight = torch.nn.Parameter(torch.from_numpy(inputs["b"].T.copy()).to(kind))
        return self.lowered(layer.eval(), (a,))

    def _model(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        from microbench.networks.torch_model import network

        quantization = case.params.get("quantization", "none")
        if case.params.get("mode") == "train":
            raise Unsupported("ExecuTorch runs networks; it is not trained with here")
        if quantization not in ("none", "int8-dynamic"):
            raise Unsupported(f"the executorch backend has no quantization {quantization!r}")
        if case.dtype != "fp32" or case.params.get("execution", "graph") != "graph":
            raise Unsupported("ExecuTorch runs an exported fp32 graph here")
        x = self.torch.from_numpy(inputs["images" if "images" in inputs else "tokens"])
        return self.lowered(network(inputs).eval(), (x,), quantize=quantization != "none")


def environment(threads: int) -> dict[str, str]:
    """Return what holds before torch is imported."""
    return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}


BACKEND = Backend(
    name="executorch",
    module="executorch",
    needs=("torch",),
    install="advisor env create executorch",
    requirements=("torch", "executorch", "numpy"),
    open=ExecutorchSession,
    env=environment,
    dtypes={"gemm": ("fp32", "fp16"), "model": ("fp32",)},
    variants={"gemm": ("constant",), "model": ("graph",)},
)
