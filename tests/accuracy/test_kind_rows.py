"""Readers of published kernel, inference and classic rows: definitions inverted rightly, and scores that must not get worse."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pytest

from advisor.accuracy import classic_rows, inference_rows, microbench_rows
from advisor.accuracy.classic_queries import ClassicQuery
from advisor.accuracy.classic_queries import queries_of as classic_queries
from advisor.accuracy.inference_queries import UndescribedError as NotInference
from advisor.accuracy.inference_queries import query_of as inference_query
from advisor.accuracy.kernel_queries import UndescribedError, query_of
from advisor.accuracy.kernel_section import without
from advisor.accuracy.records import Prediction
from advisor.results.published import read_published
from advisor.usecases.calibration import load_calibration

EMPTY_MICRO = dict.fromkeys(
    [
        "id",
        "group",
        "kind",
        "source",
        "hardware",
        "hw_class",
        "n_devices",
        "op",
        "dtype",
        "shape",
        "size_bytes",
        "time_ms",
        "tflops",
        "gb_per_s",
        "bandwidth_kind",
    ],
    "",
)
EMPTY_INFERENCE = dict.fromkeys(
    [
        "id",
        "group",
        "status",
        "source",
        "hardware",
        "hw_class",
        "n_devices",
        "framework",
        "model",
        "precision",
        "tp",
        "pp",
        "batch",
        "input_len",
        "output_len",
        "tokens_per_s",
        "tokens_per_s_kind",
        "latency_ms",
        "ttft_ms",
        "mem_gib",
    ],
    "",
)


def errors(predictions: Sequence[Prediction]) -> list[float]:
    return [abs(p.error) for p in predictions if p.error is not None and not p.assumed and p.quantity == "time"]


@pytest.mark.parametrize(
    ("kind", "reader", "bar"),
    [("microbench", microbench_rows, 0.065), ("inference", inference_rows, 0.08), ("classic", classic_rows, 0.16)],
)
def test_scores_do_not_get_worse(kind: str, reader: object, bar: float) -> None:
    rows = list(read_published(kind))
    predictions = list(reader.predict_rows(rows, load_calibration()))  # type: ignore[attr-defined]
    assert median(errors(predictions)) < bar
    assert {p.id for p in predictions} == {row["id"] for row in rows}
    assert all(p.skipped for p in predictions if p.predicted is None)
    scored = [p for p in predictions if p.predicted is not None]
    assert all(p.low < p.predicted < p.high for p in scored)  # type: ignore[operator]


def test_a_bus_bandwidth_is_inverted_to_a_time() -> None:
    row = EMPTY_MICRO | {
        "kind": "collective",
        "op": "all_reduce",
        "hardware": "NVIDIA H100 80GB HBM3",
        "n_devices": "8",
        "size_bytes": "1e9",
        "gb_per_s": "350",
    }
    assert query_of(row).measured_s == pytest.approx(2 * 7 / 8 * 1e9 / 350e9)


def test_a_rate_gives_the_time_of_a_product() -> None:
    row = EMPTY_MICRO | {"kind": "gemm", "hardware": "A100-80GB", "dtype": "fp16", "shape": "M=1024 N=2048 K=512", "tflops": "100"}
    assert query_of(row).measured_s == pytest.approx(2 * 1024 * 2048 * 512 / 1e14)


def test_a_lost_decimal_point_is_put_back() -> None:
    row = EMPTY_MICRO | {
        "kind": "memory_bandwidth",
        "op": "HBM Copy",
        "hardware": "A100-80GB",
        "gb_per_s": "161",
        "bandwidth_kind": "HBM GB/s (printed TB/s)",
    }
    assert query_of(row).measured_s == pytest.approx(1e9 / 1.61e12)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hardware": "not stated"}, "not named"),
        ({"hardware": "A100-80GB", "shape": "b=2"}, "shape"),
        ({"hardware": "A100-80GB", "shape": "M=1 N=1 K=1", "dtype": "ternary"}, "dtype"),
    ],
)
def test_a_kernel_row_that_says_too_little_says_why(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(UndescribedError, match=reason):
        query_of(EMPTY_MICRO | {"kind": "gemm", "dtype": "fp16", "time_ms": "1"} | changes)


def inference_row(**changes: str) -> dict[str, str]:
    given = {
        "hardware": "H100-80GB",
        "hw_class": "H100-80",
        "framework": "vLLM",
        "model": "llama-3-8b",
        "precision": "fp16",
        "n_devices": "1",
    }
    return EMPTY_INFERENCE | given | {"tp": "1", "batch": "16", "input_len": "128", "output_len": "256"} | changes


def test_rates_of_output_and_of_all_tokens_are_inverted_by_their_own_definition() -> None:
    out = inference_query(inference_row(tokens_per_s="1000", tokens_per_s_kind="output tokens/s"))
    both = inference_query(inference_row(tokens_per_s="1000", tokens_per_s_kind="(input+output) tokens*batch/latency"))
    assert out.measured_s == pytest.approx(256 * 16 / 1000)
    assert both.measured_s == pytest.approx((128 + 256) * 16 / 1000)


def test_a_llama_bench_batch_is_a_chunk_of_the_prompt() -> None:
    query = inference_query(inference_row(framework="llama.cpp", latency_ms="5000"))
    assert query.batch == 1
    assert query.chunk == 16


@pytest.mark.parametrize(
    ("changes", "reason"), [({"status": "oom"}, "memory"), ({"model": "no-such-net"}, "not known"), ({"input_len": ""}, "prompt")]
)
def test_an_inference_row_that_says_too_little_says_why(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(NotInference, match=reason):
        inference_query(inference_row(**changes))


def test_two_models_under_one_heading_are_told_apart_by_order() -> None:
    rows = [
        r
        for r in read_published("classic")
        if r["model"] == "LanguageModeling/BERT" and r["framework"] == "TensorFlow2" and r["mode"] == "inference"
    ]
    names = [q.model.name for q in classic_queries(rows) if isinstance(q, ClassicQuery)]
    assert names.count("bert-large") == names.count("bert-base") == len(rows) // 2


def test_leaving_a_generation_out_leaves_no_value_of_it() -> None:
    values = {"gemm.ceiling.16.hopper": 0.8, "gemm.ceiling.16.ampere": 0.5, "gemm.ceiling.16.any": 0.632, "gemm.join.16": 1e-6}
    held = without(values, "hopper")
    assert "gemm.ceiling.16.hopper" not in held
    assert held["gemm.ceiling.16.any"] == pytest.approx(0.5)
    assert held["gemm.join.16"] == 1e-6
