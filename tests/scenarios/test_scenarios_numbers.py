"""Precision, peaks, running and hardware choice: the questions people ask, as they type them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., dict[str, Any]]
Why = Callable[[dict[str, Any], str], dict[str, Any]]


def plans(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [c["plan"] for c in [document["recommendation"], *document["alternatives"]] if c]


@pytest.mark.parametrize("card", ["Tesla V100-SXM2-32GB", "NVIDIA T4"])
def test_bf16_is_never_proposed_below_compute_capability_8(ask: Ask, card: str) -> None:
    document = ask("recommend --model llama-2-7b --task infer --input-len 256 --output-len 64 --device", card)
    assert all(p["precision"] != "bf16" for p in plans(document))
    assert any(r["code"] == "NO-BF16" for r in document["rejected"])


def test_t5_on_v100_is_fp32_with_the_reason(ask: Ask, why: Why) -> None:
    document = ask("recommend --model t5-large --task finetune --hardware 1xv100-sxm2-32gb --seq 512", status=0)
    assert document["recommendation"]["plan"]["precision"] == "fp32"
    assert "bf16" in why(document, "PRECISION")["text"]
    assert any("overflow fp16" in r["text"] for r in document["rejected"])


def test_fp16_training_comes_with_its_loss_scale(ask: Ask, why: Why) -> None:
    document = ask("recommend --model gpt-1.3b --hardware 8xv100-sxm2-32gb --seq 1024 --global-batch 64", status=0)
    assert why(document, "LOSS-SCALE")["detail"]["initial_scale"] == 65536


@pytest.mark.parametrize("line", [
    "recommend --model gpt-1.3b --hardware 8xb200-sxm --seq 2048 --global-batch 64",
    "recommend --model llama-3-8b --hardware 8xh100-sxm5-80gb --seq 4096 --global-batch 64",
    "recommend --model llama-2-7b --task infer --hardware 1xmi300x --input-len 512 --output-len 128 --global-batch 16",
])  # fmt: skip
def test_eight_bits_are_measured_calibrated_or_called_unverified(ask: Ask, line: str) -> None:
    document = ask(line, status=0)
    best = document["recommendation"]
    low = best["plan"]["precision"] in ("fp8", "fp4", "int8") or best["plan"]["quantization"] != "none"
    codes = {r["code"] for r in best["why"]}
    assert not low or "UNVERIFIED" in codes or best["estimate"]["evidence"] in ("measured", "calibrated")
    assert any(p["precision"] in ("bf16", "fp16") and p["quantization"] == "none" for p in plans(document))


def test_small_products_in_fp8_are_not_taken_on_the_data_sheets_word(ask: Ask) -> None:
    document = ask("recommend --model gpt-350m --hardware 8xh100-sxm5-80gb --seq 1024 --global-batch 64", status=0)
    best = document["recommendation"]
    assert best["plan"]["precision"] == "bf16" or any(r["code"] == "UNVERIFIED" for r in best["why"])


def test_a_quantized_answer_has_the_best_unquantized_one_beside_it(ask: Ask) -> None:
    line = "recommend --model llama-2-7b --task infer --hardware 1xh100-sxm5-80gb --input-len 512 --output-len 128 --global-batch 64"
    found = {p["quantization"] for p in plans(ask(line, status=0))}
    assert "none" in found
    assert len(found) > 1


def test_utilization_counts_against_the_dense_peak(ask: Ask, why: Why) -> None:
    document = ask("recommend --model llama-2-7b --hardware 8xh100-sxm5-80gb --seq 4096 --global-batch 64 --fix precision=bf16", status=0)
    peak = why(document, "DENSE-PEAK")
    assert peak["value"] == pytest.approx(989e12, rel=0.01)
    assert "2:4 sparsity" in peak["text"]
    assert document["recommendation"]["estimate"]["mfu"]["value"] < 1.0


def test_a_graphics_die_is_the_device(ask: Ask, why: Why) -> None:
    document = ask(
        "recommend --model llama-2-7b --task infer --hardware 8xmi250x --input-len 128 --output-len 32 --global-batch 64", status=0
    )
    reason = why(document, "LOGICAL-DEVICES")
    assert "4 packages of 2" in reason["text"]
    assert "191.5" in reason["text"]


def test_the_formats_are_a_table_with_the_reason_for_each_gap(ask: Ask, why: Why) -> None:
    table = why(ask("recommend --model bert-base --task infer --hardware 1xv100-sxm2-32gb --seq 128", status=0), "PRECISIONS")["detail"]
    assert table["bf16"]["obstacle"]
    assert table["fp16"]["obstacle"] is None
    assert table["fp16"]["dense_flops_per_s"] == pytest.approx(125e12)
    assert table["fp16"]["measured_flops_per_s"] is None  # nothing was measured, and a data sheet is not passed off as such


def test_compiling_has_a_price_a_gain_and_a_break_even(ask: Ask, why: Why) -> None:
    line = "estimate --model gpt-125m --hardware 1xa100-sxm4-80gb --seq 1024 --global-batch 8 --plan framework=torch,execution=eager"
    detail = why(ask(line), "COMPILE")["detail"]
    assert detail["compile_seconds"] > 0
    if detail["gain_per_step"] > 0 and detail["break_even_steps"] is not None:
        assert detail["break_even_steps"] * detail["gain_per_step"] >= detail["compile_seconds"]
    assert detail["dynamic"]


def test_threads_and_workers_stay_within_the_cores_there_are(ask: Ask, why: Why) -> None:
    import os

    document = ask("recommend --model bert-tiny --task train --hardware local --seq 64 --global-batch 4", status=0)
    usable = why(document, "THREADS")["detail"]["usable"]
    assert usable <= (os.cpu_count() or 1)
    assert all(p["threads"] <= usable for p in plans(document))
    assert why(document, "LOADER")["detail"]["workers_per_rank"] <= max(1, usable)


def test_which_card_without_prices_is_performance_and_says_so(ask: Ask) -> None:
    line = (
        "compare --model llama-2-7b --task infer --input-len 512 --output-len 128 --global-batch 16 --hardware "
        "1xa100-sxm4-80gb --hardware 1xl40"
    )
    document = ask(line, status=0)
    assert document["best"] == "1xa100-sxm4-80gb"  # 2.0 against 0.86 TB/s decide where weights are read for each token
    assert "no prices" in document["note"]
    assert all(row["bound"] for row in document["ranking"])
    priced = ask(line + " --price a100-sxm4-80gb=2.0 --price l40=0.5")
    assert all(row["usd_per_unit"] is not None for row in priced["ranking"])
    assert any(row["pareto"] for row in priced["ranking"])


def test_names_as_tools_print_them(ask: Ask) -> None:
    for text, profile in (
        ("8xNVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"), ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"), ("8xA100-40GB", "a100-sxm4-40gb"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
    ):  # fmt: skip
        document = ask("recommend --model bert-base --task infer --seq 128 --global-batch 64 --hardware", text)
        assert document["hardware"]["profile"] == profile


def test_published_runs_nearby_are_named(ask: Ask, why: Why) -> None:
    reason = why(ask("recommend --model gpt-13b --hardware 64xa100-sxm4-80gb --seq 2048 --global-batch 512", status=0), "PUBLISHED")
    assert all(identity.startswith("t-") for identity in reason["detail"]["ids"])
    assert all(row["time_s"] > 0 for row in reason["detail"]["rows"])


def test_the_formula_is_printed_on_request(read: Callable[..., str]) -> None:
    text = read("recommend --model gpt-13b --task full-finetune --hardware 8xa100-sxm4-80gb --seq 2048 --explain")
    assert "16 · 1.285e+10" in text
    assert "6 · parameters · tokens" in text
