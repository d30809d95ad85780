"""Measurements of a product move its curves, each its own library class, and only those that did are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.cost.curves import curves_for, gemm_seconds
from advisor.hardware.platform import KernelPoint, Platform
from advisor.hardware.spec import parse_spec
from advisor.hardware.topology import platform_for
from advisor.usecases.calibration import load_calibration

K = load_calibration()
H100 = platform_for(parse_spec("8xh100-sxm5-80gb"))
SIZE = 4096.0


def point(name: str, dtype: str, rate: float, size: float = SIZE) -> KernelPoint:
    return KernelPoint(id=name, kind="gemm", backend="torch", dtype=dtype, threads=1, shape={"m": size, "n": size, "k": size}, rate=rate)


def seconds(platform: Platform, dtype: str) -> float:
    return float(gemm_seconds(curves_for(platform, "torch", K), SIZE, SIZE, SIZE, dtype))


def rate(dtype: str) -> float:
    return 2 * SIZE**3 / seconds(H100, dtype)


def with_points(*points: KernelPoint) -> Platform:
    return replace(H100, points=points)


def test_a_class_moves_by_its_own_points() -> None:
    faster = with_points(point("a", "fp8", 1.2 * rate("fp8")))
    assert seconds(faster, "fp8") < seconds(H100, "fp8")
    assert seconds(faster, "bf16") == seconds(H100, "bf16")
    assert curves_for(faster, "torch", K).measurements == ("a",)


def test_sixteen_bits_speak_for_the_vendors_eight_until_those_are_measured() -> None:
    slower = with_points(point("a", "bf16", 0.5 * rate("bf16")))
    assert seconds(slower, "fp8") > seconds(H100, "fp8")
    both = with_points(point("a", "bf16", 0.5 * rate("bf16")), point("b", "fp8", rate("fp8")))
    assert seconds(both, "fp8") == pytest.approx(seconds(H100, "fp8"), rel=1e-3)


def test_many_points_weigh_more_than_one() -> None:
    one = with_points(point("a", "bf16", 0.8 * rate("bf16")))
    many = with_points(*(point(f"p{i}", "bf16", 0.8 * rate("bf16"), SIZE + 128 * i) for i in range(12)))
    assert seconds(H100, "bf16") < seconds(one, "bf16") < seconds(many, "bf16")


@pytest.mark.parametrize(
    "odd", [("tf32", 1e14, SIZE), ("bf16", 2e15, SIZE), ("bf16", 1e12, SIZE), ("bf16", 5e14, 512.0), ("int4", 1e14, SIZE)]
)
def test_what_tells_nothing_is_neither_used_nor_named(odd: tuple[str, float, float]) -> None:
    dtype, value, size = odd
    curves = curves_for(with_points(point("x", dtype, value, size)), "torch", K)
    assert curves.measurements == ()
    assert curves.gemm == curves_for(H100, "torch", K).gemm


def test_the_fastest_of_one_shape_is_the_one_used() -> None:
    curves = curves_for(with_points(point("slow", "bf16", 3e14), point("fast", "bf16", 6e14)), "torch", K)
    assert curves.measurements == ("fast",)
