"""curves_for: evidence, stand-ins for missing numbers, and dispatch to this machine's own points."""

from __future__ import annotations

import msgspec
import pytest

from advisor.cost.calibration import Calibration
from advisor.cost.curves import (
    attention_seconds,
    conv_seconds,
    curves_for,
    gemm_seconds,
    launch_seconds,
    peak_of,
    stream_seconds,
)
from advisor.hardware import load
from advisor.hardware.platform import Platform
from advisor.usecases.calibration import load_calibration


def platform(name: str, **changes: object) -> Platform:
    sheet = msgspec.structs.replace(load.profile(name), **changes)
    return Platform(name=name, profile=sheet, devices=1, nodes=1, memory_bytes=None)


def test_evidence_follows_what_was_measured() -> None:
    fitted = load_calibration()
    assert curves_for(platform("h100-sxm5-80gb"), "torch", fitted).evidence == "calibrated"
    assert curves_for(platform("tpu-v5p"), "jax", fitted).evidence == "transferred"
    assert curves_for(platform("h100-sxm5-80gb"), "torch", Calibration.prior()).evidence == "spec"


def test_a_device_known_by_its_sheet_alone_is_priced() -> None:
    curves = curves_for(platform("ascend-910b"), "torch", load_calibration())
    seconds = gemm_seconds(curves, 4096, 4096, 4096, "bf16")
    assert 1.0 < seconds * curves.peak("bf16") / (2 * 4096**3) < 3.0


def test_missing_numbers_are_named() -> None:
    curves = curves_for(platform("h100-sxm5-80gb", memory_gb_per_s=None, compute_units=None), "torch", load_calibration())
    assert len(curves.notes) == 2
    assert stream_seconds(curves, 1e9) > 0


@pytest.mark.parametrize(
    ("dtype", "peaks", "expected"),
    [
        ("bf16", {"fp16": 125.0, "fp32": 15.7, "fp32_vector": 15.7}, 15.7),
        ("fp8", {"bf16": 312.0}, 312.0),
        ("tf32", {"tf32": 156.0, "fp32": 19.5}, 156.0),
        ("int8", {"fp32": 1.0}, 1.0),
    ],
)
def test_the_unit_that_stands_in_for_a_dtype(dtype: str, peaks: dict[str, float], expected: float) -> None:
    assert peak_of(peaks, dtype) == expected


def test_faster_numbers_are_faster_where_the_device_has_them() -> None:
    curves = curves_for(platform("h100-sxm5-80gb"), "torch", load_calibration())
    fp32, tf32, bf16, fp8 = (float(gemm_seconds(curves, 8192, 8192, 8192, d)) for d in ("fp32", "tf32", "bf16", "fp8"))
    assert fp32 > tf32 > bf16 > fp8


def test_attention_stream_and_launch_are_positive_and_scale() -> None:
    curves = curves_for(platform("a100-sxm4-80gb"), "torch", load_calibration())
    shape = {"heads": 32, "kv_heads": 32, "query": 2048, "keys": 2048, "head_dim": 128}
    one, two = (attention_seconds(curves, batch=b, **shape, causal=True, dtype="bf16") for b in (8, 16))
    assert 1.7 < two / one < 2.1
    assert 1.9 < stream_seconds(curves, 2e9) / stream_seconds(curves, 1e9) < 2.1
    assert launch_seconds(curves, 200) == pytest.approx(2 * launch_seconds(curves, 100))


def test_convolutions_grouped_and_depthwise_lose_efficiency() -> None:
    curves = curves_for(platform("a100-sxm4-80gb"), "torch", load_calibration())
    shape = {"batch": 64, "kernel": 9.0, "out_h": 28.0, "out_w": 28.0, "stride": 1.0, "dtype": "fp16"}
    dense = conv_seconds(curves, in_channels=256.0, out_channels=256.0, groups=1.0, **shape)
    grouped = conv_seconds(curves, in_channels=256.0, out_channels=256.0, groups=32.0, **shape)
    depthwise = conv_seconds(curves, in_channels=256.0, out_channels=256.0, groups=256.0, **shape)
    assert dense < 32 * grouped
    assert depthwise < 256 * dense / 4
    assert grouped * 32 > dense, "a thirty-second of the work takes far more than a thirty-second of the time"
