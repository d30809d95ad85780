"""MindSpore."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._host import cpu_target
from advisor.frameworks._spec import Capability, FrameworkSpec


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
    # Seconds that a trial spends before its first timed call: starting and importing, and preparing BERT-base at batch 1, as measured on
    # two cores of an AMD EPYC. They only order what a limited budget measures first.
    overheads={"start_s": 7.0, "prepare_graph_s": 10.0, "prepare_eager_s": 2.0},
    capabilities=(
        Capability(
            tasks=("infer",),
            targets=("cpu-x86", "cpu-arm"),
            kinds=("encoder", "vision", "convolutional"),
            executions=("graph", "eager"),
            precisions=("fp32",),
            quantizations=("none",),
            optimizers=("none",),
            attentions=("math",),
        ),
    ),
)
