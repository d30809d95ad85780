"""OpenVINO."""

from __future__ import annotations

from typing import Any

from advisor.frameworks._host import cpu_inference, cpu_target
from advisor.frameworks._spec import FrameworkSpec


def query() -> dict[str, Any]:
    """Return the devices OpenVINO lists: ``CPU``, ``GPU.0`` (Intel graphics), ``NPU``."""
    import openvino

    core = openvino.Core()
    devices = list(core.available_devices)
    targets = [cpu_target()] if "CPU" in devices else []
    if any(name.startswith("GPU") for name in devices):
        targets.append("xpu")
    if any(name.startswith("NPU") for name in devices):
        targets.append("npu")
    names = {name: str(core.get_property(name, "FULL_DEVICE_NAME")) for name in devices}
    return {"version": openvino.__version__, "build": None, "targets": targets, "detail": {"devices": names}}


FRAMEWORK = FrameworkSpec(
    name="openvino",
    title="OpenVINO",
    distributions=("openvino", "openvino-nightly"),
    module="openvino",
    install="pip install openvino",
    query=query,
    bench_backend="openvino",
    environment="openvino",
    overheads={"start_s": 3.0, "prepare_graph_s": 4.0},
    capabilities=(cpu_inference(),),
)
