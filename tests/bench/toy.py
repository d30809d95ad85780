"""A backend in one file: numpy's product, and cases that end in every bad way (rows of the product choose which)."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from microbench.plugin import Backend, Kernel, Unsupported


class Session:
    version = "1.0"

    def __init__(self, device: str, threads: int, options: Any) -> None:
        pass

    def build(self, case: Any, inputs: Any) -> Kernel:
        a, b = inputs["a"], inputs["b"]
        out = np.empty((a.shape[0], b.shape[1]), a.dtype)
        right = lambda: np.matmul(a, b, out=out)  # noqa: E731
        runs = {
            101: lambda: os.kill(os.getpid(), 9),
            102: os.abort,
            103: lambda: time.sleep(1000),
            104: lambda: np.multiply(a @ b, 1.01, out=out),
            105: lambda: None,
            106: lambda: bytearray(1 << 46),
            107: lambda: 1 // 0,
            108: lambda: os._exit(7),
        }
        if case.params["m"] == 109:
            raise Unsupported("no product with 109 rows")
        return Kernel(runs.get(case.params["m"], right), lambda: out, lambda: out.fill(np.nan))


BACKEND = Backend(
    name="toy",
    module="numpy",
    install="nothing to install",
    open=Session,
    dtypes={"gemm": ("fp32",)},
)
