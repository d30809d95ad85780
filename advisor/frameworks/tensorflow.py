"""TensorFlow."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._host import cpu_inference, cpu_target
from advisor.frameworks._spec import Capability, FrameworkSpec


def query() -> dict[str, Any]:
    """Return the physical devices TensorFlow lists and the CUDA or ROCm it was built with."""
    import tensorflow as tf

    info = dict(tf.sysconfig.get_build_info())
    rocm = bool(info.get("is_rocm_build"))
    targets = [cpu_target()]
    kinds = {device.device_type for device in tf.config.list_physical_devices()}
    if "GPU" in kinds:
        targets.append("rocm" if rocm else "cuda" if info.get("is_cuda_build") else "mps")
    if "TPU" in kinds:
        targets.append("tpu")
    return {
        "version": tf.__version__,
        "build": "rocm" if rocm else "cuda" if info.get("is_cuda_build") else "cpu",
        "targets": targets,
        "detail": {key: str(info[key]) for key in ("cuda_version", "cudnn_version", "cuda_compute_capabilities") if key in info},
    }


FRAMEWORK = FrameworkSpec(
    name="tensorflow",
    title="TensorFlow",
    distributions=(
        "tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "tensorflow-macos", "tensorflow-intel", "tf-nightly",
        "intel-tensorflow",
    ),
    module="tensorflow",
    install="pip install tensorflow",
    query=query,
    bench_backend="tensorflow",
    environment="tensorflow",
    overheads={"start_s": 10.0, "prepare_graph_s": 8.0, "prepare_eager_s": 2.0},
    capabilities=(
        Capability(
            tasks=("train", "finetune"),
            targets=("cpu-x86", "cpu-arm"),
            kinds=("decoder", "encoder", "vision"),
            executions=("graph",),
            precisions=("fp32",),
            attentions=("math",),
        ),
        cpu_inference(executions=("graph", "eager")),
    ),
)  # fmt: skip
