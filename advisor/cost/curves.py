"""DeviceCurves: what the kernel formulas need to know of one device, and the functions that price kernels on it.

``curves_for`` joins a data sheet (peaks, bandwidths, units) with the calibrated parameters of the device's generation. A parameter
is shared by every device of a generation; a generation nobody measured takes the mean over those that were (evidence
``transferred``), and without any calibration the documented priors of ``advisor.cost.kernels`` stand (evidence ``spec``).

Every ``*_seconds`` function broadcasts its numeric arguments as float arrays and returns float64 seconds; no work costs 0 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.kernels import attention as _attention
from advisor.cost.kernels import collective as _collective
from advisor.cost.kernels import conv as _conv
from advisor.cost.kernels import gemm as _gemm
from advisor.cost.kernels import launch as _launch
from advisor.cost.kernels import stream as _stream
from advisor.cost.kernels.generation import fitted, generation_of
from advisor.cost.local import LocalCurves, convolution_ratio, local_curves
from advisor.cost.measured_rates import moved_by
from advisor.hardware.platform import Evidence, KernelPoint, NetworkTier, Platform

Floats = npt.NDArray[np.float64]
ArrayLike = Any

#: Where a sheet has no peak for a dtype, the unit that would do the work instead, fastest first.
_FALLBACKS: Mapping[str, tuple[str, ...]] = {
    "fp64": ("fp64", "fp64_vector"),
    "fp32": ("fp32", "fp32_vector"),
    "tf32": ("tf32", "fp32", "fp32_vector"),
    "fp16": ("fp16", "bf16", "fp32", "fp32_vector"),
    "bf16": ("bf16", "fp32_vector", "fp32", "fp16"),
    "fp8": ("fp8", "bf16", "fp16", "fp32", "fp32_vector"),
    "fp4": ("fp4", "fp8", "bf16", "fp16", "fp32", "fp32_vector"),
    "fp8_rows": ("fp8", "bf16", "fp16", "fp32", "fp32_vector"),
    "fp8_block": ("fp8", "bf16", "fp16", "fp32", "fp32_vector"),
    "int8": ("int8", "fp8", "bf16", "fp16", "fp32", "fp32_vector"),
}


def peak_of(peaks: Mapping[str, float], dtype: str) -> float:
    """Return the peak for ``dtype`` among ``peaks``, or that of the unit which stands in for it; the largest where none does."""
    for key in _FALLBACKS.get(dtype, (dtype,)):
        if key in peaks:
            return peaks[key]
    return max(peaks.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCurves:
    """One device as the kernel formulas see it. Rates are per logical device; dense peaks."""

    name: str
    generation: str
    peaks_flops_per_s: Mapping[str, float]
    memory_bytes_per_s: float
    compute_units: int
    l2_bytes: float
    gemm: _gemm.GemmParameters
    attention: _attention.AttentionParameters
    stream: _stream.StreamParameters
    collective: _collective.CollectiveParameters
    launch: _launch.LaunchParameters
    conv: _conv.ConvParameters
    local: LocalCurves | None = None
    """Curves through this machine's own measurements, which then answer in place of the formulas; None for a what-if."""
    evidence: Evidence
    peer_to_peer: bool = True
    measurements: tuple[str, ...] = ()
    """Measurements of this machine or product that the curves rest on."""
    notes: tuple[str, ...] = field(default=())

    def peak(self, dtype: str) -> float:
        """Return the dense peak for ``dtype`` in FLOP/s, or that of the unit which stands in for it."""
        return peak_of(self.peaks_flops_per_s, dtype)

    @property
    def read_bytes_per_s(self) -> float:
        """Bandwidth that long passes through memory reach."""
        return self.local.bandwidth if self.local is not None else self.memory_bytes_per_s * self.stream.efficiency

    def native(self, dtype: str) -> bool:
        """Tell whether the sheet gives a peak for this very dtype (or its vector unit)."""
        return dtype in self.peaks_flops_per_s or f"{dtype}_vector" in self.peaks_flops_per_s


def curves_for(
    platform: Platform, framework: str, calibration: Calibration, threads: int | None = None, execution: str = "eager"
) -> DeviceCurves:
    """Return the curves of the platform's device as ``framework`` drives it, on a CPU with ``threads`` (default: the platform's).

    Missing sheet numbers take the documented priors: 80 compute units, 1/20 byte/s of bandwidth per FLOP/s of the 16-bit peak,
    (10 GB/s a core for CPUs) and 40 MiB of last-level cache; ``notes`` names each one that was used.
    """
    sheet = platform.profile
    generation = generation_of(sheet)
    peaks = {dtype: value * 1e12 for dtype, value in sheet.dense_tflops.items() if value and value > 0}
    notes: list[str] = []
    if not peaks:
        peaks = {"fp32": 1e12}
        notes.append(f"{sheet.id}: no peak known, 1 TFLOP/s assumed")
    bandwidth = (sheet.memory_gb_per_s or 0.0) * 1e9
    if bandwidth <= 0:
        if platform.is_cpu:
            # One core draws about 10 GB/s, a socket no more than about 100 (DDR4 and DDR5 servers).
            bandwidth = min(10e9 * max(platform.threads, 1), 100e9)
        else:
            bandwidth = max(peaks.get("bf16", 0.0), peaks.get("fp16", 0.0), max(peaks.values()) / 4) / 200.0
        notes.append(f"{sheet.id}: memory bandwidth unknown, estimated")
    if sheet.compute_units is None and not platform.is_cpu:
        notes.append(f"{sheet.id}: compute units unknown, 80 assumed")
    known = fitted(calibration, f"gemm.ceiling.16.{generation}") is not None
    evidence: Evidence = "calibrated" if known else ("transferred" if fitted(calibration, "gemm.ceiling.16.any") is not None else "spec")
    local = local_curves(platform, framework, threads or platform.threads, peaks, bandwidth) if platform.is_cpu else None
    if local is not None:
        evidence = local.evidence
        notes.extend(local.notes)
    curves = DeviceCurves(
        local=local,
        name=sheet.id,
        generation=generation,
        peaks_flops_per_s=peaks,
        memory_bytes_per_s=bandwidth,
        compute_units=sheet.compute_units or (max(1, platform.threads) if platform.is_cpu else 80),
        l2_bytes=(sheet.l2_mib or 40.0) * 2**20,
        gemm=_gemm.parameters(calibration, generation),
        attention=_attention.parameters(calibration, generation),
        stream=_stream.parameters(calibration, generation),
        collective=_collective.parameters(calibration, generation),
        launch=_launch.parameters(calibration, framework, platform.is_cpu),
        conv=_convolution(calibration, generation, framework, execution, platform.is_cpu),
        evidence=evidence,
        peer_to_peer=sheet.peer_to_peer,
        measurements=() if local is None else local.measurements,
        notes=tuple(notes),
    )
    return curves if platform.is_cpu or not platform.points else _as_measured(curves, platform.points)


def _as_measured(curves: DeviceCurves, points: Sequence[KernelPoint]) -> DeviceCurves:
    """Return the curves of a product moved by what was measured on it."""

    def seconds(m: float, n: float, k: float, dtype: str) -> float:
        return float(gemm_seconds(curves, m, n, k, dtype))

    moved = moved_by(points, curves.gemm, seconds, curves.peaks_flops_per_s.get)
    return replace(curves, gemm=moved.gemm, measurements=moved.measurements)


def _convolution(calibration: Calibration, generation: str, framework: str, execution: str, is_cpu: bool) -> _conv.ConvParameters:
    fitted_or_prior = _conv.parameters(calibration, generation)
    ratio = convolution_ratio(framework, execution) if is_cpu else None
    return fitted_or_prior if ratio is None else replace(fitted_or_prior, gather=ratio)


def gemm_seconds(curves: DeviceCurves, m: ArrayLike, n: ArrayLike, k: ArrayLike, dtype: str, reuse: float = 1.0) -> Floats:
    """Return seconds of an (m x k) by (k x n) product in ``dtype``, all operands in device memory.

    ``reuse``: how often an element of the left operand appears in it, above 1 for the implicit product of a convolution.
    """
    if curves.local is not None:
        return curves.local.gemm(m, n, k, dtype)
    return _gemm.seconds(
        curves.gemm,
        m,
        n,
        k,
        dtype,
        peak=curves.peak(dtype),
        bandwidth=curves.memory_bytes_per_s,
        units=curves.compute_units,
        l2=curves.l2_bytes,
        reuse=reuse,
    )


def attention_seconds(
    curves: DeviceCurves,
    *,
    batch: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    query: ArrayLike,
    keys: ArrayLike,
    head_dim: ArrayLike,
    causal: bool,
    dtype: str,
    backward: bool = False,
) -> Floats:
    """Return seconds of one fused attention kernel: ``query`` new tokens against ``keys`` of each of ``batch`` sequences."""
    if curves.local is not None:
        return curves.local.attention(batch, heads, kv_heads, query, keys, head_dim, causal=causal, dtype=dtype, backward=backward)
    return _attention.seconds(
        curves.attention,
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        query=query,
        keys=keys,
        head_dim=head_dim,
        causal=causal,
        dtype=dtype,
        backward=backward,
        peak=curves.peak(dtype),
        bandwidth=curves.memory_bytes_per_s,
        units=curves.compute_units,
    )


def stream_seconds(curves: DeviceCurves, bytes_: ArrayLike) -> Floats:
    """Return seconds of a memory-bound kernel that moves ``bytes_`` (reads and writes together) through device memory."""
    if curves.local is not None:
        return curves.local.stream(bytes_)
    return _stream.seconds(curves.stream, bytes_, bandwidth=curves.memory_bytes_per_s)


def collective_seconds(
    op: str,
    size_bytes: ArrayLike,
    group: ArrayLike,
    tiers: Sequence[NetworkTier],
    curves: DeviceCurves,
    stride: ArrayLike = 1.0,
    *,
    reducible: bool = True,
    issued: bool = False,
) -> Floats:
    """Return seconds of collective ``op`` over ``group`` devices that sit ``stride`` apart in the placement order.

    ``size_bytes`` follows nccl-tests: the buffer of one rank for all_reduce, all_to_all and p2p, the gathered (unscattered) whole
    for all_gather and reduce_scatter. ``reducible``: the switch can add the dtype (not int8); ``issued``: launched alone by the host.
    """
    return _collective.seconds(
        curves.collective,
        op,
        size_bytes,
        group,
        tiers,
        stride=stride,
        peer_to_peer=curves.peer_to_peer,
        memory_bytes_per_s=curves.memory_bytes_per_s,
        reducible=reducible,
        issued=issued,
    )


def conv_seconds(
    curves: DeviceCurves,
    *,
    batch: ArrayLike,
    in_channels: float,
    out_channels: float,
    kernel: float,
    groups: float,
    out_h: float,
    out_w: float,
    stride: float,
    dtype: str,
) -> Floats:
    """Return seconds of a convolution over ``batch`` images; ``kernel`` is the area of its window."""
    return _conv.seconds(
        curves.conv,
        lambda m, n, k, reuse: gemm_seconds(curves, m, n, k, dtype, reuse),
        lambda moved: stream_seconds(curves, moved),
        batch=batch,
        in_channels=in_channels,
        out_channels=out_channels,
        kernel=kernel,
        groups=groups,
        out_h=out_h,
        out_w=out_w,
        stride=stride,
        dtype=dtype,
    )


def launch_seconds(curves: DeviceCurves, kernels: ArrayLike) -> Floats:
    """Return the host time to launch ``kernels`` kernels one after the other."""
    return _launch.seconds(curves.launch, kernels)
