"""ONNX Runtime."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._host import cpu_target
from advisor.frameworks._spec import Capability, FrameworkSpec

#: Execution providers to the Device target they run on; OpenVINO's is a CPU one unless told otherwise.
_PROVIDERS = {
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "cuda",
    "NvTensorRTRTXExecutionProvider": "cuda",
    "ROCMExecutionProvider": "rocm",
    "MIGraphXExecutionProvider": "rocm",
    "CANNExecutionProvider": "npu",
    "QNNExecutionProvider": "npu",
    "VitisAIExecutionProvider": "npu",
    "RknpuExecutionProvider": "npu",
    "CoreMLExecutionProvider": "mps",
}

#: An ONNX model of one Identity node (float[1] to float[1]; IR version 8, operator set 13), as its protobuf is written.
_IDENTITY = (
    "08083a370a100a017812017922084964656e746974791201675a0f0a0178120a0a08080112040a020801620f0a0179120a0a08080112040a02080142040a00100d"
)


def query() -> dict[str, Any]:
    """Return the providers of this build. A provider in the list is built in; whether its device works shows in a session."""
    import onnxruntime

    providers = list(onnxruntime.get_available_providers())
    targets = [cpu_target()]
    for provider in providers:
        target = _PROVIDERS.get(provider)
        if target and target not in targets and _loads(onnxruntime, provider):
            targets.append(target)
    device = str(onnxruntime.get_device()).lower()
    return {
        "version": onnxruntime.__version__,
        "build": "cpu" if device.startswith("cpu") else device,
        "targets": targets,
        "detail": {"providers": providers, "build_info": str(getattr(onnxruntime, "get_build_info", str)())[:300]},
    }


def _build_info(onnxruntime: Any) -> str | None:
    # A function in some versions, a string in others, absent in old ones.
    info = getattr(onnxruntime, "get_build_info", None)
    info = info() if callable(info) else info
    return str(info)[:300] if info else None


def _loads(onnxruntime: Any, provider: str) -> bool:
    """Tell whether a session on the smallest model there is really lands on the provider."""
    model = bytes.fromhex(_IDENTITY)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model, options, providers=[provider])
    except Exception:  # noqa: BLE001 - any failure means that the provider cannot be used
        return False
    return provider in session.get_providers()


FRAMEWORK = FrameworkSpec(
    name="onnxruntime",
    title="ONNX Runtime",
    distributions=(
        "onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-rocm", "onnxruntime-migraphx", "onnxruntime-openvino",
        "onnxruntime-qnn", "onnxruntime-cann", "onnxruntime-silicon", "onnxruntime-training", "ort-nightly", "ort-nightly-gpu",
    ),
    module="onnxruntime",
    install="pip install onnxruntime",
    query=query,
    bench_backend="onnxruntime",
    environment="onnxruntime",
    # Time of convolutions on a CPU over products of the same size: ResNet-50 in fp32 on two AVX2 cores, batch 1 and 8, 2026.
    overheads={
        "cpu_convolution_ratio": 0.9,
        "start_s": 3.0, "prepare_graph_s": 2.0,
    },
    capabilities=(
        Capability(
            tasks=("infer", "serve"),
            targets=("cpu-x86", "cpu-arm", "cpu-other"),
            kinds=("decoder", "encoder", "vision", "convolutional"),
            executions=("graph",),
            precisions=("fp32",),
            optimizers=("none",),
            attentions=("math", "fused"),
        ),
        Capability(
            tasks=("infer", "serve"),
            targets=("cpu-x86", "cpu-arm"),
            kinds=("decoder", "encoder", "vision"),
            executions=("graph",),
            precisions=("fp32",),
            quantizations=("int8-dynamic",),
            optimizers=("none",),
            attentions=("math", "fused"),
        ),
        Capability(
            tasks=("infer",),
            targets=("cuda", "rocm"),
            kinds=("encoder", "vision", "convolutional"),
            executions=("graph",),
            precisions=("fp16", "fp32"),
            data_parallel=True,
            optimizers=("none",),
            attentions=("fused", "math"),
        ),
    ),
)  # fmt: skip
