"""TensorFlow: every case is one tf.function, traced before it is timed; networks also eagerly and through XLA."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}
#: One environment for TensorFlow and for LiteRT, whose converter is part of TensorFlow. The CPU build has wheels for x86-64 alone.
ENVIRONMENT = "tensorflow"
REQUIREMENTS = ("tensorflow-cpu; platform_machine == 'x86_64'", "tensorflow; platform_machine != 'x86_64'", "numpy")


class TensorflowSession:
    """tensorflow on one device; ``execution`` is how functions run unless a case says otherwise."""

    execution = "graph"

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        kind, _, index = device.partition(":")
        self.place = f"/device:{'CPU' if kind == 'cpu' else 'GPU'}:{index or 0}"
        if kind != "cpu" and not tf.config.list_physical_devices("GPU"):
            raise Unsupported(f"this tensorflow sees no device {device!r}")
        self.tf, self.version, self.threads = tf, tf.__version__, threads

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        if case.benchmark == "model":
            from microbench.networks import tensorflow_model

            return tensorflow_model.build(self, case, inputs)
        builders = {"gemm": self._gemm, "attention": self._attention, "launch": self._launch}
        if case.benchmark not in builders:
            raise Unsupported(f"the tensorflow backend has no {case.benchmark}")
        if case.dtype not in DTYPES or (case.dtype == "int8" and case.benchmark != "gemm"):
            raise Unsupported(f"tensorflow has no {case.dtype} kernels for {case.benchmark}")
        return builders[case.benchmark](case, inputs)

    def tensor(self, array: Any, dtype: str) -> Any:
        """Return a numpy array on the device in ``dtype``."""
        with self.tf.device(self.place):
            return self.tf.constant(array.astype(self.tf.as_dtype(DTYPES[dtype]).as_numpy_dtype))

    def function(self, function: Callable[..., Any], execution: str) -> Callable[..., Any]:
        """Return ``function`` as a graph, as a graph compiled by XLA, or as it is."""
        return function if execution == "eager" else self.tf.function(function, jit_compile=execution == "xla")

    def kernel(self, function: Callable[..., Any], *arguments: Any, start: float | None = None, **notes: Any) -> Kernel:
        """Trace ``function`` (for XLA: compile) and return the Kernel; every result is fresh memory, so there is nothing to poison."""
        concrete = function
        if hasattr(function, "get_concrete_function"):
            concrete = function.get_concrete_function(*arguments)
        box: list[Any] = [None]
        on_gpu = "GPU" in self.place

        def run() -> None:
            with self.tf.device(self.place):
                box[0] = concrete(*arguments)
            if on_gpu:
                self.tf.test.experimental.sync_devices()

        def result() -> Any:
            value = box[0].numpy()
            return value if value.dtype.kind in "iu" else value.astype("float64")

        return Kernel(run, result, None, {**notes, **({"prepare_s": time.perf_counter() - start} if start else {})})

    def _gemm(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        tf = self.tf
        a, b = self.tensor(inputs["a"], case.dtype), self.tensor(inputs["b"], case.dtype)
        kind = tf.int32 if case.dtype == "int8" else None
        if case.params.get("weight") == "constant":
            weight = b.numpy()
            return self.kernel(self.function(lambda x: tf.matmul(x, tf.constant(weight), output_type=kind), self.execution), a)
        return self.kernel(self.function(lambda x, y: tf.matmul(x, y, output_type=kind), self.execution), a, b)

    def _attention(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        from microbench.networks.tensorflow_model import TfOps

        p, kind = case.params, self.tf.as_dtype(DTYPES[case.dtype])
        ops, group, causal = TfOps({}, kind), p["heads"] // p["kv_heads"], bool(p["causal"]) and p["query"] > 1

        def attend(q: Any, k: Any, v: Any) -> Any:
            if group > 1:
                k, v = ops.repeat(k, group), ops.repeat(v, group)
            return ops.attention(q, k, v, causal)

        return self.kernel(self.function(attend, self.execution), *(self.tensor(inputs[name], case.dtype) for name in "qkv"))

    def _launch(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        def chain(x: Any, w: Any) -> Any:
            for _ in range(inputs["operators"]):
                x = self.tf.matmul(x, w)
            return x

        return self.kernel(self.function(chain, self.execution), self.tensor(inputs["x"], case.dtype), self.tensor(inputs["w"], case.dtype))


def environment(threads: int) -> dict[str, str]:
    """Return what holds before tensorflow is imported: quiet, and as many OpenMP threads as asked for."""
    return {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": str(threads), "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


_FLOATS = ("fp32", "bf16", "fp16", "fp64")
BACKEND = Backend(
    name="tensorflow",
    module="tensorflow",
    install="advisor env create tensorflow",
    environment=ENVIRONMENT,
    requirements=REQUIREMENTS,
    open=TensorflowSession,
    env=environment,
    dtypes={"gemm": (*_FLOATS, "int8"), "attention": ("fp32", "bf16", "fp16"), "launch": ("fp32",), "model": ("fp32", "bf16", "fp16")},
    variants={"model": ("graph", "xla", "eager"), "gemm": ("constant", "dynamic"), "attention": ("math",)},
    devices=("cpu", "cuda", "rocm"),
)
