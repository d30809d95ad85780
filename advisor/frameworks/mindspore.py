"""MindSpore."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._host import cpu_inference, cpu_target
from advisor.frameworks._spec import FrameworkSpec


def query() -> dict[str, Any]:
    """Return which of ``Ascend``, ``GPU`` and ``CPU`` this build reports as available."""
    import mindspore

    targets = [cpu_target()]
    counts: dict[str, int] = {}
    for kind, target in (("Ascend", "npu"), ("GPU", "cuda")):
        try:
            counts[kind] = int(mindspore.hal.device_count(kind)) if mindspore.hal.is_available(kind) else 0
        except (RuntimeError, ValueError, AttributeError):
            counts[kind] = 0
        if counts[kind]:
            targets.append(target)
    return {
        "version": mindspore.__version__,
        "build": next((target for target in targets if not target.startswith("cpu")), "cpu"),
        "targets": targets,
        "detail": {"devices": counts},
    }


FRAMEWORK = FrameworkSpec(
    name="mindspore",
    title="MindSpore",
    distributions=("mindspore", "mindspore-dev", "mindspore-gpu", "mindspore-ascend"),
    module="mindspore",
    install="pip install mindspore",
    query=query,
    bench_backend="mindspore",
    environment="mindspore",
    overheads={"start_s": 7.0, "prepare_graph_s": 10.0, "prepare_eager_s": 2.0},
    capabilities=(cpu_inference(executions=("graph", "eager")),),
)
