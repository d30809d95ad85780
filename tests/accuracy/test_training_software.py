"""What software columns mean for a plan."""

from __future__ import annotations

import pytest

from advisor.accuracy.software import adapter_of, execution_of, offload_of, precision_of, recompute_of


@pytest.mark.parametrize(
    ("text", "framework", "where"),
    [
        ("", "deepspeed", "none"),
        ("y", "deepspeed", "optimizer"),
        ("opt:y param:n", "deepspeed", "optimizer"),
        ("opt:y param:y", "deepspeed", "params"),
        ("full CPU", "deepspeed", "params"),
        ("y", "torchtune", "params"),
        ("n", "torchtune", "none"),
    ],
)
def test_fsdp_offers_the_host_for_all_states_or_none(text: str, framework: str, where: str) -> None:
    assert offload_of(text, framework) == where


def test_a_blank_means_the_recipe() -> None:
    assert recompute_of("", "torchtune") == "full"
    assert recompute_of("", "torchtitan") == "selective"
    assert recompute_of("", "megatron") == "none"
    assert recompute_of("none", "torchtune") == "none"


def test_a_table_that_mixes_adapters_needs_a_word_for_each_row() -> None:
    mixed = 'README.md "Memory and training speed"'
    assert adapter_of(mixed, frozenset()) is None
    assert adapter_of(mixed, frozenset({"lora"})) == "lora"
    assert adapter_of(mixed, frozenset({"full-finetune"})) == "none"
    assert adapter_of("elsewhere", frozenset()) == "none"


def test_compiled_where_it_is_stated_or_needed() -> None:
    assert execution_of("torchtitan", "bf16", frozenset()) == "eager"
    assert execution_of("torchtitan", "bf16", frozenset({"compile"})) == "compile"
    assert execution_of("torchtitan", precision_of("bf16+float8 rowwise", "torchtitan", {}), frozenset()) == "compile"
    assert execution_of("megatron", "bf16", frozenset({"compile"})) == "eager"
