"""LiteRT, the successor of TensorFlow Lite."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._host import cpu_inference, cpu_target
from advisor.frameworks._spec import FrameworkSpec


def query() -> dict[str, Any]:
    """Return that the interpreter loads. Its wheels run on the CPU (XNNPACK); delegates are loaded by path and not listed."""
    import importlib
    import importlib.metadata

    for module, distribution in (("ai_edge_litert.interpreter", "ai-edge-litert"), ("tflite_runtime.interpreter", "tflite-runtime")):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        return {
            "version": importlib.metadata.version(distribution),
            "build": "cpu",
            "targets": [cpu_target()],
            "detail": {"module": module},
        }
    raise ImportError("neither ai_edge_litert nor tflite_runtime can be imported")


FRAMEWORK = FrameworkSpec(
    name="litert",
    title="LiteRT",
    distributions=("ai-edge-litert", "tflite-runtime"),
    module="ai_edge_litert",
    install="pip install ai-edge-litert",
    query=query,
    bench_backend="litert",
    environment="tensorflow",
    overheads={"start_s": 10.0, "prepare_graph_s": 20.0},
    capabilities=(
        cpu_inference(),
        cpu_inference(quantization="int8-dynamic"),
    ),
)
