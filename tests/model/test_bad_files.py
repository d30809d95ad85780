"""Files that are wrong in every way people have managed: one line, never a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.errors import AdvisorError
from advisor.model import counts
from advisor.model.architectures import architectures
from advisor.model.importers.hf import from_mapping
from advisor.model.records import Model
from advisor.model.registry import model

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 128,
}


def _with(**changes: object) -> bytes:
    return json.dumps({**LLAMA, **changes}).encode()


WRONG: dict[str, bytes] = {
    "empty": b"",
    "blank": b"  \n ",
    "list": b"[]",
    "null": b"null",
    "number": b"3",
    "string": b'"llama"',
    "empty object": b"{}",
    "cut short": b'{"model_type": "llama", "hidden_size": 64',
    "trailing comma": b'{"model_type": "llama",}',
    "nested brackets": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "nul byte": b'{"model_type": "lla\x00ma"}',
    "not utf-8": b'{"model_type": "\xff\xfe"}',
    "utf-16": json.dumps(LLAMA).encode("utf-16"),
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94.",
    "unknown type": _with(model_type="lama"),
    "type is a list": _with(model_type=["llama"]),
    "type is missing": json.dumps({k: v for k, v in LLAMA.items() if k != "model_type"}).encode(),
    "missing size": json.dumps({k: v for k, v in LLAMA.items() if k != "hidden_size"}).encode(),
    "negative": _with(hidden_size=-64),
    "zero": _with(num_hidden_layers=0),
    "fraction": _with(hidden_size=64.5),
    "string for a number": _with(hidden_size="64"),
    "list for a number": _with(hidden_size=[64]),
    "true for a number": _with(hidden_size=True),
    "mapping for a number": _with(vocab_size={"a": 1}),
    "huge": _with(hidden_size=10**400),
    "billions of layers": _with(num_hidden_layers=10**9),
    "1e400": json.dumps(LLAMA).replace('"hidden_size": 64', '"hidden_size": 1e400').encode(),
    "nan": json.dumps(LLAMA).replace('"hidden_size": 64', '"hidden_size": NaN').encode(),
    "infinity": json.dumps(LLAMA).replace('"hidden_size": 64', '"hidden_size": -Infinity').encode(),
    "5000 digits": json.dumps(LLAMA).replace('"hidden_size": 64', '"hidden_size": 1' + "0" * 5000).encode(),
    "heads do not divide": _with(num_attention_heads=7),
    "kv heads do not divide": _with(num_key_value_heads=3),
    "more kv heads than heads": _with(num_key_value_heads=8),
    "flag is a number": _with(tie_word_embeddings=1),
    "architectures is a number": _with(architectures=4),
    "text_config is a list": json.dumps({"model_type": "gemma3", "text_config": []}).encode(),
    "oversize": b'{"a": "' + b"x" * (5 << 20) + b'"}',
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_config_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(WRONG[name])
    with pytest.raises(AdvisorError) as caught:
        model(str(path))
    line = caught.value.line()
    assert line.startswith("error[")
    assert "\n" not in line
    assert len(line) < 2000
    assert caught.value.exit_status == 2


WRONG_YAML = {
    "python tag": "family: !!python/object/apply:os.system ['true']",
    "python name": "family: !!python/name:os.system",
    "twice": "family: llama\nfamily: gpt2",
    "bomb": "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nfamily: *c",
    "recursive": "family: &a\n  b: *a",
    "deep": "[" * 50_000,
    "tab": "family:\tllama\n\t x: 1",
    "two documents": "family: llama\n---\nfamily: gpt2",
    "unknown norm": "family: transformer\nlayers: 2\nhidden: 64\nheads: 4\nvocab: 100\nnorm: batchnorm",
    "not a mapping": "- family",
}


@pytest.mark.parametrize("name", sorted(WRONG_YAML))
def test_a_wrong_description_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(WRONG_YAML[name])
    with pytest.raises(AdvisorError) as caught:
        model(str(path))
    assert "\n" not in caught.value.line()


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "empty").mkdir()
    os.symlink(tmp_path / "loop.json", tmp_path / "loop.json")
    for path in (
        "missing.json",
        "folder.json",
        "empty",
        "loop.json",
        "x" * 300 + ".json",
        "missing.onnx",
        "missing.py:build_model",
        "folder.json/a.py",
    ):
        with pytest.raises(AdvisorError) as caught:
            model(str(tmp_path / path))
        assert "\n" not in caught.value.line()


def test_a_good_folder_and_description_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "future_option": 3}))
    found = model(str(tmp_path))
    assert found.name == tmp_path.name
    assert found.ignored_fields == ("future_option",)
    (tmp_path / "mine.yaml").write_text(
        "family: llama\nname: my-7b\nlayers: 32\nhidden: 4096\nheads: 32\nffn_hidden: 11008\nvocab: 32000\nmax_seq: 4096\n"
    )
    mine = model(str(tmp_path / "mine.yaml"))
    assert (mine.name, mine.parameters) == ("my-7b", 6_738_415_616)
    (tmp_path / "any.yaml").write_text("family: transformer\nlayers: 40\nhidden: 5120\nheads: 40\nvocab: 50257\nmax_seq: 2048\n")
    assert model(str(tmp_path / "any.yaml")).parameters == 12_853_386_240


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 200)
    | st.sampled_from([10**9, 2**63, 10**400, -1])
    | st.floats()
    | st.sampled_from(["", "llama", "auto", "gated-gelu", "n", "\0", "é" * 80])
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=8
)
_CASES = json.loads((Path(__file__).parent / "golden" / "hf_configs.json").read_text())["cases"]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_reader_raises_nothing_but_its_own_errors(data: st.DataObject) -> None:
    config = dict(data.draw(st.sampled_from(_CASES))["config"])
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=3)):
        config[key] = data.draw(_VALUES)
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=2)):
        config.pop(key, None)
    if data.draw(st.booleans()):
        config["model_type"] = data.draw(st.sampled_from(sorted(architectures())))
    _build(config)


@settings(max_examples=150, deadline=None)
@given(_VALUES)
def test_any_document_is_answered(document: object) -> None:
    _build(document)


def _build(config: object) -> None:
    try:
        found = from_mapping(config, what="config.json", name="fuzzed")
    except AdvisorError as error:
        lines = error.line().splitlines()
    else:
        lines = []
        _check(found)
    assert len(lines) <= 1


def _check(found: Model) -> None:
    assert counts.parameters(found) == found.parameters > 0
    assert counts.forward_flops(found) >= 0
    assert counts.forward_flops(found, causal=True) <= counts.forward_flops(found)
