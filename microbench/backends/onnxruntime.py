"""ONNX Runtime: one small graph a case, built with onnx.helper, run with inputs and outputs bound."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

#: Opset of the graphs: 17 has all that is used and is understood by every ONNX Runtime since 1.12.
OPSET = 17
IR_VERSION = 8
DTYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "int8": "int8"}


#: Executions of a network, and how far onnxruntime rewrites the graph in each: all it can, layouts left, fusions left, not at all.
LEVELS = {
    "graph": "ORT_ENABLE_ALL",
    "graph-extended": "ORT_ENABLE_EXTENDED",
    "graph-basic": "ORT_ENABLE_BASIC",
    "graph-off": "ORT_DISABLE_ALL",
}


class OrtSession:
    """onnxruntime with one provider and a number of intra-op threads; ``execution`` is that of the case at hand."""

    executions: Sequence[str] = tuple(LEVELS)
    execution = "graph"

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import numpy
        import onnx
        import onnxruntime

        provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "rocm": "ROCMExecutionProvider"}.get(
            device.split(":")[0]
        )
        if provider not in onnxruntime.get_available_providers():
            raise Unsupported(f"this onnxruntime has no provider for device {device!r}")
        self.np, self.onnx, self.ort = numpy, onnx, onnxruntime
        self.version, self.provider, self.threads = onnxruntime.__version__, provider, threads

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make one case ready."""
        if case.benchmark == "model":
            from microbench.networks import onnx_model

            return onnx_model.build(self, case, inputs)
        builders = {"gemm": self._gemm, "attention": self._attention, "launch": self._launch}
        if case.benchmark not in builders:
            raise Unsupported(f"the onnxruntime backend has no {case.benchmark}")
        if case.dtype not in DTYPES:
            raise Unsupported(f"onnxruntime has no {case.dtype} kernels on its CPU provider")
        return builders[case.benchmark](case, inputs)

    def session(self, model: Any, weights: Mapping[str, Any] | None = None) -> Any:
        """Return an InferenceSession; Unsupported where no kernel exists.

        ``weights`` are the initializers the graph declares external: handed over in memory, they are neither serialized nor copied.
        """
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(self.ort.GraphOptimizationLevel, LEVELS[self.execution])
        values = [self.ort.OrtValue.ortvalue_from_numpy(self.np.ascontiguousarray(array)) for array in (weights or {}).values()]
        if values:
            options.add_external_initializers(list(weights or {}), values)
        try:
            return self.ort.InferenceSession(model.SerializeToString(), options, providers=[self.provider])
        except Exception as error:
            if "NOT_IMPLEMENTED" in str(error) or "NotImplemented" in type(error).__name__:
                raise Unsupported(f"onnxruntime has no kernel for this: {str(error).splitlines()[0][:200]}") from error
            raise

    def bound(self, session: Any, feeds: Mapping[str, Any], shape: tuple[int, ...], dtype: Any, **notes: Any) -> Kernel:
        """Return a Kernel that runs with inputs and output in place, so that only the graph is timed."""
        out = self.np.zeros(shape, dtype)
        binding = session.io_binding()
        kept = {name: self.ort.OrtValue.ortvalue_from_numpy(self.np.ascontiguousarray(array)) for name, array in feeds.items()}
        for name, value in kept.items():
            binding.bind_ortvalue_input(name, value)
        target = self.ort.OrtValue.ortvalue_from_numpy(out)
        binding.bind_ortvalue_output(session.get_outputs()[0].name, target)
        blank = self.np.full(shape, self.np.nan if out.dtype.kind == "f" else self.np.iinfo(dtype).min, dtype)
        return Kernel(
            lambda: session.run_with_iobinding(binding),
            target.numpy,
            lambda: target.update_inplace(blank),
            notes,
        )

    def external(self, name: str, array: Any) -> Any:
        """Return a TensorProto that only declares an initializer, its data to come with ``session(weights=...)``."""
        tensor = self.onnx.TensorProto(name=name, dims=array.shape, data_location=self.onnx.TensorProto.EXTERNAL)
        tensor.data_type = self.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor.external_data.add(key="location", value="in-memory")
        tensor.external_data.add(key="length", value=str(array.nbytes))
        return tensor

    def _graph(
        self,
        nodes: list[Any],
        inputs: Mapping[str, Any],
        output: tuple[str, Any, tuple[int, ...]],
        constants: Mapping[str, Any],
        weights: Mapping[str, Any] | None = None,
    ) -> Any:
        helper, numpy_helper = self.onnx.helper, self.onnx.numpy_helper
        kind = helper.np_dtype_to_tensor_dtype
        graph = helper.make_graph(
            nodes,
            "case",
            [helper.make_tensor_value_info(name, kind(array.dtype), array.shape) for name, array in inputs.items()],
            [helper.make_tensor_value_info(output[0], kind(self.np.dtype(output[1])), output[2])],
            [numpy_helper.from_array(array, name) for name, array in constants.items()]
            + [self.external(name, array) for name, array in (weights or {}).items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)

    def _gemm(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        a, b = (inputs[name].astype(DTYPES[case.dtype], copy=False) for name in "ab")
        shape = (a.shape[0], b.shape[1])
        kind: Any = a.dtype
        constants: dict[str, Any] = {}
        node = self.onnx.helper.make_node("MatMul", ["a", "b"], ["c"])
        if case.dtype == "int8":
            # As DynamicQuantizeLinear leaves it: activations unsigned with a zero point, weights signed. The product is the same.
            a, kind = (a.astype(self.np.int16) + 128).astype(self.np.uint8), self.np.int32
            constants["zero"] = self.np.array(128, self.np.uint8)
            node = self.onnx.helper.make_node("MatMulInteger", ["a", "b", "zero"], ["c"])
        constant = case.params.get("weight") == "constant"
        feeds = {"a": a} if constant else {"a": a, "b": b}
        model = self._graph([node], feeds, ("c", kind, shape), constants, {"b": b} if constant else {})
        session = self.session(model, {"b": b} if constant else {})
        return self.bound(session, feeds, shape, kind, kernel=node.op_type)

    def _attention(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        np, p, make = self.np, case.params, self.onnx.helper.make_node
        q, k, v = (inputs[name].astype(DTYPES[case.dtype], copy=False) for name in "qkv")
        group = p["heads"] // p["kv_heads"]
        batch, kv_heads, query, keys, size = p["batch"], p["kv_heads"], p["query"], p["keys"], p["head_dim"]
        q = q.reshape(batch, kv_heads, group, query, size)
        k, v = k[:, :, None], v[:, :, None]
        constants = {"scale": np.array(size**-0.5, q.dtype)}
        nodes = [make("Mul", ["q", "scale"], ["qs"]), make("Transpose", ["k"], ["kt"], perm=[0, 1, 2, 4, 3])]
        nodes.append(make("MatMul", ["qs", "kt"], ["s0"]))
        if p["causal"] and query > 1:
            mask = np.zeros((query, keys), q.dtype)
            mask[np.arange(keys)[None, :] > np.arange(query)[:, None] + (keys - query)] = -10000.0
            constants["mask"] = mask
            nodes.append(make("Add", ["s0", "mask"], ["s1"]))
        nodes += [make("Softmax", [nodes[-1].output[0]], ["w"], axis=-1), make("MatMul", ["w", "v"], ["o"])]
        feeds = {"q": q, "k": k, "v": v}
        kernel = self.bound(self.session(self._graph(nodes, feeds, ("o", q.dtype, q.shape), constants)), feeds, q.shape, q.dtype)
        return Kernel(kernel.run, lambda: kernel.result().reshape(inputs["q"].shape), kernel.poison)

    def _launch(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        x, w = (inputs[name].astype(DTYPES[case.dtype], copy=False) for name in "xw")
        count = inputs["operators"]
        names = ["x", *(f"x{i}" for i in range(1, count)), "y"]
        nodes = [self.onnx.helper.make_node("MatMul", [a, "w"], [b]) for a, b in itertools.pairwise(names)]
        session = self.session(self._graph(nodes, {"x": x, "w": w}, ("y", x.dtype, x.shape), {}))
        return self.bound(session, {"x": x, "w": w}, x.shape, x.dtype)


def environment(threads: int) -> dict[str, str]:
    """Return what holds before onnxruntime is imported (its threads are set by the session)."""
    return {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}


BACKEND = Backend(
    name="onnxruntime",
    module="onnxruntime",
    install="pip install onnxruntime onnx",
    needs=("onnx",),
    requirements=("onnxruntime", "onnx", "numpy"),
    open=OrtSession,
    env=environment,
    dtypes={"gemm": ("fp32", "fp16", "fp64", "int8"), "attention": ("fp32", "fp16"), "launch": ("fp32",), "model": ("fp32", "fp16")},
    variants={"model": tuple(LEVELS), "model:quick": ("graph",), "gemm": ("constant", "dynamic"), "attention": ("graph",)},
    devices=("cpu", "cuda", "rocm"),
)
