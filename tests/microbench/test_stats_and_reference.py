"""Statistics of samples, rounding of inputs, tolerances and checks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microbench.benchmarks import attention, bandwidth, gemm
from microbench.protocol import Case
from microbench.reference import WrongResult, generator, round_to, sum_tolerance, uniform
from microbench.stats import half_width, median_interval

seconds = st.floats(min_value=1e-9, max_value=1e3)


@given(st.lists(seconds, min_size=1, max_size=60))
def test_the_interval_holds_the_median_and_lies_within_the_samples(samples):
    middle, low, high = median_interval(samples)
    assert min(samples) <= low <= middle <= high <= max(samples)


def test_the_interval_of_the_median_covers_it_19_times_of_20():
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(2000):
        _, low, high = median_interval(list(rng.exponential(size=25)))
        hits += low <= np.log(2) <= high
    assert 0.93 <= hits / 2000 <= 0.99


def test_too_few_samples_are_never_narrow():
    assert half_width([1.0, 1.0]) == float("inf")
    assert half_width([1.0] * 8) == 0.0


@given(st.lists(st.floats(min_value=-1000, max_value=1000, width=32), min_size=1, max_size=20))
def test_bf16_rounding_is_to_nearest_with_eight_bits(values):
    array = np.array(values, np.float32)
    rounded = round_to(array, "bf16")
    assert np.all(rounded.view(np.uint32) & 0xFFFF == 0)
    assert np.all(np.abs(rounded - array) <= np.abs(array) * 2.0**-8 + 1e-38)


def test_inputs_are_the_same_for_a_seed_and_differ_between_seeds():
    first, again, other = (uniform(generator(seed, "gemm", 4), (64,), "fp32") for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert uniform(generator(1, "x"), (4096,), "int8").min() == -127


def gemm_problem(dtype, m=40, n=70, k=300):
    return gemm.problem(Case(benchmark="gemm", dtype=dtype, params={"m": m, "n": n, "k": k}), 3)


@pytest.mark.parametrize("dtype", ["fp64", "fp32"])
def test_a_right_product_passes_and_one_wrong_element_does_not(dtype):
    problem = gemm_problem(dtype)
    product = problem.inputs["a"] @ problem.inputs["b"]
    assert problem.check(product) <= sum_tolerance(dtype, 300)
    spoilt = product.copy()
    spoilt[3, 0] += 0.01
    with pytest.raises(WrongResult):
        problem.check(spoilt)
    poisoned = product.copy()
    poisoned[39, 33] = np.nan
    with pytest.raises(WrongResult, match="not written"):
        problem.check(poisoned)


def test_a_product_in_lower_precision_than_stated_is_wrong():
    problem = gemm_problem("fp32", 64, 64, 512)
    narrow = round_to(problem.inputs["a"], "bf16") @ round_to(problem.inputs["b"], "bf16")
    with pytest.raises(WrongResult):
        problem.check(narrow)


def test_integer_products_are_exact_or_wrong():
    problem = gemm_problem("int8")
    exact = problem.inputs["a"].astype(np.int32) @ problem.inputs["b"].astype(np.int32)
    assert problem.check(exact) == 0.0
    saturated = np.clip(exact, -30000, 30000)
    with pytest.raises(WrongResult):
        problem.check(saturated)


def attention_case(**changes):
    params = {"batch": 2, "heads": 4, "kv_heads": 2, "query": 24, "keys": 24, "head_dim": 16, "causal": True, **changes}
    return Case(benchmark="attention", dtype="fp32", params=params)


def test_attention_check_tells_a_missing_mask_and_swapped_heads():
    problem = attention.problem(attention_case(), 1)
    q, k, v = (problem.inputs[name] for name in "qkv")
    right = attention.attention(q, k, v, causal=True)
    assert problem.check(right) < 1e-5
    with pytest.raises(WrongResult):
        problem.check(attention.attention(q, k, v, causal=False))
    with pytest.raises(WrongResult):
        problem.check(right[:, ::-1])


@given(st.integers(1, 40), st.integers(0, 40))
def test_causal_pairs_are_those_of_the_mask(query, more):
    keys = query + more
    mask = np.arange(keys)[None, :] <= np.arange(query)[:, None] + more
    assert attention.pairs(query, keys, True) == mask.sum()
    assert attention.pairs(query, keys, False) == query * keys


def test_a_decode_step_needs_every_key():
    assert attention.pairs(1, 4096, True) == 4096


def test_bandwidth_counts_as_stream_does_and_checks_values():
    case = Case(benchmark="bandwidth", dtype="fp32", params={"operation": "triad", "level": "L2", "bytes": 3 * 4096 * 4})
    problem = bandwidth.problem(case, 0)
    b, c = problem.inputs["b"], problem.inputs["c"]
    assert problem.work == b.nbytes * 3
    assert problem.check(b + np.float32(1.5) * c) < 1e-6
    with pytest.raises(WrongResult):
        problem.check(b + c)


def test_working_sets_fit_the_level_they_are_named_for():
    rows = bandwidth.cases({"caches": {"2": 1 << 20, "3": 32 << 20}, "memory_bytes": 16 << 30, "quick": False})
    sizes = {(row["operation"], row["level"]): row["bytes"] for row in rows}
    assert sizes["triad", "L2"] <= (1 << 20) // 2
    assert (1 << 20) < sizes["triad", "L3"] <= (32 << 20) // 4
    assert sizes["copy", "memory"] // 2 >= 4 * (32 << 20)
