"""A backend in one file: numpy's product, and cases that end in every bad way (rows of the product choose which)."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import numpy as np

from microbench.plugin import Backend, Kernel, Unsupported


def eat_memory() -> None:
    """Take memory and touch it, step by step, as a leak does."""
    kept = []
    while True:
        kept.append(np.ones(1 << 24, np.uint8))


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
            # A loop in C that holds the interpreter: no Python code of ours runs any more, no signal handler either.
            110: lambda: ctypes.PyDLL(None).sleep(1000),
            111: eat_memory,
            112: lambda: ctypes.string_at(0),
            113: lambda: np.copyto(out, (a @ b)[::-1]),
        }
        if case.params.get("weight") == "deadly":
            return Kernel(runs[101], lambda: out)
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
