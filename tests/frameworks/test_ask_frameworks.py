"""Asking frameworks in children, and remembering what they said."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.frameworks._spec import FrameworkSpec
from advisor.plugins import discover
from advisor.probe import ask
from advisor.probe.packages import normalize, packages_on
from advisor.probe.records import Device
from advisor.probe.root import Root
from microbench.child import run_child

CPU = Device(id="cpu0", target="cpu-x86", vendor="AMD", name="A CPU", arch="x86_64", state="usable")


def spec_of(query: Any, name: str = "made-up") -> FrameworkSpec:
    return FrameworkSpec(
        name=name, title="Made up", distributions=("made-up",), module="made_up", install="pip install made-up", query=query
    )


def raising(error: BaseException) -> Any:
    def query() -> dict[str, Any]:
        raise error

    return query


def test_every_framework_of_the_contract_has_a_descriptor() -> None:
    specs = {spec.name: spec for spec in discover("advisor.frameworks", "FRAMEWORK")}
    wanted = {"torch", "jax", "onnxruntime", "tensorflow", "openvino", "litert", "tvm", "mindspore", "executorch", "tensorrt"}
    assert wanted <= set(specs)
    for name in wanted:
        assert specs[name].query is not None
        assert specs[name].install.startswith("pip install")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ImportError("libcudart.so.13: cannot open shared object file"), "no_library"),
        (ImportError("/x/libtorch.so: undefined symbol: _ZN3c10"), "version_mismatch"),
        (ImportError("A module that was compiled using numpy 1.x cannot be run"), "version_mismatch"),
        (RuntimeError("no device"), "crashed"),
        (KeyError("x"), "crashed"),
    ],
)
def test_what_a_query_raises_becomes_a_state_with_a_reason(error: Exception, state: str) -> None:
    answer = ask.answer_of(spec_of(raising(error)))
    assert answer["state"] == state
    assert str(error).strip("'") in answer["reason"]


def test_a_child_that_aborts_hangs_or_babbles() -> None:
    aborted = ask.read_answer(run_child([sys.executable, "-c", "import os; os.abort()"], timeout_s=20))
    assert aborted["state"] == "crashed"
    assert "SIGABRT" in aborted["reason"]
    hung = ask.read_answer(run_child([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.3))
    assert hung["state"] == "timeout"
    answer = json.dumps({"state": "usable", "targets": ["cuda"]})
    text = f"print('noise'); print('\\nadvisor-framework-answer {answer}'); print('bye')"
    assert ask.read_answer(run_child([sys.executable, "-c", text], timeout_s=20))["targets"] == ["cuda"]
    broken = ask.read_answer(run_child([sys.executable, "-c", "print('advisor-framework-answer {')"], timeout_s=20))
    assert broken["state"] == "crashed"


def test_a_real_framework_answers_in_its_child() -> None:
    pytest.importorskip("numpy")
    specs = {spec.name: spec for spec in discover("advisor.frameworks", "FRAMEWORK")}
    installed = [name for name in ("onnxruntime", "jax", "torch") if ask.installed_as(specs[name], ask.installed_packages())]
    if not installed:
        pytest.skip("no framework is installed")
    answer = ask.ask_framework(specs[installed[0]])
    assert answer["state"] == "usable", answer
    assert answer["version"]
    assert any(target.startswith("cpu-") for target in answer["targets"])


@pytest.fixture
def one_framework(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make one made-up framework the only one known, installed as 1.0; return the names asked so far."""
    asked: list[str] = []

    def answer(spec: FrameworkSpec) -> dict[str, Any]:
        asked.append(spec.name)
        return {"state": "usable", "reason": None, "version": "1.0", "build": "cpu", "targets": ["cpu-x86"], "detail": {"a": 1}}

    absent = replace(spec_of(dict, "absent-one"), distributions=("nowhere",), install="pip install nowhere")
    monkeypatch.setattr(ask, "discover", lambda package, attribute: (spec_of(dict), absent))
    monkeypatch.setattr(ask, "installed_packages", lambda: {"made-up": "1.0"})
    monkeypatch.setattr(ask, "ask_framework", answer)
    return asked


def test_not_asked_then_asked_then_remembered(one_framework: list[str], advisor_home: Path) -> None:
    root = Root(Path("/"), {})
    before = ask.known_frameworks(root, [CPU], ask=False)
    assert [(item.name, item.state, item.reason) for item in before] == [
        ("made-up", "unknown", "not queried yet"),
        ("absent-one", "no_library", "not installed"),
    ]
    assert before[1].version is None
    assert before[1].fix == "pip install nowhere"
    assert one_framework == []
    asked = ask.known_frameworks(root, [CPU], ask=True)[0]
    assert (asked.state, asked.targets, asked.build, asked.details) == ("usable", ("cpu-x86",), "cpu", {"a": 1})
    assert ask.known_frameworks(root, [CPU], ask=False)[0] == asked
    assert one_framework == ["made-up"]


def test_an_answer_of_another_environment_is_not_given(
    one_framework: list[str], advisor_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(Path("/"), {})
    ask.known_frameworks(root, [CPU], ask=True)
    gpu = replace(CPU, id="0000:01:00.0", target="cuda")
    assert ask.known_frameworks(root, [CPU, gpu], ask=False)[0].state == "unknown"
    assert ask.known_frameworks(Root(Path("/"), {"CUDA_VISIBLE_DEVICES": "0"}), [CPU], ask=False)[0].state == "unknown"
    monkeypatch.setattr(ask, "installed_packages", lambda: {"made-up": "1.0", "numpy": "9"})
    assert ask.known_frameworks(root, [CPU], ask=False)[0].state == "unknown"
    monkeypatch.setattr(ask, "installed_packages", lambda: {"made-up": "1.0", "unrelated": "9"})
    assert ask.known_frameworks(root, [CPU], ask=False)[0].state == "usable"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"made-up": 3}', '{"made-up": {"x": []}}'])
def test_a_damaged_cache_is_no_cache(one_framework: list[str], advisor_home: Path, text: str) -> None:
    path = advisor_home / "cache" / "frameworks.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert ask.known_frameworks(Root(Path("/"), {}), [CPU], ask=False)[0].state == "unknown"
    assert ask.known_frameworks(Root(Path("/"), {}), [CPU], ask=True)[0].state == "usable"
    assert json.loads(path.read_text())["made-up"]


def test_a_cache_that_cannot_be_written_costs_a_warning(
    one_framework: list[str], advisor_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    advisor_home.parent.mkdir(parents=True, exist_ok=True)
    advisor_home.write_text("a file where the folder should be")
    assert ask.known_frameworks(Root(Path("/"), {}), [CPU], ask=True)[0].state == "usable"
    assert "warning[CACHE]" in capsys.readouterr().err


def test_packages_are_read_from_the_names_of_metadata_folders(tmp_path: Path) -> None:
    for name in ("Torch_Vision-0.22.1+cpu.dist-info", "old_egg-1.0-py3.11.egg-info", "no-metadata", "name-with-dash-2.0.dist-info"):
        (tmp_path / name).mkdir()
    second = tmp_path / "second"
    (second / "torch_vision-0.1.dist-info").mkdir(parents=True)
    assert packages_on((str(tmp_path), str(second), "/nonexistent")) == {
        "torch-vision": "0.22.1+cpu",
        "old-egg": "1.0",
        "name-with-dash": "2.0",
    }
    assert normalize("A.b__C") == "a-b-c"


def test_packages_agree_with_importlib() -> None:
    import importlib.metadata

    theirs = {normalize(item.metadata["Name"]): item.version for item in importlib.metadata.distributions()}
    ours = packages_on(tuple(sys.path))
    assert {name: theirs[name] for name in ("click", "pytest")} == {name: ours[name] for name in ("click", "pytest")}
    assert set(theirs) == set(ours)
