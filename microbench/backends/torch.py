"""PyTorch, eager: mm and linear, scaled_dot_product_attention kernel by kernel, element-wise kernels, whole networks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8", "tf32": "float32"}


class TorchSession:
    """torch on one device with a number of threads; every run ends synchronised."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import torch

        torch.set_num_threads(threads)
        with contextlib.suppress(RuntimeError):
            torch.set_num_interop_threads(1)
        torch.set_grad_enabled(False)
        self.torch, self.version, self.device, self.threads, self.options = torch, torch.__version__, device, threads, options
        try:
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError) as error:
            raise Unsupported(f"torch cannot use device {device!r}: {error}") from error

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        builders = {"gemm": self._gemm, "attention": self._attention, "bandwidth": self._bandwidth, "launch": self._launch}
        if case.benchmark == "model":
            from microbench.networks import torch_model

            return torch_model.build(self, case, inputs)
        if case.benchmark == "dataload":
            from microbench.backends import _torch_data

            return _torch_data.build(case, inputs)
        if case.benchmark == "collective":
            from microbench.backends import _torch_collective

            return _torch_collective.build(self, case, inputs)
        if case.benchmark not in builders:
            raise Unsupported(f"the torch backend has no {case.benchmark}")
        if case.dtype not in DTYPES:
            raise Unsupported(f"torch has no {case.dtype} kernels for {case.benchmark} here")
        if case.dtype == "tf32" and not self.device.startswith("cuda"):
            raise Unsupported("tf32 is a CUDA device's format")
        self.torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32"
        return builders[case.benchmark](case, inputs)

    def tensor(self, array: Any, dtype: str) -> Any:
        """Return a copy of a numpy array on the device in ``dtype``."""
        return self.torch.from_numpy(array).to(device=self.device, dtype=getattr(self.torch, DTYPES[dtype]), copy=True)

    def kernel(self, run: Any, out: Any, **notes: Any) -> Kernel:
        """Return a Kernel around ``run``, which leaves its result in the tensor ``out()`` returns."""
        cuda = self.device.startswith("cuda")

        def synchronised() -> None:
            run()
            if cuda:
                self.torch.cuda.synchronize()

        def result() -> Any:
            tensor = out().detach()
            return (tensor.double() if tensor.is_floating_point() else tensor).cpu().numpy()

        def poison() -> None:
            if out() is not None and out().is_floating_point():
                out().fill_(float("nan"))

        return Kernel(synchronised, result, poison, notes)

    def _gemm(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        torch = self.torch
        a, b = self.tensor(inputs["a"], case.dtype), self.tensor(inputs["b"], case.dtype)
        shape = (a.shape[0], b.shape[1])
        if case.dtype == "int8":
            if case.params.get("weight") == "constant":
                raise Unsupported("torch's int8 product takes both operands as they are")
            if self.device.startswith("cuda") and a.shape[0] <= 16:
                raise Unsupported("torch._int_mm on CUDA takes more than 16 rows")
            out = torch.full(shape, -(2**31), device=self.device, dtype=torch.int32)
            return self.kernel(lambda: torch._int_mm(a, b, out=out), lambda: out, kernel="_int_mm")
        if case.params.get("weight") == "constant":
            weight = b.t().contiguous()
            del b
            box = [None]

            def linear() -> None:
                box[0] = torch.nn.functional.linear(a, weight)

            return self.kernel(linear, lambda: box[0], kernel="linear")
        out = torch.empty(shape, device=self.device, dtype=a.dtype)
        return self.kernel(lambda: torch.mm(a, b, out=out), lambda: out, kernel="mm")

    def _attention(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        torch, p = self.torch, case.params
        from torch.nn.attention import SDPBackend, sdpa_kernel

        names = {"flash": "FLASH_ATTENTION", "math": "MATH", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
        if p.get("kernel") not in names:
            raise Unsupported(f"torch has no attention kernel {p.get('kernel')!r}")
        q, k, v = (self.tensor(inputs[name], case.dtype) for name in "qkv")
        # is_causal aligns the mask to the first key; a decode step (one query) sees all keys, so it needs no mask.
        causal, mask = bool(p["causal"]) and p["query"] > 1, None
        if causal and p["query"] != p["keys"]:
            mask = torch.ones(p["query"], p["keys"], dtype=torch.bool, device=self.device).tril(p["keys"] - p["query"])
            causal = False
        backend, box = getattr(SDPBackend, names[p["kernel"]]), [None]
        grouped = p["heads"] != p["kv_heads"]

        def run() -> None:
            with sdpa_kernel(backend):
                box[0] = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped)

        try:
            run()
        except RuntimeError as error:
            raise Unsupported(f"scaled_dot_product_attention has no {p['kernel']} kernel for this: {str(error).splitlines()[0]}") from error
        return self.kernel(run, lambda: box[0])

    def _launch(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        x, w = self.tensor(inputs["x"], case.dtype), self.tensor(inputs["w"], case.dtype)
        box: list[Any] = [None]

        def run() -> None:
            y = x
            for _ in range(inputs["operators"]):
                y = self.torch.mm(y, w)
            box[0] = y

        return self.kernel(run, lambda: box[0])

    def _link(self, operation: str, array: Any) -> Kernel:
        """Copy between pinned memory of the host and the device."""
        if self.device.startswith("cpu"):
            raise Unsupported("a CPU has no link to copy over")
        host, device = self.torch.from_numpy(array).pin_memory(), self.torch.empty(array.shape, device=self.device)
        if operation == "h2d":
            return self.kernel(lambda: device.copy_(host, non_blocking=True), lambda: device)
        device.copy_(host)
        back = self.torch.empty_like(host).pin_memory()
        return self.kernel(lambda: back.copy_(device, non_blocking=True), lambda: back)

    def _bandwidth(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        torch, factor = self.torch, inputs["factor"]
        if case.params["operation"] in ("h2d", "d2h"):
            return self._link(case.params["operation"], inputs["b"])
        b = self.tensor(inputs["b"], case.dtype)
        c = self.tensor(inputs["c"], case.dtype) if "c" in inputs else b
        a = torch.full_like(b, float("nan"))
        run = {
            "copy": lambda: a.copy_(b),
            "scale": lambda: torch.mul(b, factor, out=a),
            "add": lambda: torch.add(b, c, out=a),
            "triad": lambda: torch.add(b, c, alpha=factor, out=a),
        }[case.params["operation"]]
        return self.kernel(run, lambda: a)


def environment(threads: int) -> dict[str, str]:
    """Return what holds before torch is imported: as many OpenMP and MKL threads as asked for."""
    return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}


_FLOATS = ("fp32", "bf16", "fp16", "fp64")
BACKEND = Backend(
    name="torch",
    module="torch",
    install="pip install torch numpy",
    requirements=("torch", "numpy"),
    open=TorchSession,
    env=environment,
    dtypes={
        "gemm": (*_FLOATS, "int8"),
        "attention": ("fp32", "bf16", "fp16"),
        "bandwidth": ("fp32",),
        "launch": ("fp32",),
        "collective": ("fp32",),
        "dataload": ("fp32",),
        "model": ("fp32", "bf16", "fp16"),
    },
    variants={
        "model": ("eager", "script", "compile"),
        "model:bf16": ("eager", "autocast", "script", "compile"),
        "model:fp16": ("eager", "autocast", "script", "compile"),
        "gemm": ("constant", "dynamic"),
        "gemm:int8": ("dynamic",),
        "attention": ("flash", "math"),
        "dataload": ("files", "tar", "memmap"),
    },
    operations={"bandwidth": ("copy", "scale", "add", "triad", "h2d", "d2h")},
    devices=("cpu", "cuda", "xpu", "mps"),
)
