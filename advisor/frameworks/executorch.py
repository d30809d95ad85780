"""ExecuTorch."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._host import cpu_target
from advisor.frameworks._spec import Capability, FrameworkSpec

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
    # Seconds that a trial spends before its first timed call: starting and importing, and preparing BERT-base at batch 1, as measured on
    # two cores of an AMD EPYC. They only order what a limited budget measures first.
    overheads={"start_s": 23.0, "prepare_graph_s": 30.0},
    capabilities=(
        Capability(
            tasks=("infer",),
            targets=("cpu-x86", "cpu-arm"),
            kinds=("encoder", "vision", "convolutional"),
            executions=("graph",),
            precisions=("fp32",),
            quantizations=("none",),
            optimizers=("none",),
            attentions=("math",),
        ),
        Capability(
            tasks=("infer",),
            targets=("cpu-x86", "cpu-arm"),
            kinds=("encoder", "vision"),
            executions=("graph",),
            precisions=("fp32",),
            quantizations=("int8-dynamic",),
            optimizers=("none",),
            attentions=("math",),
        ),
    ),
)
