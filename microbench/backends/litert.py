"""LiteRT (TensorFlow Lite): functions are converted by TensorFlow's converter and run by its interpreter with XNNPACK."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from microbench.backends.tensorflow import ENVIRONMENT, REQUIREMENTS
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case


class LitertSession:
    """ai_edge_litert's interpreter with a number of threads; tensorflow only converts."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import importlib.metadata

        if device != "cpu":
            raise Unsupported("the litert backend runs on the CPU")
        from ai_edge_litert.interpreter import Interpreter

        self.interpreter, self.threads, self.version = Interpreter, threads, importlib.metadata.version("ai-edge-litert")

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        builders = {"gemm": self._gemm, "model": self._model}
        if case.benchmark not in builders:
            raise Unsupported(f"the litert backend has no {case.benchmark}")
        if case.dtype != "fp32":
            raise Unsupported(f"LiteRT computes in fp32 on a CPU, or in int8 after quantization; not in {case.dtype}")
        return builders[case.benchmark](case, inputs)

    def converted(self, function: Callable[..., Any], arguments: Mapping[str, Any], quantize: bool = False) -> Kernel:
        """Convert ``function`` of named numpy arrays and return a Kernel that invokes it on inputs in place."""
        import tensorflow as tf

        start = time.perf_counter()
        specs = [tf.TensorSpec(array.shape, array.dtype, name) for name, array in arguments.items()]
        concrete = tf.function(function).get_concrete_function(*specs)
        converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
        if quantize:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        model = converter.convert()
        interpreter = self.interpreter(model_content=model, num_threads=self.threads)
        interpreter.allocate_tensors()
        names = {detail["name"]: detail["index"] for detail in interpreter.get_input_details()}
        for name, array in arguments.items():
            interpreter.set_tensor(names[name], array)
        output = interpreter.get_output_details()[0]["index"]
        notes = {"prepare_s": time.perf_counter() - start, "converter": f"tensorflow {tf.__version__}", "model_bytes": len(model)}
        return Kernel(
            interpreter.invoke,
            lambda: interpreter.get_tensor(output),
            lambda: interpreter.tensor(output)().fill(float("nan")),
            notes,
        )

    def _gemm(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        import tensorflow as tf

        if case.params.get("weight") == "constant":
            return self.converted(lambda a: tf.matmul(a, tf.constant(inputs["b"])), {"a": inputs["a"]})
        return self.converted(tf.matmul, {"a": inputs["a"], "b": inputs["b"]})

    def _model(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        import tensorflow as tf

        from microbench.networks.tensorflow_model import inference

        quantization = case.params.get("quantization", "none")
        if case.params.get("mode") == "train":
            raise Unsupported("LiteRT runs networks; it is not trained with here")
        if quantization not in ("none", "int8-dynamic"):
            raise Unsupported(f"the litert backend has no quantization {quantization!r}")
        if case.params.get("execution", "graph") != "graph":
            raise Unsupported("LiteRT runs a converted graph only")
        function, x = inference(inputs, tf.float32)
        return self.converted(function, {"x": x.numpy()}, quantize=quantization != "none")


def environment(threads: int) -> dict[str, str]:
    """Return what holds before the converter is imported: quiet."""
    return {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": str(threads)}


BACKEND = Backend(
    name="litert",
    module="ai_edge_litert",
    needs=("tensorflow",),
    install="advisor env create tensorflow",
    environment=ENVIRONMENT,
    requirements=("ai-edge-litert", *REQUIREMENTS),
    open=LitertSession,
    env=environment,
    dtypes={"gemm": ("fp32",), "model": ("fp32",)},
    variants={"gemm": ("constant", "dynamic"), "model": ("graph",)},
)
