"""The GEMM curve: laws over sizes and hardware, and the regimes it must tell apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cost.calibration import Calibration
from advisor.cost.kernels import gemm
from advisor.usecases.calibration import load_calibration

H100 = {"peak": 989e12, "bandwidth": 3.35e12, "units": 132, "l2": 50 * 2**20}
SIZES = st.integers(1, 20_000)
DTYPES = st.sampled_from(["bf16", "fp8", "fp8_rows", "fp8_block", "fp4", "fp32"])


def hopper() -> gemm.GemmParameters:
    return gemm.parameters(load_calibration(), "hopper")


@settings(max_examples=60, deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES, grow=st.sampled_from([0, 1, 2]), more=st.integers(1, 5000), dtype=DTYPES)
def test_more_work_is_never_faster(m: int, n: int, k: int, grow: int, more: int, dtype: str) -> None:
    sizes = [m, n, k]
    larger = list(sizes)
    larger[grow] += more
    p = hopper()
    assert gemm.seconds(p, *larger, dtype, **H100) >= gemm.seconds(p, *sizes, dtype, **H100) * (1 - 1e-9)


@settings(max_examples=40, deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES, what=st.sampled_from(["peak", "bandwidth"]), factor=st.floats(1.0, 8.0), dtype=DTYPES)
def test_faster_hardware_is_never_slower(m: int, n: int, k: int, what: str, factor: float, dtype: str) -> None:
    better = {**H100, what: H100[what] * factor}
    p = hopper()
    assert gemm.seconds(p, m, n, k, dtype, **better) <= gemm.seconds(p, m, n, k, dtype, **H100) * (1 + 1e-9)


def test_no_work_takes_no_time_and_arguments_broadcast() -> None:
    out = gemm.seconds(hopper(), [[0], [128]], [256, 0, 512], 64, "bf16", **H100)
    assert out.shape == (2, 3)
    assert (out[0] == 0).all()
    assert out[1, 1] == 0
    assert (out[1, [0, 2]] > 0).all()


def test_many_equal_shapes_cost_the_same_as_one() -> None:
    rows = np.tile([[1.0, 4096.0], [128.0, 4096.0]], (50, 1)).T
    out = gemm.seconds(hopper(), rows[0], rows[1], 1024, "bf16", **H100)
    assert out == pytest.approx(np.tile(gemm.seconds(hopper(), rows[0, :2], rows[1, :2], 1024, "bf16", **H100), 50))


def test_skinny_products_are_bound_by_memory_and_square_ones_by_the_peak() -> None:
    p = hopper()
    skinny = gemm.seconds(p, 1, 16384, 16384, "bf16", **H100)
    assert 0.5 < 2 * 16384**2 / skinny / H100["bandwidth"] < 1.0
    square = gemm.seconds(p, 8192, 8192, 8192, "bf16", **H100)
    assert 0.5 < 2 * 8192**3 / square / H100["peak"] < 0.9


def test_a_wave_more_costs_more_than_its_share_of_work() -> None:
    p = hopper()
    full = gemm.seconds(p, 128 * 132, 128, 8192, "fp8_rows", **{**H100, "peak": 1979e12})
    one_more = gemm.seconds(p, 128 * 132 + 128, 128, 8192, "fp8_rows", **{**H100, "peak": 1979e12})
    assert one_more / full > 1 + 2 / 132


def test_without_calibration_the_priors_answer() -> None:
    p = gemm.parameters(Calibration.prior(), "hopper")
    assert p.by_class["16"]["ceiling"] == pytest.approx(0.78)
    assert gemm.seconds(p, 4096, 4096, 4096, "bf16", **H100) > 2 * 4096**3 / H100["peak"]


def test_four_bit_operands_move_fewer_bytes() -> None:
    assert gemm.element_bytes("fp4") < gemm.element_bytes("fp8") == 1.0 < gemm.element_bytes("bf16") == 2.0
