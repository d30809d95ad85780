"""ONNX Runtime: session options and providers as a Python module."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from typing import Any

from advisor.export import _rules
from advisor.export._known import known
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import header, literal
from microbench.child import run_child

_TARGETS = "ONNX Runtime 1.20 to 1.32"
_FILE = "session.py"
_DEADLINE_S = 60.0
_PROVIDERS = {"cuda": "CUDAExecutionProvider", "rocm": "MIGraphXExecutionProvider"}
_OPTIONS = {
    "intra_op_num_threads": int, "inter_op_num_threads": int, "execution_mode": str, "graph_optimization_level": str,
    "enable_mem_pattern": bool, "enable_cpu_mem_arena": bool, "enable_profiling": bool, "enable_mem_reuse": bool,
    "log_severity_level": int, "log_verbosity_level": int, "optimized_model_filepath": str, "use_deterministic_compute": bool,
}  # fmt: skip
#: onnxruntime docs, "CUDA Execution Provider", configuration options of 1.32 that a plan or a person would set.
_PROVIDER_OPTIONS = {
    "CUDAExecutionProvider": {
        "device_id", "gpu_mem_limit", "arena_extend_strategy", "cudnn_conv_algo_search", "do_copy_in_default_stream",
        "cudnn_conv_use_max_workspace", "enable_cuda_graph", "use_tf32", "prefer_nhwc", "fuse_conv_bias", "user_compute_stream",
        "cudnn_conv1d_pad_to_nc1d", "enable_skip_layer_norm_strict_mode", "use_ep_level_unified_stream", "sdpa_kernel",
    },
    "CPUExecutionProvider": {"use_arena"},
    "MIGraphXExecutionProvider": {"device_id", "migraphx_fp16_enable", "migraphx_int8_enable", "migraphx_exhaustive_tune"},
}  # fmt: skip

_BODY = '''

def make_session(path: str) -> ort.InferenceSession:
    """Return a session on the ONNX file ``path`` with the options of the plan."""
    options = ort.SessionOptions()
    for name, value in OPTIONS.items():
        if name == "execution_mode":
            value = getattr(ort.ExecutionMode, value)
        elif name == "graph_optimization_level":
            value = getattr(ort.GraphOptimizationLevel, value)
        setattr(options, name, value)
    for name, value in ENTRIES.items():
        options.add_session_config_entry(name, value)
    session = ort.InferenceSession(path, options, providers=PROVIDERS)
    # A provider that cannot be loaded is only warned of, and the model then runs on the CPU.
    if session.get_providers()[0] != PROVIDERS[0][0]:
        raise RuntimeError(f"{PROVIDERS[0][0]} could not be loaded, the session has {session.get_providers()}")
    return session


if __name__ == "__main__":
    session = make_session(sys.argv[1])
    for value in session.get_inputs():
        print(value.name, value.type, value.shape)
'''

_QUANTIZE = '''

def quantize(path: str, quantized: str) -> None:
    """Write the file with int8 weights that the plan runs (activations are quantized as they come)."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(path, quantized, weight_type=QuantType.QInt8)
'''


def obstacle(answer: Answer) -> str | None:
    """Return why ONNX Runtime cannot run the plan, or None."""
    p = answer.plan
    if answer.is_training:
        return "the session answers requests; `torchrun` trains"
    if p.tp * p.pp * p.cp > 1:
        return f"a session runs on one device, the plan splits the model over {p.tp * p.pp * p.cp}"
    if not answer.is_cpu and answer.target not in _PROVIDERS:
        return f"no execution provider is written for {answer.target}"
    if p.quantization not in ("none", "int8-dynamic"):
        return f"{p.quantization} weights are no option of a session"
    return None


def settings(answer: Answer) -> dict[str, Any]:
    """Return OPTIONS, ENTRIES and PROVIDERS, the literals of the module."""
    p = answer.plan
    options = {
        "intra_op_num_threads": max(1, p.threads),
        "inter_op_num_threads": 1,
        "execution_mode": "ORT_SEQUENTIAL",
        "graph_optimization_level": "ORT_ENABLE_ALL",
    }
    # Idle threads that spin take the cores of the next process; where the session has the machine to itself they answer sooner.
    entries = {"session.intra_op.allow_spinning": "1" if p.dp == 1 else "0"}
    providers: list[tuple[str, dict[str, str]]] = [("CPUExecutionProvider", {})]
    if answer.target == "cuda":
        cuda = {
            "cudnn_conv_algo_search": "HEURISTIC",
            "arena_extend_strategy": "kSameAsRequested",
            "use_tf32": str(int(p.precision == "tf32")),
        }
        providers.insert(0, (_PROVIDERS["cuda"], cuda))
    elif answer.target == "rocm":
        providers.insert(0, (_PROVIDERS["rocm"], {"migraphx_fp16_enable": str(int(p.precision == "fp16"))}))
    return {"OPTIONS": options, "ENTRIES": entries, "PROVIDERS": providers}


def write(answer: Answer) -> Files:
    """Return session.py."""
    p = answer.plan
    notes = [f"Batches of {p.micro_batch}; use: python session.py model.onnx, or from session import make_session."]
    if p.precision in ("fp16", "bf16"):
        notes.append(f"The ONNX file is one in {p.precision}: convert it before (onnxconverter-common float16, or export it so).")
    if p.dp > 1:
        notes.append(f"One process with this session for each of {p.dp} devices (CUDA_VISIBLE_DEVICES).")
    constants = "".join(literal(name, value) for name, value in settings(answer).items())
    body = _BODY if p.quantization == "none" else _QUANTIZE + _BODY
    return {_FILE: f"{header(answer, _TARGETS, *notes)}import sys\n\nimport onnxruntime as ort\n\n{constants}{body}"}


def check(files: Files, answer: Answer) -> Checked:
    """Build a session of a one-operator model with the options where onnxruntime is installed; check what it lets pass."""
    keys = known("onnxruntime")
    found, problems = _rules.literals(files[_FILE], "OPTIONS", "ENTRIES", "PROVIDERS")
    validators = ["Python's parser", keys.title, "our rules"]
    if not problems:
        problems += _shapes(found)
    if not problems:
        problems += keys.problems(found["ENTRIES"])
        problems += _providers(found["PROVIDERS"], answer)
        if find_spec("onnxruntime") is not None:
            validators.insert(0, "an onnxruntime session")
            problems += _session(found)
        problems += _rules.differences(found["OPTIONS"], {"intra_op_num_threads": max(1, answer.plan.threads)})
    return Checked(validators=tuple(validators), problems=(*problems, *_rules.arithmetic(answer)))


def _shapes(found: dict[str, Any]) -> list[str]:
    problems = []
    if not isinstance(found["OPTIONS"], dict) or not isinstance(found["ENTRIES"], dict) or not isinstance(found["PROVIDERS"], list):
        return ["OPTIONS and ENTRIES are mappings, PROVIDERS a list"]
    for name, value in found["OPTIONS"].items():
        kind = _OPTIONS.get(name)
        if kind is None:
            problems.append(f"SessionOptions has no {name}")
        elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            problems.append(f"{name} must be {kind.__name__}, not {value!r}")
    problems += [f"the value of {n} is text, not {v!r}" for n, v in found["ENTRIES"].items() if not isinstance(v, str)]
    for entry in found["PROVIDERS"]:
        if not (isinstance(entry, tuple | list) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], dict)):
            problems.append(f"a provider is (name, options), not {entry!r}")
    return problems


def _providers(providers: list[Any], answer: Answer) -> list[str]:
    problems = []
    for name, options in providers:
        allowed = _PROVIDER_OPTIONS.get(name)
        if allowed is None:
            problems.append(f"{name} is not a provider for this plan")
        else:
            problems += [f"{name} has no option {option}" for option in options if option not in allowed]
    wanted = settings(answer)["PROVIDERS"][0][0]
    if not providers or providers[0][0] != wanted:
        problems.append(f"the first provider is {providers[0][0] if providers else None}, the plan runs on {wanted}")
    return problems


def _session(found: dict[str, Any]) -> list[str]:
    code = (
        "import json, sys\nimport onnxruntime as ort\nfrom advisor.frameworks.onnxruntime import _IDENTITY\n"
        "found = json.load(sys.stdin)\noptions = ort.SessionOptions()\n"
        "enums = {'execution_mode': ort.ExecutionMode, 'graph_optimization_level': ort.GraphOptimizationLevel}\n"
        "for name, value in found['OPTIONS'].items():\n"
        "    setattr(options, name, getattr(enums[name], value) if name in enums else value)\n"
        "for name, value in found['ENTRIES'].items():\n    options.add_session_config_entry(name, value)\n"
        "here = [(n, o) for n, o in found['PROVIDERS'] if n in ort.get_available_providers()]\n"
        "session = ort.InferenceSession(bytes.fromhex(_IDENTITY), options, providers=here)\n"
        "assert not here or session.get_providers()[0] == here[0][0], session.get_providers()\n"
    )
    child = run_child([sys.executable, "-c", code], stdin=json.dumps(found), timeout_s=_DEADLINE_S)
    return [] if child.status == "ok" else [f"onnxruntime: {child.reason}"]


EXPORTER = Exporter(name="onnxruntime", title="ONNX Runtime session options", targets=_TARGETS, obstacle=obstacle, write=write, check=check)
