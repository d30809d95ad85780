"""onnxruntime on graphs whose LayerNormalization is spelled out in primitive operators, with or without the rewriting that fuses them.

The ``model`` benchmark's case takes ``fusion`` (true, false). All other rewriting stays on in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from microbench.backends.onnxruntime import OrtSession
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

#: The rewritings by which a layer normalisation is found; newer versions number one of them by its level.
FUSIONS = [
    *(f"LayerNormFusion{level}" for level in ("", "L1", "L2")),
    "SimplifiedLayerNormFusion",
    "SkipLayerNormFusion",
    "BiasSkipLayerNormFusion",
    "EmbedLayerNormFusion",
]


class LayerNormSession(OrtSession):
    """A session that takes LayerNormalization apart before onnxruntime sees the graph."""

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make a network ready."""
        if case.benchmark != "model" or not isinstance(case.params.get("fusion"), bool):
            raise Unsupported("this variation takes networks, with fusion true or false")
        self.fusion = case.params["fusion"]
        self.fused = -1
        kernel = super().build(case, inputs)
        return Kernel(kernel.run, kernel.result, kernel.poison, {**kernel.notes, "fused_nodes": self.fused})

    def session(self, model: Any, weights: Mapping[str, Any] | None = None) -> Any:
        """Return an InferenceSession on the graph of primitive operators."""
        import tempfile
        from pathlib import Path

        if weights:
            raise Unsupported("this variation takes graphs with their weights inside")
        options = self.ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = self.threads, 1, 4
        disabled = None if self.fusion else FUSIONS
        with tempfile.TemporaryDirectory() as folder:
            # The rewritten graph is written out once, so that the notes can say how many nodes were fused.
            options.optimized_model_filepath = str(Path(folder) / "rewritten.onnx")
            text = spelled_out(self.onnx, model).SerializeToString()
            session = self.ort.InferenceSession(text, options, providers=[self.provider], disabled_optimizers=disabled)
            rewritten = self.onnx.load(options.optimized_model_filepath, load_external_data=False)
        self.fused = sum("LayerNormalization" in node.op_type for node in rewritten.graph.node)
        return session


def spelled_out(onnx: Any, model: Any) -> Any:
    """Return ``model`` with every LayerNormalization as mean, difference, variance, root, quotient, scale and shift."""
    import numpy as np

    make = onnx.helper.make_node
    nodes, constants = [], {}
    for node in model.graph.node:
        if node.op_type != "LayerNormalization":
            nodes.append(node)
            continue
        x, scale, bias = node.input
        (out,) = node.output
        epsilon = next(a.f for a in node.attribute if a.name == "epsilon")
        constants.update({"norm_axes": np.array([-1], np.int64), "norm_two": np.float32(2), "norm_epsilon": np.float32(epsilon)})
        part = [f"{out}_{name}" for name in ("mean", "difference", "square", "variance", "sum", "root", "quotient", "scaled")]
        nodes += [
            make("ReduceMean", [x, "norm_axes"], [part[0]], keepdims=1),
            make("Sub", [x, part[0]], [part[1]]),
            make("Pow", [part[1], "norm_two"], [part[2]]),
            make("ReduceMean", [part[2], "norm_axes"], [part[3]], keepdims=1),
            make("Add", [part[3], "norm_epsilon"], [part[4]]),
            make("Sqrt", [part[4]], [part[5]]),
            make("Div", [part[1], part[5]], [part[6]]),
            make("Mul", [part[6], scale], [part[7]]),
            make("Add", [part[7], bias], [out]),
        ]
    copy = type(model)()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    copy.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items())
    return copy


BACKEND = Backend(
    name="onnxruntime-layernorm",
    module="onnxruntime",
    install="pip install onnxruntime onnx",
    open=LayerNormSession,
    dtypes={"model": ("fp32",)},
)
