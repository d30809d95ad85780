"""Names as people write them."""

from __future__ import annotations

import re

import pytest

from advisor.errors import AdvisorError, UnknownName
from advisor.model.architectures import families
from advisor.model.registry import model


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("gpt-13b", "gpt-13b"),
        ("GPT-13B", "gpt-13b"),
        ("gpt3-175b", "gpt-175b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("LLAMA3.1_405B", "llama-3.1-405b"),
        ("Llama 3.3 70B", "llama-3.3-70b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("bert-base-uncased", "bert-base"),
        ("google/bert_uncased_L-2_H-128_A-2", "bert-tiny"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("Qwen3_30B_a3B", "qwen3-30b-a3b"),
        ("google/vit-base-patch16-224", "vit-b-16"),
        ("resnet50", "resnet-50"),
        ("EleutherAI/gpt-j-6B", "gpt-j-6b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("openai/whisper-large-v3", "whisper-large-v3"),
        ("vgg16", "vgg-16"),
    ],
)
def test_names_aliases_and_hub_ids(written: str, name: str) -> None:
    assert model(written).name == name


def test_unknown_names_suggest_near_ones() -> None:
    with pytest.raises(UnknownName) as caught:
        model("lama-2-7b")
    assert "llama-2-7b" in caught.value.line()
    with pytest.raises(UnknownName) as caught:
        model("qqqqqqqqqqqq")
    assert "advisor models list" in caught.value.line()


@pytest.mark.parametrize("name", ["", "   ", "a\0b", "x" * 5000])
def test_nonsense_is_one_line(name: str) -> None:
    with pytest.raises(AdvisorError) as caught:
        model(name)
    assert "\n" not in caught.value.line()


def test_no_two_models_answer_to_one_name() -> None:
    seen: dict[str, str] = {}
    for family in families():
        for entry in family.entries:
            for name in {entry.name, *entry.aliases}:
                key = re.sub(r"[\s_\-]+", "", name.rsplit("/", 1)[-1].lower())
                assert seen.setdefault(key, entry.name) == entry.name, name
