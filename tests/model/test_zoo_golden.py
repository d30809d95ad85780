"""Every member of the zoo against the counts of the framework it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.model import counts
from advisor.model.architectures import families
from advisor.model.records import Model
from advisor.model.registry import model, model_names

GOLDEN = Path(__file__).parent / "golden"
TRANSFORMERS = json.loads((GOLDEN / "transformers_parameters.json").read_text())["parameters"]
VISION = json.loads((GOLDEN / "vision.json").read_text())["models"]

#: Counts on the model hub (number of elements of the released checkpoint), for architectures that transformers 5 does not hold or
#: whose tied tables it reads differently from the released checkpoint.
CHECKPOINTS = {
    "flan-t5-small": 76_961_152,
    "flan-t5-base": 247_577_856,
    "flan-t5-large": 783_150_080,
    "flan-t5-xl": 2_849_757_184,
    "flan-t5-xxl": 11_135_332_352,
    "qwen-7b": 7_721_324_544,
    "qwen-14b": 14_167_290_880,
    "chatglm3-6b": 6_243_584_000,
    "internlm2-7b": 7_737_708_544,
    "baichuan-7b": 7_000_559_616,
    "baichuan2-13b": 13_896_668_160,
    "dbrx-132b": 131_596_523_520,
}
#: Ultralytics YOLOv8 documentation, table of detection models (COCO, 640 px): parameters in millions, GFLOPs.
YOLO = {"yolov8n": (3.2, 8.7), "yolov8s": (11.2, 28.6), "yolov8m": (25.9, 78.9), "yolov8l": (43.7, 165.2), "yolov8x": (68.2, 257.8)}

#: Parameters as the suites that publish these models state them, in millions.
STATED = {
    "transformer-xl-base": 192,  # NVIDIA DeepLearningExamples, Transformer-XL, table of model parameters
    "transformer-base": 61,  # fairseq scaling of Vaswani et al. 2017: shared vocabulary of 33,712
    "transformer-big": 211,
}


@pytest.mark.parametrize("name", sorted(STATED))
def test_older_suites_state_the_same_size(name: str) -> None:
    assert round(model(name).parameters / 1e6) == STATED[name]


def test_the_zoo_is_large_enough_and_golden_covers_most_of_it() -> None:
    names = set(model_names())
    covered = set(TRANSFORMERS) | set(VISION) | set(CHECKPOINTS) | set(YOLO)
    assert len(names) >= 180
    assert covered <= names
    assert len(covered) >= 0.9 * len(names)


@pytest.mark.parametrize("name", sorted(TRANSFORMERS))
def test_parameters_equal_transformers(name: str) -> None:
    assert model(name).parameters == TRANSFORMERS[name]


@pytest.mark.parametrize("name", sorted(CHECKPOINTS))
def test_parameters_equal_the_released_checkpoint(name: str) -> None:
    assert model(name).parameters == CHECKPOINTS[name]


@pytest.mark.parametrize("name", sorted(VISION))
def test_vision_models_equal_torchvision(name: str) -> None:
    found = model(name)
    assert [found.parameters, counts.forward_flops(found)] == VISION[name]


@pytest.mark.parametrize("name", sorted(YOLO))
def test_yolo_equals_its_published_table(name: str) -> None:
    found, (millions, giga) = model(name), YOLO[name]
    assert round(found.parameters / 1e6, 1) == millions
    assert counts.forward_flops(found) / 1e9 == pytest.approx(giga, abs=0.06)


@pytest.mark.parametrize("name", model_names())
def test_every_entry_is_sound(name: str) -> None:
    found = model(name)
    assert found.name == name
    assert found.source
    assert found.ignored_fields == ()
    assert counts.parameters(found) == found.parameters
    assert counts.forward_flops(found) > 0
    for block in found.blocks:
        assert block.unsplit_parameters + block.expert_parameters <= block.parameters
        assert 0 <= block.activation_elements_split_per_token <= block.activation_elements_per_token
    _check_active(found)


def _check_active(found: Model) -> None:
    t = found.transformer
    if t is not None and t.experts > 1:
        assert found.active_parameters is not None
        assert found.active_parameters < found.parameters
    else:
        assert found.active_parameters is None


def test_active_parameters_of_mixtral() -> None:
    """Mixtral 8x7B uses 12.9 B of 46.7 B parameters a token (arXiv 2401.04088, section 1: 13B active of 47B)."""
    assert model("mixtral-8x7b").active_parameters == 12_879_925_248


def test_families_register_one_file_each() -> None:
    names = [family.name for family in families()]
    assert len(names) == len(set(names))
    kinds = [kind for family in families() for kind in family.architectures]
    assert len(kinds) == len(set(kinds)), "two families claim one model_type"
