"""JAX: every case is one jitted function, compiled ahead; a run ends when the result is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}


class JaxSession:
    """jax on one device; 64-bit types are on, since inputs come in the dtype that is asked for."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        platform, _, index = device.partition(":")
        try:
            self.device = jax.devices(platform)[int(index or 0)]
        except (RuntimeError, IndexError) as error:
            raise Unsupported(f"jax cannot use device {device!r}: {str(error).splitlines()[0]}") from error
        self.jax, self.jnp, self.version, self.threads = jax, jax.numpy, jax.__version__, threads

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        if case.benchmark == "model":
            from microbench.networks import jax_model

            return jax_model.build(self, case, inputs)
        builders = {"gemm": self._gemm, "attention": self._attention, "bandwidth": self._bandwidth, "launch": self._launch}
        if case.benchmark not in builders:
            raise Unsupported(f"the jax backend has no {case.benchmark}")
        if case.dtype not in DTYPES:
            raise Unsupported(f"jax has no {case.dtype} {case.benchmark} here")
        return builders[case.benchmark](case, inputs)

    def array(self, value: Any, dtype: str) -> Any:
        """Return a numpy array on the device in ``dtype``."""
        return self.jax.device_put(self.jnp.asarray(value, dtype=DTYPES[dtype]), self.device)

    def kernel(self, function: Callable[..., Any], *arguments: Any, **notes: Any) -> Kernel:
        """Compile ``function`` for ``arguments``; XLA writes each result into fresh memory, so there is nothing to poison."""
        try:
            compiled = self.jax.jit(function).lower(*arguments).compile()
        except ValueError as error:
            if "not supported" in str(error):
                raise Unsupported(f"XLA has no kernel for this: {str(error).splitlines()[0]}") from error
            raise
        box: list[Any] = [None]

        def run() -> None:
            box[0] = compiled(*arguments)
            box[0].block_until_ready()

        def result() -> Any:
            import numpy

            return numpy.asarray(box[0].astype("float64") if box[0].dtype.kind not in "iu" else box[0])

        return Kernel(run, result, None, notes)

    def _gemm(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        if case.params.get("weight") == "constant":
            raise Unsupported("a jitted function takes its weights as arguments")
        a, b = self.array(inputs["a"], case.dtype), self.array(inputs["b"], case.dtype)
        lax, kind = self.jax.lax, self.jnp.int32 if case.dtype == "int8" else None
        precision = lax.Precision.HIGHEST if case.dtype == "fp32" else None
        return self.kernel(lambda x, y: self.jnp.matmul(x, y, precision=precision, preferred_element_type=kind), a, b)

    def _attention(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        p = case.params
        # jax.nn.dot_product_attention wants (batch, sequence, heads, size); a mask aligned to the last key where lengths differ.
        q, k, v = (self.array(inputs[name].swapaxes(1, 2), case.dtype) for name in "qkv")
        causal, mask = bool(p["causal"]) and p["query"] > 1, None
        if causal and p["query"] != p["keys"]:
            mask = self.jnp.tril(self.jnp.ones((1, 1, p["query"], p["keys"]), bool), p["keys"] - p["query"])
            causal = False
        dot = self.jax.nn.dot_product_attention
        kernel = self.kernel(lambda x, y, z: dot(x, y, z, mask=mask, is_causal=causal, implementation="xla"), q, k, v)
        return Kernel(kernel.run, lambda: kernel.result().swapaxes(1, 2))

    def _launch(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        def chain(x: Any, w: Any) -> Any:
            for _ in range(inputs["operators"]):
                x = self.jnp.matmul(x, w, precision=self.jax.lax.Precision.HIGHEST)
            return x

        return self.kernel(chain, self.array(inputs["x"], case.dtype), self.array(inputs["w"], case.dtype))

    def _bandwidth(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        b = self.array(inputs["b"], case.dtype)
        c = self.array(inputs["c"], case.dtype) if "c" in inputs else b
        factor = self.jnp.asarray(inputs["factor"], b.dtype)
        functions: dict[str, Callable[..., Any]] = {
            "copy": lambda a, x, y, s: self.jnp.copy(x),
            "scale": lambda a, x, y, s: s * x,
            "add": lambda a, x, y, s: x + y,
            "triad": lambda a, x, y, s: x + s * y,
        }
        # The previous result is donated, so that XLA writes into its memory instead of touching fresh pages each time.
        function = self.jax.jit(functions[case.params["operation"]], donate_argnums=0, keep_unused=True)
        box = [self.jnp.full_like(b, self.jnp.nan)]
        compiled = function.lower(box[0], b, c, factor).compile()

        def run() -> None:
            box[0] = compiled(box[0], b, c, factor)
            box[0].block_until_ready()

        def result() -> Any:
            import numpy

            return numpy.asarray(box[0].astype("float64"))

        return Kernel(run, result)


def environment(threads: int) -> dict[str, str]:
    """Return what holds before jax is imported: memory not taken in advance, Eigen's pool off for one thread."""
    flags = "" if threads > 1 else "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_FLAGS": flags, "OMP_NUM_THREADS": str(threads), "NPROC": str(threads)}


_FLOATS = ("fp32", "bf16", "fp16", "fp64")
BACKEND = Backend(
    name="jax",
    module="jax",
    install="pip install jax numpy",
    requirements=("jax", "numpy"),
    open=JaxSession,
    env=environment,
    dtypes={
        "gemm": (*_FLOATS, "int8"),
        "attention": ("fp32", "bf16", "fp16"),
        "bandwidth": ("fp32",),
        "launch": ("fp32",),
        "model": ("fp32", "bf16", "fp16"),
    },
    variants={"model": ("jit",), "gemm": ("dynamic",), "attention": ("xla",)},
    devices=("cpu", "cuda", "rocm", "tpu"),
)
