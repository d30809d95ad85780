"""Apache TVM."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._host import cpu_inference, cpu_target
from advisor.frameworks._spec import FrameworkSpec


def query() -> dict[str, Any]:
    """Return the device kinds of which TVM finds a first device."""
    import tvm

    targets = [cpu_target()]
    for kind, target in (("cuda", "cuda"), ("rocm", "rocm"), ("metal", "mps")):
        if tvm.runtime.device(kind, 0).exist:
            targets.append(target)
    return {"version": tvm.__version__, "build": None, "targets": targets, "detail": {}}


FRAMEWORK = FrameworkSpec(
    name="tvm",
    title="Apache TVM",
    distributions=("apache-tvm", "mlc-ai-nightly-cpu", "tvm"),
    module="tvm",
    install="pip install apache-tvm",
    query=query,
    bench_backend="tvm",
    environment="tvm",
    overheads={"start_s": 7.0, "prepare_graph_s": 30.0},
    capabilities=(cpu_inference(),),
)
