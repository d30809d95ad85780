"""OpenVINO: the configuration of a compiled model as JSON, and the script that compiles with it."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from typing import Any

from advisor.export import _rules
from advisor.export._known import known
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import header, json_text
from microbench.child import run_child

_TARGETS = "OpenVINO 2024.6 to 2026.4"
_DEADLINE_S = 60.0
_DEVICES = {"cpu-x86": "CPU", "cpu-arm": "CPU", "xpu": "GPU", "npu": "NPU"}
_PRECISIONS = {"fp32": "f32", "tf32": "f32", "bf16": "bf16", "fp16": "f16"}
_HINTS = ("LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT")

_SCRIPT = '''import json
import sys
from pathlib import Path

import openvino as ov


def compile_model(path: str) -> ov.CompiledModel:
    """Return the model (ONNX, IR or another format that OpenVINO reads) compiled with config.json."""
    config = json.loads(Path(__file__).with_name("config.json").read_text())
    return ov.Core().compile_model(path, "DEVICE", config)


if __name__ == "__main__":
    compiled = compile_model(sys.argv[1])
    for port in compiled.inputs:
        print(port.any_name, port.partial_shape, port.element_type)
'''


def obstacle(answer: Answer) -> str | None:
    """Return why OpenVINO cannot run the plan, or None."""
    p = answer.plan
    if answer.is_training:
        return "OpenVINO answers requests; `torchrun` trains"
    if answer.target not in _DEVICES:
        return f"OpenVINO runs on CPUs and Intel GPUs and NPUs, not on {answer.target}"
    if p.tp * p.pp * p.cp > 1:
        return "a compiled model runs on one device"
    if p.precision not in _PRECISIONS:
        return f"OpenVINO has no inference precision {p.precision}"
    if p.quantization not in ("none", "int8", "int8-dynamic", "int8-static"):
        return f"{p.quantization} weights are made by NNCF before, and are no property of a compiled model"
    return None


def config(answer: Answer) -> dict[str, str]:
    """Return the properties; values are text, as the C++ and Python interfaces take them from a file."""
    p = answer.plan
    found = {"PERFORMANCE_HINT": "THROUGHPUT" if p.dp > 1 else "LATENCY", "INFERENCE_PRECISION_HINT": _PRECISIONS[p.precision]}
    if answer.is_cpu:
        found |= {"NUM_STREAMS": str(max(1, p.dp)), "INFERENCE_NUM_THREADS": str(max(1, p.threads)), "ENABLE_CPU_PINNING": "YES"}
        if p.quantization == "int8-dynamic":
            # Group size of dynamic quantization of activations; 0 would turn it off.
            found["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "32"
    return found


def write(answer: Answer) -> Files:
    """Return config.json and run.py. JSON has no comments: the header stands in run.py."""
    notes = [f"Batches of {answer.plan.micro_batch}."]
    if answer.plan.quantization != "none":
        notes.append("The weights are quantized before: nncf.compress_weights, or nncf.quantize with samples.")
    return {
        "config.json": json_text(config(answer)),
        "run.py": header(answer, _TARGETS, *notes) + _SCRIPT.replace("DEVICE", _DEVICES[answer.target]),
    }


def check(files: Files, answer: Answer) -> Checked:
    """Compile a one-operator model with the properties where OpenVINO is installed; else check names and values."""
    properties = known("openvino")
    validators = ["JSON parser", properties.title, "our rules"]
    try:
        found: Any = json.loads(files["config.json"])
    except ValueError as error:
        return Checked(validators=tuple(validators[:1]), problems=(f"config.json is not JSON: {error}",))
    if not isinstance(found, dict):
        return Checked(validators=tuple(validators[:1]), problems=("config.json is not an object",))
    problems = [*properties.problems(found), *_values(found), *_rules.differences(found, config(answer))]
    _, wrong = _rules.literals(files["run.py"])
    problems += [f"run.py: {text}" for text in wrong]
    if find_spec("openvino") is not None and answer.is_cpu:
        validators.insert(0, "OpenVINO's CPU plug-in")
        problems += _compiled(found)
    return Checked(validators=tuple(validators), problems=(*problems, *_rules.arithmetic(answer)))


def _values(found: dict[str, Any]) -> list[str]:
    problems = []
    if "PERFORMANCE_HINT" in found and found["PERFORMANCE_HINT"] not in _HINTS:
        problems.append(f"PERFORMANCE_HINT is one of {', '.join(_HINTS)}, not {found['PERFORMANCE_HINT']!r}")
    for name in ("NUM_STREAMS", "INFERENCE_NUM_THREADS", "DYNAMIC_QUANTIZATION_GROUP_SIZE"):
        value = str(found.get(name, "0"))
        if not value.isdigit() and not (name == "NUM_STREAMS" and value == "AUTO"):
            problems.append(f"{name} is a count, not {found[name]!r}")
    switches = [n for n in ("ENABLE_CPU_PINNING", "ENABLE_HYPER_THREADING") if found.get(n, "YES") not in ("YES", "NO", True, False)]
    problems += [f"{name} is YES or NO, not {found[name]!r}" for name in switches]
    if found.get("INFERENCE_PRECISION_HINT", "f32") not in _PRECISIONS.values():
        problems.append(f"INFERENCE_PRECISION_HINT is one of f32, bf16, f16, not {found['INFERENCE_PRECISION_HINT']!r}")
    return problems


def _compiled(found: dict[str, Any]) -> list[str]:
    code = (
        "import json, sys\nimport numpy as np\nimport openvino as ov\nfrom openvino import opset13 as ops\n"
        "x = ops.parameter([1, 4], np.float32)\nmodel = ov.Model([ops.relu(x)], [x])\n"
        "ov.Core().compile_model(model, 'CPU', json.load(sys.stdin))\n"
    )
    child = run_child([sys.executable, "-c", code], stdin=json.dumps(found), timeout_s=_DEADLINE_S)
    return [] if child.status == "ok" else [f"OpenVINO: {child.reason}"]


EXPORTER = Exporter(
    name="openvino", title="OpenVINO configuration and script", targets=_TARGETS, obstacle=obstacle, write=write, check=check
)
