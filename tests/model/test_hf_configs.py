"""Configurations as transformers writes them, one of each architecture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.model import counts
from advisor.model.importers.hf import from_mapping
from advisor.model.registry import model

CASES = json.loads((Path(__file__).parent / "golden" / "hf_configs.json").read_text())["cases"]


def test_at_least_forty_architectures() -> None:
    assert len({case["config"]["model_type"] for case in CASES}) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["config"]["model_type"])
def test_parameters_and_flops_equal_the_framework(case: dict) -> None:
    found = from_mapping(case["config"], what="config.json", name="tiny")
    assert found.parameters == case["parameters"]
    if case["forward_flops"] is not None:
        assert counts.forward_flops(found, case["seq"]) == case["forward_flops"]
    # The module that predicts a second token (DeepSeek-V3, GLM-4.5) is not part of the framework's model either.
    assert set(found.ignored_fields) <= {"num_nextn_predict_layers"}


@pytest.mark.parametrize(
    ("key", "value"),
    [("quantization_config", {"bits": 4}), ("pruned_heads", {"0": [1]}), ("is_decoder", True), ("add_cross_attention", True)],
)
def test_keys_that_matter_at_some_values_are_reported_then(key: str, value: object) -> None:
    config = CASES[0]["config"]
    assert from_mapping({**config, key: value}, what="c", name="n").ignored_fields == (key,)
    assert from_mapping({**config, key: None}, what="c", name="n").ignored_fields == ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["config"]["model_type"])
def test_a_key_nobody_knows_is_reported(case: dict) -> None:
    found = from_mapping({**case["config"], "brand_new_block_size": 7}, what="config.json", name="tiny")
    assert "brand_new_block_size" in found.ignored_fields


def test_gemma3_with_its_vision_part_reads_the_language_part() -> None:
    config = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": {
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "model_type": "gemma3_text",
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
        "vision_config": {"hidden_size": 1152},
    }
    found = from_mapping(config, what="config.json", name="gemma-3-4b-it")
    assert found.parameters == model("gemma-3-4b").parameters
    assert "vision_config" in found.ignored_fields


def test_text_config_of_an_unknown_wrapper() -> None:
    llama = next(case for case in CASES if case["config"]["model_type"] == "llama")
    inner = llama["config"]
    found = from_mapping({"model_type": "llava", "text_config": inner, "vision_config": {}}, what="config.json", name="x")
    assert found.parameters == llama["parameters"]
    assert "vision_config" in found.ignored_fields


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_either_name_of_the_dtype_is_understood(key: str) -> None:
    config = {k: v for k, v in CASES[0]["config"].items() if k not in ("dtype", "torch_dtype")}
    assert from_mapping({**config, key: "bfloat16"}, what="c", name="n").ignored_fields == ()


_SIZES = {"num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512}
_BERT = {"model_type": "bert", "hidden_size": 768, "vocab_size": 30522, **_SIZES}
_ROBERTA = {**_BERT, "model_type": "roberta", "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
_ELECTRA = {
    **_BERT,
    "model_type": "electra",
    "hidden_size": 256,
    "embedding_size": 128,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}
_DISTIL = {**_BERT, "model_type": "distilbert", "num_hidden_layers": 6}


@pytest.mark.parametrize(
    ("config", "head", "expected"),
    [
        (_BERT, None, 109_482_240),
        (_BERT, "BertModel", 109_482_240),
        (_BERT, "BertForMaskedLM", 109_514_298),
        (_BERT, "BertForPreTraining", 110_106_428),
        (_BERT, "BertForQuestionAnswering", 108_893_186),
        (_BERT, "BertForTokenClassification", 108_893_186),
        (_BERT, "BertForSequenceClassification", 109_483_778),
        (_ROBERTA, "RobertaForMaskedLM", 124_697_433),
        (_ROBERTA, "RobertaForSequenceClassification", 124_647_170),
        (_ELECTRA, "ElectraForPreTraining", 13_549_057),
        (_ELECTRA, "ElectraForMaskedLM", 13_546_682),
        (_DISTIL, "DistilBertForMaskedLM", 66_985_530),
        (_DISTIL, "DistilBertForSequenceClassification", 66_955_010),
    ],
)
def test_the_head_follows_architectures(config: dict, head: str | None, expected: int) -> None:
    """Counts of the classes of transformers 5.24.0, tied weights once."""
    found = from_mapping({**config, "architectures": [head] if head else None}, what="config.json", name="encoder")
    assert found.parameters == expected
