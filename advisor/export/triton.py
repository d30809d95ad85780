"""Triton Inference Server: a model repository entry, its config.pbtxt with batching and instances."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from advisor.export import _pbtxt, _rules, vllm
from advisor.export._pbtxt import Enum, Message
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import header, json_text, slug

_TARGETS = "Triton Inference Server 2.40 to 2.73"
#: How long a request may wait for others to fill a batch, in microseconds: Triton's guide starts at a small part of the latency.
_QUEUE_DELAY_US = 2000
_QUEUE_SHARE = 0.1


def obstacle(answer: Answer) -> str | None:
    """Return why Triton cannot serve the plan, or None."""
    p = answer.plan
    if answer.is_training:
        return "Triton serves; the plan trains"
    if answer.model["kind"] == "decoder":
        return vllm.obstacle(answer)
    if answer.model["kind"] not in ("encoder", "vision", "convolutional"):
        return f"a model of the kind {answer.model['kind']} is more than one ONNX graph"
    if p.tp * p.pp * p.cp > 1:
        return f"its ONNX Runtime backend runs a model on one device, the plan splits it over {p.tp * p.pp * p.cp}"
    return None


def _is_llm(answer: Answer) -> bool:
    return bool(answer.model["kind"] == "decoder")


def _group(answer: Answer) -> Message:
    if answer.is_cpu:
        return [("count", max(1, answer.plan.dp)), ("kind", Enum("KIND_CPU"))]
    return [("count", 1), ("kind", Enum("KIND_GPU")), ("gpus", list(range(answer.processes_per_node)))]


def _tensors(answer: Answer) -> Message:
    if answer.model["kind"] == "encoder":
        names = ("input_ids", "attention_mask")
        inputs = [("input", [("name", n), ("data_type", Enum("TYPE_INT64")), ("dims", [-1])]) for n in names]
        width = int(answer.transformer["hidden"])
        return [*inputs, ("output", [("name", "last_hidden_state"), ("data_type", Enum("TYPE_FP32")), ("dims", [-1, width])])]
    side = int(answer.model.get("resolution") or 224)
    return [
        ("input", [("name", "input"), ("data_type", Enum("TYPE_FP32")), ("dims", [3, side, side])]),
        ("output", [("name", "output"), ("data_type", Enum("TYPE_FP32")), ("dims", [1000])]),
    ]


def message(answer: Answer) -> Message:
    """Return the ModelConfig of the plan."""
    name = slug(answer.model["name"])
    if _is_llm(answer):
        group = [("count", 1), ("kind", Enum("KIND_MODEL"))]
        return [("name", name), ("backend", "vllm"), ("instance_group", group), ("model_transaction_policy", [("decoupled", True)])]
    largest = max(1, answer.plan.micro_batch)
    fields: Message = [("name", name), ("platform", "onnxruntime_onnx"), ("max_batch_size", largest), *_tensors(answer)]
    fields.append(("instance_group", _group(answer)))
    if largest > 1:
        preferred = sorted({max(1, largest // 2), largest})
        fields.append(("dynamic_batching", [("preferred_batch_size", preferred), ("max_queue_delay_microseconds", _delay_us(answer))]))
    if answer.is_cpu:
        for key, value in (("intra_op_thread_count", answer.plan.threads), ("inter_op_thread_count", 1)):
            fields.append(("parameters", [("key", key), ("value", [("string_value", str(value))])]))
    return fields


def _delay_us(answer: Answer) -> int:
    """A tenth of the estimated latency of a batch, where there is one, within Triton's usual range."""
    latency = answer.estimate.get("latency_s") or {}
    value = latency.get("value") if isinstance(latency, dict) else None
    return max(100, min(100_000, int(value * _QUEUE_SHARE * 1e6))) if value else _QUEUE_DELAY_US


def _engine(answer: Answer) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in vllm.engine(answer).items() if name != "data-parallel-size"}


def write(answer: Answer) -> Files:
    """Return config.pbtxt below a folder of the model's name and, for a text generator, the engine's model.json."""
    name = slug(answer.model["name"])
    notes = ["Adjust the names and shapes of inputs and outputs to those of your ONNX file, which is 1/model.onnx."]
    if _is_llm(answer):
        notes = [f"One server holds one replica (of {answer.plan.dp}); the engine's options are in 1/model.json."]
    files = {f"{name}/config.pbtxt": header(answer, _TARGETS, *notes) + _pbtxt.dump(message(answer))}
    if _is_llm(answer):
        files[f"{name}/1/model.json"] = json_text(_engine(answer))
    return files


@cache
def _types() -> dict[str, dict[str, str]]:
    from advisor.yamlio import read_yaml

    types: dict[str, dict[str, str]] = read_yaml(Path(__file__).parent / "known" / "triton.yaml")["messages"]
    return types


def check(files: Files, answer: Answer) -> Checked:
    """Parse config.pbtxt with Triton's own message where tritonclient is installed and with ours; then what parsers let pass."""
    name = slug(answer.model["name"])
    text = files[f"{name}/config.pbtxt"]
    validators, problems = ["our parser with the fields of Triton 2.73"], []
    if find_spec("tritonclient") is not None:
        validators.insert(0, "tritonclient's ModelConfig")
        problems += _official(text)
    try:
        fields = _pbtxt.parse(text)
    except _pbtxt.PbtxtError as error:
        return Checked(validators=tuple(validators), problems=(*problems, f"config.pbtxt: {error}"))
    wrong = _pbtxt.problems(fields, _types(), "ModelConfig")
    problems += wrong or _semantics(fields, answer)
    if _is_llm(answer):
        problems += _engine_problems(files[f"{name}/1/model.json"], answer)
    return Checked(validators=(*validators, "our rules"), problems=(*problems, *_rules.arithmetic(answer)))


def _official(text: str) -> list[str]:
    try:
        from google.protobuf import text_format
        from tritonclient.grpc import model_config_pb2
    except ImportError:
        return []
    try:
        text_format.Parse(text, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        return [f"config.pbtxt: {error}"]
    return []


def _semantics(fields: Message, answer: Answer) -> list[str]:
    """Return what Triton refuses only when it loads the model."""
    flat = dict(fields)
    largest = flat.get("max_batch_size", 0)
    problems = _rules.differences(flat, {k: v for k, v in message(answer) if k in ("name", "platform", "backend", "max_batch_size")})
    batching = flat.get("dynamic_batching")
    if isinstance(batching, list):
        preferred = [value for name, value in batching if name == "preferred_batch_size"]
        problems += [f"preferred_batch_size {size} is above max_batch_size {largest}" for size in preferred if size > largest]
    groups = [value for name, value in fields if name == "instance_group"]
    if not groups:
        problems.append("instance_group is missing")
    for group in groups:
        kinds = dict(group)
        gpus = [value for name, value in group if name == "gpus"]
        if kinds.get("count", 1) < 1:
            problems.append(f"an instance group has at least one instance, not {kinds.get('count')}")
        if gpus and kinds.get("kind") == "KIND_CPU":
            problems.append("an instance group of KIND_CPU names no gpus")
        if any(gpu >= answer.processes_per_node or gpu < 0 for gpu in gpus):
            problems.append(f"instance_group names gpus {gpus}, a node has {answer.processes_per_node}")
        if not _is_llm(answer) and kinds.get("kind") != dict(_group(answer))["kind"]:
            problems.append(f"instance_group is {kinds.get('kind')}, the plan runs on {answer.target}")
    return problems


def _engine_problems(text: str, answer: Answer) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError as error:
        return [f"model.json is not JSON: {error}"]
    if not isinstance(found, dict):
        return ["model.json is not an object"]
    wrong = vllm.known("vllm").problems({str(name).replace("_", "-"): value for name, value in found.items()})
    expected = {name: value for name, value in _engine(answer).items() if name not in ("model", "gpu_memory_utilization")}
    return [f"model.json: {text}" for text in (*wrong, *_rules.differences(found, expected))]


EXPORTER = Exporter(
    name="triton", title="Triton model repository entry (config.pbtxt)", targets=_TARGETS, obstacle=obstacle, write=write, check=check
)
