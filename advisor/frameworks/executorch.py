"""ExecuTorch."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._host import cpu_inference, cpu_target
from advisor.frameworks._spec import FrameworkSpec

#: Backends registered in the runtime to Device targets.
_BACKENDS = {
    "CoreMLBackend": "mps",
    "MPSBackend": "mps",
    "QnnBackend": "npu",
    "OpenvinoBackend": "cpu",
    "VulkanBackend": "other",
    "CudaBackend": "cuda",
}


def query() -> dict[str, Any]:
    """Return the backends that the Python runtime has registered."""
    import importlib.metadata

    from executorch.runtime import Runtime

    backends = list(Runtime.get().backend_registry.registered_backend_names)
    targets = [cpu_target()]
    targets += [target for name in backends if (target := _BACKENDS.get(name)) and target != "cpu" and target not in targets]
    return {
        "version": importlib.metadata.version("executorch"),
        "build": None,
        "targets": list(dict.fromkeys(targets)),
        "detail": {"backends": backends},
    }


FRAMEWORK = FrameworkSpec(
    name="executorch",
    title="ExecuTorch",
    distributions=("executorch",),
    module="executorch",
    install="pip install executorch",
    query=query,
    bench_backend="executorch",
    environment="executorch",
    overheads={"start_s": 23.0, "prepare_graph_s": 30.0},
    capabilities=(
        cpu_inference(),
        cpu_inference(quantization="int8-dynamic"),
    ),
)
