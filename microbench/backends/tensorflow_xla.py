"""TensorFlow through XLA: the same functions as ``tensorflow`` with ``jit_compile``."""

from __future__ import annotations

from dataclasses import replace

from microbench.backends.tensorflow import BACKEND as PLAIN
from microbench.backends.tensorflow import TensorflowSession


class XlaSession(TensorflowSession):
    """A session whose functions are compiled by XLA."""

    execution = "xla"


BACKEND = replace(
    PLAIN,
    name="tensorflow-xla",
    open=XlaSession,
    dtypes={"gemm": ("fp32", "bf16", "fp16", "fp64"), "attention": ("fp32", "bf16"), "launch": ("fp32",), "model": ("fp32",)},
    variants={"model": ("xla",), "gemm": ("dynamic",), "attention": ("math",)},
)
