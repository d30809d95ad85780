"""Curves through this machine's own points: interpolation, threads, dtypes that nobody measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor.cost.calibration import Calibration
from advisor.cost.curves import curves_for, gemm_seconds, stream_seconds
from advisor.cost.local import LocalCurves, local_curves
from advisor.hardware.platform import KernelPoint, Platform
from advisor.hardware.records import HardwareProfile

SHEET = HardwareProfile(id="cpu", name="CPU", vendor="any", target="cpu-x86", dense_tflops={"fp32": 0.2, "bf16": 0.4}, memory_gb_per_s=30.0)


def point(m: int, n: int, k: int, rate: float, **changes: Any) -> KernelPoint:
    shape = {"m": m, "n": n, "k": k, "weight": "constant"}
    fields: dict[str, Any] = {"backend": "torch", "dtype": "fp32", "threads": 2, **changes}
    return KernelPoint(id=f"{m}-{n}-{k}-{fields['dtype']}-{fields['threads']}", kind="gemm", shape=shape, rate=rate, **fields)


POINTS = (point(256, 256, 256, 60e9), point(2048, 2048, 2048, 150e9), point(1, 4096, 4096, 8e9), point(64, 4096, 4096, 110e9))


def curves(
    points: tuple[KernelPoint, ...] = POINTS, name: str = "torch", threads: int = 2, isa: tuple[str, ...] = ("avx2",)
) -> LocalCurves:
    platform = Platform(name="local", profile=SHEET, devices=1, nodes=1, memory_bytes=1 << 34, threads=2, points=points, isa=isa)
    return local_curves(platform, name, threads, {"fp32": 2e11, "bf16": 4e11}, 30e9)


def test_the_points_themselves_are_met() -> None:
    c = curves()
    for p in POINTS:
        m, n, k = (int(p.shape[name]) for name in "mnk")
        assert float(c.gemm(m, n, k, "fp32")) == pytest.approx(2 * m * n * k / p.rate, rel=0.12)


def test_between_points_the_rate_lies_between_theirs() -> None:
    seconds = float(curves().gemm(1024, 1024, 1024, "fp32"))
    assert 60e9 < 2 * 1024**3 / seconds < 160e9


def test_skinny_products_are_slower_per_operation() -> None:
    c = curves()
    rates = [2 * m * 4096 * 4096 / float(c.gemm(m, 4096, 4096, "fp32")) for m in (1, 8, 64, 512)]
    assert rates == sorted(rates)


def test_measured_here_is_said() -> None:
    c = curves()
    assert c.evidence == "measured"
    assert set(c.measurements) == {p.id for p in POINTS}
    assert curves(name="onnxruntime").evidence == "spec"


def test_one_thread_is_slower_than_two() -> None:
    assert float(curves(threads=1).gemm(1024, 1024, 1024, "fp32")) > 1.5 * float(curves().gemm(1024, 1024, 1024, "fp32"))


def test_an_unmeasured_16_bit_type_is_never_recommended() -> None:
    slow = curves()
    assert float(slow.gemm(512, 512, 512, "bf16")) > 10 * float(slow.gemm(512, 512, 512, "fp32"))
    native = curves(isa=("avx512_bf16",))
    assert float(native.gemm(512, 512, 512, "bf16")) >= float(native.gemm(512, 512, 512, "fp32"))


def test_a_measured_type_uses_its_own_points() -> None:
    c = curves((*POINTS, point(1024, 1024, 1024, 300e9, dtype="int8")))
    assert c.measured("int8")
    assert float(c.gemm(1024, 1024, 1024, "int8")) == pytest.approx(2 * 1024**3 / 300e9, rel=0.05)


def test_points_of_another_framework_are_not_used() -> None:
    assert not curves(name="jax").gemm_points


def test_streams_use_the_cache_level_they_fit() -> None:
    levels = tuple(
        KernelPoint(
            id=level,
            kind="bandwidth",
            backend="torch",
            dtype="fp32",
            threads=2,
            shape={"operation": "copy", "level": level, "bytes": size},
            rate=rate,
        )
        for level, size, rate in (("L2", 3e5, 200e9), ("L3", 5e6, 100e9), ("memory", 5e8, 20e9))
    )
    c = curves((*POINTS, *levels))
    assert float(c.stream(1e9)) == pytest.approx(1e9 / 20e9, rel=0.01)
    assert float(c.stream(5e6)) < 5e6 / 20e9


def test_curves_for_a_cpu_answer_from_its_points() -> None:
    platform = Platform(name="local", profile=SHEET, devices=1, nodes=1, memory_bytes=1 << 34, threads=2, points=POINTS, isa=("avx2",))
    c = curves_for(platform, "torch", Calibration.prior())
    assert c.evidence == "measured"
    assert gemm_seconds(c, 2048, 2048, 2048, "fp32") == pytest.approx(2 * 2048**3 / 150e9, rel=0.1)
    assert stream_seconds(c, 0) == 0


def test_arguments_broadcast_and_no_work_takes_no_time() -> None:
    c = curves()
    out = c.gemm([[0], [128]], [256, 512], 64, "fp32")
    assert out.shape == (2, 2)
    assert (out[0] == 0).all()
    attention = c.attention([0, 1], 8, 8, 128, 128, 64, causal=False, dtype="fp32", backward=False)
    assert attention[0] == 0
    assert np.isfinite(attention[1])
    assert c.attention(1, 8, 8, 128, 128, 64, causal=False, dtype="fp32", backward=True) > attention[1]
