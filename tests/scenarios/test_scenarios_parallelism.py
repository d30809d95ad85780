"""Which parallelism: the questions people ask, as they type them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., dict[str, Any]]
Why = Callable[[dict[str, Any], str], dict[str, Any]]


def plans(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [c["plan"] for c in [document["recommendation"], *document["alternatives"]] if c]


def test_every_mode_is_shown_at_its_best_or_refused(ask: Ask) -> None:
    document = ask("recommend --model gpt-6.7b --hardware 16xa100-sxm4-80gb --seq 2048 --global-batch 256", status=0)
    shown = {c["family"] for c in [document["recommendation"], *document["alternatives"]]} | {r["family"] for r in document["rejected"]}
    assert {"data parallel", "sharded data parallel", "tensor parallel", "pipeline parallel"} <= shown
    assert all(c["estimate"]["step_time_s"]["value"] > 0 and c["loses"] for c in document["alternatives"])


def test_a_lone_request_on_nvlink_wants_tensor_parallel(ask: Ask, why: Why) -> None:
    line = (
        "recommend --model llama-3-70b --task infer --hardware 8xh100-sxm5-80gb --concurrency 1 --objective latency "
        "--input-len 512 --output-len 128"
    )
    document = ask(line, status=0)
    assert document["recommendation"]["plan"]["tp"] > 1
    assert document["recommendation"]["plan"]["pp"] == 1
    assert "latency" in why(document, "TP-LATENCY")["text"]


def test_many_requests_over_pcie_do_not_want_tensor_parallel_8(ask: Ask) -> None:
    document = ask(
        "recommend --model llama-2-13b --task infer --hardware 8xl40s --global-batch 1024 --input-len 512 --output-len 128", status=0
    )
    assert document["recommendation"]["plan"]["tp"] <= 2
    assert any(r["code"] == "PCIE" for r in document["recommendation"]["why"])


def test_a_model_that_fits_one_card_is_replicated(ask: Ask, why: Why) -> None:
    line = "recommend --model llama-2-7b --task infer --hardware 4xa100-pcie-80gb --global-batch 256 --input-len 512 --output-len 128"
    document = ask(line, status=0)
    assert (document["recommendation"]["plan"]["dp"], document["recommendation"]["plan"]["tp"]) == (4, 1)
    assert "replicas" in why(document, "REPLICAS")["text"]
    assert any(p["tp"] > 1 for p in plans(document))  # what splitting it would give is shown beside


def test_splitting_is_shown_beside_replicas_and_replicas_beside_splitting(ask: Ask) -> None:
    for concurrency in (1, 4, 64):
        document = ask(f"recommend --model llama-2-7b --task infer --hardware 2xa100-sxm4-80gb --concurrency {concurrency}", status=0)
        degrees = {(p["dp"], p["tp"] * p["pp"]) for p in plans(document)}
        if concurrency > 1:
            assert {(2, 1), (1, 2)} <= degrees


def test_cards_without_peer_to_peer_are_warned_about(ask: Ask, why: Why) -> None:
    document = ask("recommend --model bert-base --task finetune --hardware 2xrtx-4090 --seq 128 --global-batch 64", status=0)
    assert "peer-to-peer" in why(document, "NO-P2P")["text"]
    assert "accumulate" in why(document, "NO-P2P")["text"]


def test_weights_sharded_within_a_node_are_offered_where_they_fit(ask: Ask, why: Why) -> None:
    fits = {}
    for nodes in (4, 8):
        plan = "framework=deepspeed,sharding=zero3,micro_batch=1,recompute=full,offload=none"
        line = f"estimate --model qwen2-72b --task full-finetune --hardware {8 * nodes}xa100-sxm4-40gb --seq 2048 --plan"
        reason = why(ask(line, plan), "SHARDED-BYTES")
        fits[nodes] = reason["detail"]["hpz_fits"]
        assert reason["detail"]["hpz_bytes"] == pytest.approx(2 * 72.7e9 / 8, rel=0.01)  # 16.9 GiB a device
        assert reason["detail"]["between_nodes_before"] > reason["detail"]["between_nodes_after"]
        assert "zero_hpz_partition_size 8" in reason["text"]
    assert not fits[4]


def test_lora_of_8b_is_not_sharded_by_stage_3(ask: Ask) -> None:
    line = (
        "estimate --model llama-3-8b --task lora --hardware 3xa100-sxm4-80gb --seq 1024 --global-batch 12 --plan "
        "framework=deepspeed,sharding="
    )
    two, three = ask(line + "zero2"), ask(line + "zero3")
    assert two["estimate"]["fits"]
    assert three["estimate"]["step_time_s"]["value"] >= two["estimate"]["step_time_s"]["value"]
    chosen = ask("recommend --model llama-3-8b --task lora --hardware 3xa100-sxm4-80gb --seq 1024 --global-batch 12", status=0)
    assert chosen["recommendation"]["plan"]["sharding"] not in ("zero3", "fsdp")


@pytest.mark.parametrize("degree", [3, 6])
def test_heads_that_do_not_divide_are_named_with_their_divisors(read: Callable[..., str], degree: int) -> None:
    text = read(f"recommend --model llama-2-13b --task infer --hardware {degree}xrtx-3090 --fix tp={degree}")
    assert f"40 attention heads cannot be divided by tp {degree}" in text
    assert "1, 2, 4, 5, 8, 10, 20, 40" in text
    assert "error[NO-LEGAL-PLAN]" in text


def test_three_cards_get_three_replicas_or_stages(ask: Ask) -> None:
    document = ask("recommend --model llama-2-13b --task infer --gpus", "3xNVIDIA GeForce RTX 3090", status=0)
    for plan in plans(document):
        assert 40 % plan["tp"] == 0
        assert 40 % plan["pp"] == 0
        assert plan["dp"] * plan["tp"] * plan["pp"] == 3
    best = document["recommendation"]["plan"]
    assert best["quantization"] != "none" or best["pp"] == 3  # 26 GB of 16-bit weights do not fit a 24 GiB card


def test_a_tie_is_called_one_and_says_how_it_is_broken(ask: Ask, why: Why) -> None:
    document = ask("recommend --model llama-2-7b --hardware 8xa100-sxm4-80gb --seq 2048 --global-batch 64", status=0)
    ties = [c for c in document["alternatives"] if c["tie"]]
    if ties:
        assert "broken by" in why(document, "TIE")["text"]
        assert all("tie" in c["loses"] for c in ties)
    else:
        assert not any(r["code"] == "TIE" for r in document["recommendation"]["why"])


def test_devices_of_two_kinds_get_an_honest_answer(ask: Ask) -> None:
    document = ask(
        "recommend --model llama-2-7b --task infer --hardware 1xa100-sxm4-80gb+1xv100-sxm2-32gb --input-len 512 --output-len 128", status=0
    )
    note = next(n for n in document["notes"] if n.startswith("mixed devices"))
    assert "1xa100-sxm4-80gb alone" in note
    assert "1xv100-sxm2-32gb alone" in note
    assert "together" in note
    trained = ask("recommend --model gpt-1.3b --hardware 1xa100-sxm4-80gb+1xv100-sxm2-32gb --seq 1024", status=0)
    assert any("as Tesla V100" in n for n in trained["notes"])
    assert trained["recommendation"]["plan"]["precision"] == ("fp16" if trained["hardware"]["profile"].startswith("v100") else "bf16")


def test_experts_name_their_limits(ask: Ask) -> None:
    document = ask("recommend --model mixtral-8x7b --task serve --hardware 8xh100-sxm5-80gb --concurrency 8", status=0)
    for plan in plans(document):
        assert 8 % plan["ep"] == 0
        if plan["framework"] == "vllm":
            assert plan["ep"] in (1, plan["dp"] * plan["tp"])  # vLLM shards experts over all ranks or not at all
    reason = next(r for r in document["recommendation"]["why"] if r["code"] == "EXPERTS")
    assert reason["detail"]["crossover_tokens"] == 32  # 8 experts, 2 of them a token, 8 tokens each
    assert "assumed" in reason["text"]


def test_serving_says_engine_replicas_batch_and_cache(ask: Ask, why: Why) -> None:
    line = (
        "recommend --model llama-2-13b --task serve --hardware 4xa100-sxm4-80gb --input-len 512 --output-len 256 "
        "--concurrency 32 --limit tpot_s=0.05"
    )
    document = ask(line, status=0)
    plan, estimate = document["recommendation"]["plan"], document["recommendation"]["estimate"]
    settings = why(document, "SERVING")["detail"]
    assert plan["execution"] == "engine"
    assert settings["replicas"] * settings["tp"] * settings["pp"] == 4
    assert settings["max_batch"] * settings["replicas"] == 32
    assert settings["min_replicas"] <= settings["max_replicas"]
    assert estimate["tpot_s"]["value"] <= 0.05
    assert why(document, "KV-BUDGET")["detail"]["kv_cache_tokens"] >= settings["max_batch"] * 768


def test_a_limit_that_nothing_keeps_says_what_the_best_reaches(ask: Ask) -> None:
    line = (
        "recommend --model llama-2-70b --task serve --hardware 2xa100-sxm4-80gb --input-len 2048 --output-len 128 "
        "--concurrency 64 --limit ttft_s=0.01"
    )
    document = ask(line, status=1)
    assert "no plan keeps ttft_s 10 ms" in document["verdict"]
    assert "the best reaches" in document["verdict"]
