"""KServe: an InferenceService and, for text generators, the newer LLMInferenceService."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from advisor.errors import UsageError
from advisor.export import _rules, vllm
from advisor.export._known import known
from advisor.export._serving import MEMORY_SHARE, sequences, tokens_per_step, weights, weights_note
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import header, slug, yaml_text
from advisor.yamlio import parse_yaml

_TARGETS = "KServe 0.15 to 0.17 (serving.kserve.io v1beta1, v1alpha2)"
_SERVICE, _LLM = "inferenceservice.yaml", "llminferenceservice.yaml"
#: The resource that a device plug-in gives the devices of a target.
_RESOURCES = {
    "cuda": "nvidia.com/gpu",
    "rocm": "amd.com/gpu",
    "xpu": "gpu.intel.com/i915",
    "gaudi": "habana.ai/gaudi",
    "tpu": "google.com/tpu",
}
#: Host memory for a pod besides what it loads through: the weights once, and a margin for the server.
_HOST_MARGIN_GIB = 8
_CPUS_PER_DEVICE = 4
#: Replicas the autoscaler may add over those of the plan.
_HEADROOM = 2


def obstacle(answer: Answer) -> str | None:
    """Return why KServe cannot serve the plan, or None."""
    p = answer.plan
    if answer.is_training:
        return "KServe serves; the plan trains"
    if not answer.is_cpu and answer.target not in _RESOURCES:
        return f"no Kubernetes device plug-in is known for {answer.target}"
    if answer.model["kind"] == "decoder":
        if p.tp * p.pp > answer.processes_per_node:
            return f"a replica of {p.tp * p.pp} devices does not fit a node of {answer.processes_per_node}; write it for `vllm` with Ray"
        return vllm.obstacle(answer)
    if p.tp * p.pp * p.cp > 1:
        return "its Triton and ONNX runtimes run a model on one device"
    return None


def _is_llm(answer: Answer) -> bool:
    return bool(answer.model["kind"] == "decoder")


def _gpus(answer: Answer) -> int:
    return 0 if answer.is_cpu else answer.plan.tp * answer.plan.pp


def _resources(answer: Answer) -> dict[str, Any]:
    parts = answer.estimate.get("memory_parts_bytes") or {}
    loaded = float(parts.get("weights") or 0.0) * max(1, _gpus(answer))
    memory = math.ceil(loaded / 2**30) + _HOST_MARGIN_GIB
    cpus = max(1, answer.plan.threads) if answer.is_cpu else _CPUS_PER_DEVICE * _gpus(answer)
    named = {_RESOURCES[answer.target]: str(_gpus(answer))} if _gpus(answer) else {}
    return {
        "requests": {"cpu": str(cpus), "memory": f"{memory}Gi", **named},
        "limits": {"cpu": str(cpus * 2), "memory": f"{memory * 2}Gi", **named},
    }


def _uri(answer: Answer) -> str:
    name = weights(answer)
    return f"hf://{name}" if _is_llm(answer) else f"pvc://models/{slug(name)}"


def _arguments(answer: Answer) -> list[str]:
    p, sizes = answer.plan, vllm.engine(answer)
    found = [
        f"--tensor-parallel-size={p.tp}",
        f"--pipeline-parallel-size={p.pp}",
        f"--dtype={sizes['dtype']}",
        f"--max-model-len={answer.seq_len}",
        f"--max-num-seqs={sequences(answer)}",
        f"--max-num-batched-tokens={tokens_per_step(answer)}",
        f"--gpu-memory-utilization={MEMORY_SHARE}",
    ]
    return [*found, f"--quantization={sizes['quantization']}"] if "quantization" in sizes else found


def service(answer: Answer) -> dict[str, Any]:
    """Return the InferenceService: a pod is one replica of the plan."""
    llm = _is_llm(answer)
    kind = "huggingface" if llm else "onnx"
    model: dict[str, Any] = {"modelFormat": {"name": kind}, "storageUri": _uri(answer)}
    if llm:
        model["args"] = _arguments(answer)
    else:
        model["runtime"] = "kserve-tritonserver"
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": slug(answer.model["name"])},
        "spec": {
            "predictor": {
                "minReplicas": answer.plan.dp,
                "maxReplicas": answer.plan.dp * _HEADROOM,
                "scaleMetric": "concurrency",
                "scaleTarget": sequences(answer),
                "model": {**model, "resources": _resources(answer)},
            }
        },
    }


def llm_service(answer: Answer) -> dict[str, Any]:
    """Return the LLMInferenceService, whose controller starts vLLM."""
    p, name = answer.plan, slug(answer.model["name"])
    parallelism: dict[str, Any] = {"tensor": p.tp, "pipeline": p.pp}
    if p.ep > 1:
        parallelism["expert"] = True
    skip = ("--tensor-parallel-size", "--pipeline-parallel-size")
    arguments = " ".join(word for word in _arguments(answer) if not word.startswith(skip))
    container = {"name": "main", "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": arguments}], "resources": _resources(answer)}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": name},
        "spec": {
            "model": {"uri": _uri(answer), "name": str(answer.model["name"])},
            "replicas": p.dp,
            "parallelism": parallelism,
            "template": {"containers": [container]},
            "router": {"gateway": {}, "route": {}, "scheduler": {}},
        },
    }


def write(answer: Answer) -> Files:
    """Return inferenceservice.yaml and, for a text generator, llminferenceservice.yaml: apply one of them."""
    if not _is_llm(answer):
        note = "storageUri is a volume with Triton's model repository; `--format triton` writes its configuration."
        return {_SERVICE: header(answer, _TARGETS, note) + yaml_text(service(answer))}
    notes = (weights_note(answer), f"Apply {_SERVICE} or {_LLM}, not both.")
    return {
        _SERVICE: header(answer, _TARGETS, *notes) + yaml_text(service(answer)),
        _LLM: header(answer, _TARGETS, *notes) + yaml_text(llm_service(answer)),
    }


def check(files: Files, answer: Answer) -> Checked:
    """Check both kinds against the fields of their schemas, resource counts and names, and the plan."""
    fields = known("kserve")
    problems: list[str] = []
    wanted = {_SERVICE: ("isvc", service)} | ({_LLM: ("llm", llm_service)} if _is_llm(answer) else {})
    for file, (prefix, build) in wanted.items():
        try:
            document = parse_yaml(files[file], file)
        except UsageError as error:
            problems.append(error.message)
            continue
        if not isinstance(document, dict):
            problems.append(f"{file} is not a mapping")
            continue
        found, expected = (fields.flat(d, f"{prefix}.") for d in (document, build(answer)))
        wrong = [*fields.problems(found), *_rules.differences(found, {n: v for n, v in expected.items() if n not in _FREE})]
        wrong += _names(found, prefix) + _arguments_problems(found, answer) + _counts(document, answer)
        problems += [f"{file}: {text.replace(f'{prefix}.', '')}" for text in wrong]
    return Checked(
        validators=("YAML parser", fields.title, "our rules"), problems=tuple(dict.fromkeys([*problems, *_rules.arithmetic(answer)]))
    )


_FREE = {
    "isvc.metadata.name", "isvc.spec.predictor.minReplicas", "isvc.spec.predictor.maxReplicas", "isvc.spec.predictor.scaleTarget",
    "isvc.spec.predictor.scaleMetric", "isvc.spec.predictor.model.storageUri", "isvc.spec.predictor.model.args",
    "isvc.spec.predictor.model.resources.requests", "isvc.spec.predictor.model.resources.limits", "isvc.spec.predictor.model.runtime",
    "llm.metadata.name", "llm.spec.model.uri", "llm.spec.model.name", "llm.spec.replicas", "llm.spec.template.containers",
    "llm.spec.router.gateway", "llm.spec.router.route", "llm.spec.router.scheduler",
}  # fmt: skip


def _names(found: Mapping[str, Any], prefix: str) -> list[str]:
    name = found.get(f"{prefix}.metadata.name")
    # RFC 1123 label, which Kubernetes asks of the service it makes.
    problems = (
        []
        if isinstance(name, str) and re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name)
        else [f"metadata.name {name!r} is no DNS label"]
    )
    low, high = (found.get(f"isvc.spec.predictor.{n}Replicas") for n in ("min", "max"))
    if isinstance(low, int) and isinstance(high, int) and 0 < high < low:
        problems.append(f"maxReplicas {high} is below minReplicas {low}")
    return problems


def _arguments_problems(found: Mapping[str, Any], answer: Answer) -> list[str]:
    words = found.get("isvc.spec.predictor.model.args")
    if not isinstance(words, list) or not _is_llm(answer):
        return []
    given = dict(str(word).removeprefix("--").partition("=")[::2] for word in words)
    unknown = [f"args: vLLM has no option {name}" for name in given if name not in known("vllm").keys]
    p = answer.plan
    return unknown + _rules.differences(
        given, {"tensor-parallel-size": p.tp, "pipeline-parallel-size": p.pp, "max-model-len": answer.seq_len}
    )


def _counts(document: Mapping[str, Any], answer: Answer) -> list[str]:
    """Return where devices are asked for in another number than a replica has, or where request and limit differ."""
    resources = list(_all_resources(document))
    if not resources:
        return ["no resources are given"]
    name = _RESOURCES.get(answer.target)
    problems = []
    for part in resources:
        asked, most = (part.get(kind) if isinstance(part.get(kind), dict) else {} for kind in ("requests", "limits"))
        one, other = (str(d.get(name)) if d and name in d else None for d in (asked, most))
        if one != other:
            problems.append(f"{name} is requested as {one} and limited to {other}; Kubernetes wants the same")
        if name and not answer.is_cpu and one != str(_gpus(answer)):
            problems.append(f"{name} is {one}, a replica of the plan has tp {answer.plan.tp} · pp {answer.plan.pp} = {_gpus(answer)}")
        for key, value in {**(asked or {}), **(most or {})}.items():
            if not re.fullmatch(r"\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?", str(value)):
                problems.append(f"{key} {value!r} is no Kubernetes quantity")
    return problems


def _all_resources(node: Any) -> Any:
    if isinstance(node, dict):
        if isinstance(node.get("resources"), dict):
            yield node["resources"]
        for value in node.values():
            yield from _all_resources(value)
    elif isinstance(node, list):
        for value in node:
            yield from _all_resources(value)


EXPORTER = Exporter(
    name="kserve", title="KServe InferenceService and LLMInferenceService", targets=_TARGETS, obstacle=obstacle, write=write, check=check
)
