"""What descriptors of frameworks share: the processors' target, and what engines that only infer on a CPU can do."""

from __future__ import annotations

import platform

from advisor.frameworks._spec import Capability


def cpu_target() -> str:
    """Return the Device target of this machine's processors."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64", "i386", "i686"):
        return "cpu-x86"
    return "cpu-arm" if machine.startswith(("aarch64", "arm")) else "cpu-other"


def cpu_inference(*, executions: tuple[str, ...] = ("graph",), quantization: str = "none") -> Capability:
    """Return inference in fp32 on processors; with quantized weights, of the networks whose products are matrices alone."""
    return Capability(
        tasks=("infer",),
        targets=("cpu-x86", "cpu-arm"),
        kinds=("encoder", "vision", "convolutional") if quantization == "none" else ("encoder", "vision"),
        executions=executions,
        quantizations=(quantization,),
        optimizers=("none",),
        attentions=("math",),
    )
