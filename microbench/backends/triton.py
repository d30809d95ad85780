"""Triton: kernels of our own, compiled for a CUDA device; torch holds the memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from microbench.backends._cuda import no_device
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
OPERATIONS = {"copy": 0, "scale": 1, "add": 2, "triad": 3}
BLOCK = 4096


class TritonSession:
    """triton on one CUDA device; kernels are tuned and compiled when a case is made ready."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import torch
        import triton

        if not device.startswith("cuda") or not torch.cuda.is_available():
            raise Unsupported(f"triton kernels run on a CUDA device, not on {device!r}")
        torch.cuda.set_device(device)
        self.torch, self.triton, self.device, self.version = torch, triton, device, triton.__version__

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        if case.benchmark not in ("gemm", "bandwidth"):
            raise Unsupported(f"the triton backend has no {case.benchmark}")
        if case.dtype not in DTYPES or case.params.get("weight") == "constant":
            raise Unsupported("the triton kernels take both operands as they are, in fp32, tf32, fp16 and bf16")
        from microbench.backends import _triton_kernels as kernels

        names = ("a", "b") if case.benchmark == "gemm" else tuple(name for name in ("b", "c") if name in inputs)
        kind = getattr(self.torch, DTYPES[case.dtype])
        operands = [self.torch.from_numpy(inputs[name]).to(self.device, kind) for name in names]
        first, last = operands[0], operands[-1]
        if case.benchmark == "gemm":
            (m, k), n = first.shape, last.shape[1]
            out = self.torch.full((m, n), float("nan"), device=self.device, dtype=kind)
            precision = "tf32" if case.dtype == "tf32" else "ieee"

            def launch() -> None:
                grid = lambda tile: (self.triton.cdiv(m, tile["BLOCK_M"]) * self.triton.cdiv(n, tile["BLOCK_N"]),)  # noqa: E731
                kernels.matmul[grid](first, last, out, m, n, k, PRECISION=precision)
        else:
            out, count = self.torch.full_like(first, float("nan")), first.numel()
            operation, factor = OPERATIONS[case.params["operation"]], float(inputs["factor"])

            def launch() -> None:
                grid = (self.triton.cdiv(count, BLOCK),)
                kernels.stream[grid](out, first, last, factor, count, OPERATION=operation, BLOCK=BLOCK)

        def run() -> None:
            launch()
            self.torch.cuda.synchronize()

        run()
        return Kernel(run, lambda: out.double().cpu().numpy(), lambda: out.fill_(float("nan")))


BACKEND = Backend(
    name="triton",
    module="triton",
    needs=("torch",),
    install="advisor env create triton",
    requirements=("triton", "torch", "numpy"),
    impossible=no_device,
    open=TritonSession,
    dtypes={"gemm": ("fp32", "tf32", "fp16", "bf16"), "bandwidth": ("fp32",)},
    variants={"gemm": ("dynamic",)},
    devices=("cuda",),
)
