"""The attention curve: prefill and decode, laws, and what a mask saves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cost.kernels import attention
from advisor.usecases.calibration import load_calibration

A100: dict[str, Any] = {"peak": 312e12, "bandwidth": 2.039e12, "units": 108}
SHAPE: dict[str, Any] = {"batch": 4, "heads": 32, "kv_heads": 8, "query": 1024, "keys": 1024, "head_dim": 128}


def seconds(causal: bool = True, backward: bool = False, hardware: dict[str, Any] | None = None, **shape: Any) -> Any:
    p = attention.parameters(load_calibration(), "ampere")
    return attention.seconds(p, **{**SHAPE, **shape}, causal=causal, dtype="bf16", backward=backward, **(hardware or A100))


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 64),
    heads=st.integers(1, 8),
    keys=st.integers(1, 16384),
    decode=st.booleans(),
    what=st.sampled_from(["batch", "keys", "head_dim"]),
    more=st.integers(1, 512),
)
def test_more_work_is_never_faster(batch: int, heads: int, keys: int, decode: bool, what: str, more: int) -> None:
    shape = {"batch": batch, "heads": heads * 8, "kv_heads": 8, "query": 1 if decode else 256, "keys": max(keys, 256), "head_dim": 64}
    larger = {**shape, what: shape[what] + more}
    assert seconds(**larger) >= seconds(**shape) * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(query=st.sampled_from([1, 128, 4096]), what=st.sampled_from(["peak", "bandwidth"]), factor=st.floats(1.0, 6.0))
def test_faster_hardware_is_never_slower(query: int, what: str, factor: float) -> None:
    better = {**A100, what: A100[what] * factor}
    shape = {"query": query, "keys": 4096}
    assert seconds(hardware=better, **shape) <= seconds(**shape) * (1 + 1e-9)


def test_a_causal_mask_saves_about_half_of_a_long_prefill() -> None:
    ratio = seconds(query=16384, keys=16384) / seconds(causal=False, query=16384, keys=16384)
    assert 0.45 < ratio < 0.6


def test_decode_reads_keys_at_memory_speed() -> None:
    moved = 2 * 64 * 8 * 8192 * 128 * 2
    assert 0.5 < moved / seconds(batch=64, query=1, keys=8192) / A100["bandwidth"] < 0.95


def test_fewer_key_heads_read_less_in_decode() -> None:
    assert seconds(batch=64, kv_heads=8, query=1, keys=8192) < 0.5 * seconds(batch=64, kv_heads=32, query=1, keys=8192)


def test_backward_costs_more_than_twice_the_forward_of_a_long_sequence() -> None:
    assert 2.0 < seconds(backward=True, query=8192, keys=8192) / seconds(query=8192, keys=8192) < 4.0


def test_no_work_takes_no_time() -> None:
    assert seconds(batch=0) == 0
    assert seconds(query=0) == 0
    assert seconds(keys=0) == 0


@pytest.mark.parametrize(("query", "keys", "expected"), [(1, 100, 100), (100, 100, 5050), (10, 100, 955)])
def test_pairs_under_a_mask(query: int, keys: int, expected: float) -> None:
    assert attention.pairs(query, keys, True) == pytest.approx(expected)
    assert attention.pairs(query, keys, False) == query * keys
