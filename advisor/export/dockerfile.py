"""A Dockerfile with the framework at the version that was measured, or the one the formats are written against."""

from __future__ import annotations

import json
import re
import shlex

from advisor.export import _rules
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.export._text import header

_TARGETS = "Docker BuildKit (Dockerfile syntax 1)"
_FILE = "Dockerfile"
_PYTHON = "python:3.11-slim"
#: Versions the formats were written against, where this machine has not measured the framework.
_WRITTEN_FOR = {
    "torch": "2.13.0", "jax": "0.10.2", "onnxruntime": "1.32.0", "openvino": "2026.4.1", "deepspeed": "0.19.8", "vllm": "0.33.0",
    "tensorrt-llm": "1.2.1", "megatron": "0.19.2", "tensorflow": "2.21.0",
}  # fmt: skip
_DISTRIBUTIONS = {"megatron": "megatron-core", "onnxruntime": "onnxruntime", "tensorflow": "tensorflow"}
#: Images that their makers publish with the engine inside.
_IMAGES = {"vllm": "vllm/vllm-openai:v{version}", "tensorrt-llm": "nvcr.io/nvidia/tensorrt-llm/release:{version}"}
_INSTRUCTIONS = {
    "FROM", "RUN", "CMD", "LABEL", "EXPOSE", "ENV", "ADD", "COPY", "ENTRYPOINT", "VOLUME", "USER", "WORKDIR", "ARG", "ONBUILD",
    "STOPSIGNAL", "HEALTHCHECK", "SHELL",
}  # fmt: skip


def obstacle(answer: Answer) -> str | None:
    """Return why no image can be described, or None."""
    if answer.plan.framework not in (*_WRITTEN_FOR, *answer.versions):
        return f"no version of {answer.plan.framework} is known here; bring it with its own installer"
    if answer.target in ("npu", "gaudi", "neuron", "mps", "rocm"):
        return f"images for {answer.target} come from its vendor with a driver inside"
    return None


def _version(answer: Answer) -> tuple[str, bool]:
    """Return the version without a build tag, and whether it was measured here."""
    name = answer.plan.framework
    measured = name in answer.versions
    return (answer.versions[name] if measured else _WRITTEN_FOR[name]).partition("+")[0], measured


def _requirement(answer: Answer) -> list[str]:
    """Return pip's arguments for the framework."""
    name, (version, _) = answer.plan.framework, _version(answer)
    if name == "torch":
        index = {"cpu": "cpu", "xpu": "xpu"}.get("cpu" if answer.is_cpu else answer.target)
        # On CUDA the wheels of PyPI carry it; the others have an index of their own (pytorch.org, "Get started").
        return [f"torch=={version}", *([f"--index-url=https://download.pytorch.org/whl/{index}"] if index else [])]
    if name == "jax":
        extra = {"cuda": "[cuda13]", "tpu": "[tpu]"}.get(answer.target, "")
        return [f"jax{extra}=={version}"]
    if name == "onnxruntime" and answer.target == "cuda":
        return [f"onnxruntime-gpu=={version}"]
    return [f"{_DISTRIBUTIONS.get(name, name)}=={version}"]


def write(answer: Answer) -> Files:
    """Return the Dockerfile; it takes the launch files that lie beside it."""
    name, (version, measured) = answer.plan.framework, _version(answer)
    known = "the version measured on this machine" if measured else "what the formats are written against; it is not measured here"
    notes = [f"{name} {version} is {known}."]
    notes.append("Build it in the folder of the launch files: docker build -t plan . && docker run --rm --ipc=host plan")
    if answer.target == "cuda":
        notes[-1] = notes[-1].replace("--rm", "--rm --gpus=all")
    lines = ["# syntax=docker/dockerfile:1", header(answer, _TARGETS, *notes).rstrip("\n")]
    if name in _IMAGES:
        lines.append(f"FROM {_IMAGES[name].format(version=version)}")
    else:
        lines += [f"FROM {_PYTHON}", f"RUN pip install --no-cache-dir {shlex.join([*_requirement(answer), 'numpy'])}"]
    lines += [f'LABEL plan="{answer.plan_id}"', "WORKDIR /work", "COPY . /work"]
    if answer.is_cpu:
        lines.append(f"ENV OMP_NUM_THREADS={max(1, answer.plan.threads)}")
    lines += ["USER 1000", "ENV HOME=/tmp"]
    if name in _IMAGES:
        lines.append("ENTRYPOINT []")
    lines.append(f"CMD {json.dumps(_start(answer))}")
    return {_FILE: "\n".join(lines) + "\n"}


def _start(answer: Answer) -> list[str]:
    if answer.plan.framework == "onnxruntime":
        return ["python", "session.py", "model.onnx"]
    if answer.plan.framework == "jax":
        return ["python", "train.py" if answer.is_training else "infer.py"]
    return ["bash", "run.sh"]


def check(files: Files, answer: Answer) -> Checked:
    """Check instructions, the pinned version, and the forms that Docker reads as JSON."""
    problems: list[str] = []
    joined = re.sub(r"\\\n\s*", " ", files[_FILE])
    lines = [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]
    words = [line.partition(" ")[::2] for line in lines]
    problems += [f"Docker has no instruction {word}" for word, _ in words if word.upper() not in _INSTRUCTIONS]
    kinds = [word.upper() for word, _ in words]
    if not kinds or kinds[0] not in ("FROM", "ARG"):
        problems.append("a Dockerfile begins with FROM")
    if kinds.count("CMD") > 1:
        problems.append("only the last CMD counts, there are several")
    for word, rest in words:
        if word.upper() in ("CMD", "ENTRYPOINT") and rest.startswith("["):
            problems += _exec_form(word, rest)
        if word.upper() == "FROM" and (not re.search(r":[\w.-]+", rest) or rest.split()[0].endswith(":latest")):
            problems.append(f"FROM {rest} names no version")
    problems += _pins(words, answer)
    return Checked(validators=("our Dockerfile rules",), problems=(*problems, *_rules.arithmetic(answer)))


def _exec_form(word: str, rest: str) -> list[str]:
    try:
        value = json.loads(rest)
    except ValueError:
        return [f"{word} {rest} is not a JSON list: Docker would run it in a shell"]
    return [] if isinstance(value, list) and all(isinstance(v, str) for v in value) else [f"{word} takes a list of text, not {rest}"]


def _pins(words: list[tuple[str, str]], answer: Answer) -> list[str]:
    name, (version, _) = answer.plan.framework, _version(answer)
    if name in _IMAGES:
        image = _IMAGES[name].format(version=version)
        return [] if ("FROM", image) in words else [f"the image is not {image}"]
    wanted = _requirement(answer)[0]
    try:
        installed = [w for word, rest in words if word.upper() == "RUN" and "pip install" in rest for w in shlex.split(rest)]
    except ValueError as error:
        return [f"RUN: {error}"]
    unpinned = [w for w in installed if w.partition("==")[0] == wanted.partition("==")[0] and w != wanted]
    problems = [f"{w} is installed, the plan wants {wanted}" for w in unpinned]
    return problems if wanted in installed or problems else [f"{wanted} is not installed"]


EXPORTER = Exporter(
    name="dockerfile", title="Dockerfile with the measured versions", targets=_TARGETS, obstacle=obstacle, write=write, check=check
)
