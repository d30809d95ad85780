"""Curves of this very machine: measured points of one framework's kernels, interpolated; priors from the peak where there are none.

A base formula carries the shape of a kernel between and beyond the points, and the points carry what the formula does not know:

    base     = start + ((FLOPs / best measured rate)^2 + (bytes / measured bandwidth)^2)^(1/2)
    seconds  = base * exp(weighted mean of log(measured / base) over the points, weight 1/(0.05 + distance^2)^2)

with distances in doublings of the sizes (Shepard's method in log space). Rows of a product weigh twice as much as the other sizes:
skinny products differ most. Points of another number of threads are scaled in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.frameworks import framework as descriptor
from advisor.hardware.platform import Evidence, KernelPoint, Platform
from advisor.units import DTYPE_BITS

Floats = npt.NDArray[np.float64]

#: Share of the peak that large products reach where nothing was measured (vendor BLAS on server CPUs: 0.6 to 0.9).
_PRIOR_EFFICIENCY = 0.6
#: Scaled to more threads than were measured, work gains this power of the ratio (memory and clock are shared).
_THREAD_POWER = 0.9
#: Rate of int8 products over fp32 ones where only fp32 was measured: without VNNI little more than equal (FBGEMM, 2021).
_INT8_GAIN = 1.3
#: Without instructions for 16-bit floats each product is converted or emulated: 14 to 23 times slower in PyTorch on such machines.
_EMULATED = 16.0
_NATIVE_FLAGS: Mapping[str, tuple[str, ...]] = {
    "bf16": ("amx_bf16", "avx512_bf16", "bf16", "svebf16"),
    "fp16": ("amx_fp16", "avx512_fp16", "asimdhp", "fphp"),
}
#: Start of a kernel inside a framework (thread wake-up and dispatch) where no small product was measured.
_START_S = 8e-6
#: Backward of attention on a CPU runs unfused: five products for two.
_BACKWARD = 2.5
_SMOOTH = 0.05
#: Weight of the base formula itself: that of one point four doublings of all sizes away.
_FAR = 1.0 / (_SMOOTH + 16.0) ** 2
#: With fewer points of a dtype, none of them need be a product large enough to show the best rate.
_FEW = 3


@dataclass(frozen=True, slots=True)
class PointCloud:
    """Points of one kind: features float64[n, f] in doublings, and log(measured / base) float64[n]."""

    features: Floats
    residual: Floats

    def correction(self, at: Floats) -> Floats:
        """Return the factor on the base at float64[q, f] features; 1 without points."""
        if not len(self.residual):
            return np.ones(len(at))
        distance = ((at[:, None, :] - self.features[None, :, :]) ** 2).sum(axis=2)
        weight = 1.0 / (_SMOOTH + distance) ** 2
        factor: Floats = np.exp((weight * self.residual).sum(axis=1) / (weight.sum(axis=1) + _FAR))
        return factor


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCurves:
    """One framework on this machine's CPU with a fixed number of threads. ``rates``: best FLOP/s by dtype."""

    rates: Mapping[str, float]
    bandwidth: float
    stream_bytes: Floats
    stream_rates: Floats
    gemm_points: Mapping[str, PointCloud]
    attention_points: Mapping[str, PointCloud]
    slowdown: Mapping[str, float]
    """Time of a dtype that nobody measured over that of the one it borrows: ``{"bf16": 16.0}``."""
    borrowed: Mapping[str, str]
    evidence: Evidence
    measurements: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def measured(self, dtype: str) -> bool:
        """Tell whether products of ``dtype`` were measured here."""
        return dtype in self.gemm_points

    def gemm(self, m: Any, n: Any, k: Any, dtype: str) -> Floats:
        """Return seconds of (m x k) by (k x n)."""
        m_, n_, k_ = (np.asarray(x, dtype=np.float64) for x in np.broadcast_arrays(m, n, k))
        source = self.borrowed.get(dtype, dtype)
        flat = [np.maximum(x.ravel(), 1.0) for x in (m_, n_, k_)]
        base = _gemm_base(flat[0], flat[1], flat[2], self._rate(source), self.bandwidth, source)
        cloud = self.gemm_points.get(source)
        if cloud is not None:
            base = base * cloud.correction(_gemm_features(*flat))
        seconds = base.reshape(m_.shape) * self.slowdown.get(dtype, 1.0)
        return np.where((m_ > 0) & (n_ > 0) & (k_ > 0), seconds, 0.0)

    def attention(
        self, batch: Any, heads: Any, kv_heads: Any, query: Any, keys: Any, head_dim: Any, *, causal: bool, dtype: str, backward: bool
    ) -> Floats:
        """Return seconds of one attention call."""
        arrays = [np.asarray(x, dtype=np.float64) for x in np.broadcast_arrays(batch, heads, kv_heads, query, keys, head_dim)]
        shape = arrays[0].shape
        flat = [np.maximum(x.ravel(), 1.0) for x in arrays]
        source = self.borrowed.get(dtype, dtype)
        base = _attention_base(flat, causal, self._rate(source), self.bandwidth, source)
        cloud = self.attention_points.get(source)
        if cloud is not None:
            base = base * cloud.correction(_attention_features(flat))
        seconds = base.reshape(shape) * self.slowdown.get(dtype, 1.0) * (_BACKWARD if backward else 1.0)
        empty = np.zeros(shape, dtype=bool)
        for x in (arrays[0], arrays[1], arrays[3], arrays[4], arrays[5]):
            empty |= x <= 0
        return np.where(empty, 0.0, seconds)

    def stream(self, bytes_: Any) -> Floats:
        """Return seconds of a pass that moves ``bytes_`` (reads and writes together), in the cache level they fit."""
        size = np.asarray(bytes_, dtype=np.float64)
        rate: Floats = np.full(size.shape, self.bandwidth)
        if len(self.stream_bytes):
            rate = np.exp(np.interp(np.log(np.maximum(size, 1.0)), np.log(self.stream_bytes), np.log(self.stream_rates)))
        return np.where(size > 0, _START_S / 2 + size / rate, 0.0)

    def _rate(self, dtype: str) -> float:
        return self.rates.get(dtype, self.rates["fp32"])


def local_curves(platform: Platform, name: str, threads: int, peaks: Mapping[str, float], bandwidth: float) -> LocalCurves:
    """Return the curves of framework ``name`` with ``threads`` threads on the platform's CPU.

    ``peaks`` (FLOP/s by dtype, all usable cores) and ``bandwidth`` (bytes/s) are the sheet's; they stand in for what was not measured.
    """
    spec = descriptor(name)
    backend = spec.bench_backend if spec is not None and spec.bench_backend else name
    mine = _freshest([p for p in platform.points if p.backend == backend])
    stale = dict.fromkeys(p.stale for p in mine if p.stale is not None)
    share = (min(threads, platform.threads) / max(platform.threads, 1)) ** _THREAD_POWER
    stream = _stream_points([p for p in mine if p.kind == "bandwidth"], threads)
    reached = stream[1][-1] if len(stream[1]) else bandwidth * min(1.0, 2.0 * share)
    peak = peaks.get("fp32", peaks.get("fp32_vector", max(peaks.values())))
    rates: dict[str, float] = {"fp32": peak * share * _PRIOR_EFFICIENCY}
    gemms: dict[str, PointCloud] = {}
    attentions: dict[str, PointCloud] = {}
    used: list[str] = []
    for dtype in sorted({p.dtype for p in mine if p.kind == "gemm"}):
        points = _at_threads([p for p in mine if p.kind == "gemm" and p.dtype == dtype and _is_layer(p, mine)], threads)
        best = max(rate for _, rate in points)
        rates[dtype] = best if len(points) >= _FEW else max(best, rates["fp32"])
        gemms[dtype] = _gemm_cloud(points, rates[dtype], reached, dtype)
        used += [p.id for p, _ in points]
    for dtype in sorted({p.dtype for p in mine if p.kind == "attention"}):
        points = _at_threads(_best_kernel([p for p in mine if p.kind == "attention" and p.dtype == dtype]), threads)
        attentions[dtype] = _attention_cloud(points, rates.get(dtype, rates["fp32"]), reached, dtype)
        used += [p.id for p, _ in points]
    slowdown, borrowed = _unmeasured(gemms, platform.isa)
    return LocalCurves(
        rates=rates,
        bandwidth=float(reached),
        stream_bytes=stream[0],
        stream_rates=stream[1],
        gemm_points=gemms,
        attention_points=attentions,
        slowdown=slowdown,
        borrowed=borrowed,
        evidence="spec" if not gemms else "calibrated" if stale else "measured",
        measurements=tuple(dict.fromkeys(used)),
        notes=_notes(name, bool(gemms), [reason for reason in stale if reason is not None]),
    )


def _freshest(points: Sequence[KernelPoint]) -> list[KernelPoint]:
    """Return the points without the stale ones of every kind and dtype that was measured again since."""
    fresh = {(p.kind, p.dtype) for p in points if p.stale is None}
    return [p for p in points if p.stale is None or (p.kind, p.dtype) not in fresh]


def _notes(name: str, known: bool, stale: Sequence[str]) -> tuple[str, ...]:
    if not known:
        return (f"{name}: no kernel of it was measured on this machine; `advisor bench --quick` would",)
    return tuple(f"{name}: {reason}; `advisor bench --quick` measures again" for reason in stale)


def convolution_ratio(name: str, execution: str) -> float | None:
    """Return a framework's time of a convolution on a CPU over the product of the same size, from its descriptor; None if not stated.

    ``cpu_convolution_ratio.<execution>`` stands before ``cpu_convolution_ratio``.
    """
    spec = descriptor(name)
    overheads = spec.overheads if spec is not None else {}
    return overheads.get(f"cpu_convolution_ratio.{execution}", overheads.get("cpu_convolution_ratio"))


def _unmeasured(gemms: Mapping[str, PointCloud], isa: Sequence[str]) -> tuple[dict[str, float], dict[str, str]]:
    """Return slowdown and source for every dtype without points: fp32 times what the instruction set says."""
    slowdown: dict[str, float] = {}
    borrowed: dict[str, str] = {}
    for dtype in DTYPE_BITS:
        if dtype in gemms or dtype == "fp32":
            continue
        borrowed[dtype] = "fp32"
        if dtype in ("int8", "int4", "nf4", "fp8", "fp4"):
            slowdown[dtype] = 1.0 / _INT8_GAIN if dtype == "int8" else 1.0
        elif dtype in _NATIVE_FLAGS:
            # Instructions alone do not make a framework use them: unmeasured, a 16-bit type is at best as fast as fp32.
            slowdown[dtype] = 1.0 if any(flag in isa for flag in _NATIVE_FLAGS[dtype]) else _EMULATED
        else:
            slowdown[dtype] = 2.0 if dtype == "fp64" else 1.0
    return slowdown, borrowed


def _is_layer(point: KernelPoint, all_points: Sequence[KernelPoint]) -> bool:
    """Tell whether a product's weight was constant, as in a layer; where a backend has no such variant, every product counts."""
    return "weight" not in point.shape or str(point.shape["weight"]) == "constant" or not _has_constant(all_points, point.dtype)


def _has_constant(points: Sequence[KernelPoint], dtype: str) -> bool:
    return any(p.kind == "gemm" and p.dtype == dtype and str(p.shape.get("weight")) == "constant" for p in points)


def _best_kernel(points: Sequence[KernelPoint]) -> list[KernelPoint]:
    """Return for each shape the fastest of a backend's attention kernels: it is what a tuned model would call."""
    best: dict[tuple[Any, ...], KernelPoint] = {}
    for point in points:
        key = (point.threads, *(point.shape.get(name) for name in ("batch", "heads", "kv_heads", "query", "keys", "head_dim", "causal")))
        if key not in best or point.rate > best[key].rate:
            best[key] = point
    return list(best.values())


def _at_threads(points: Sequence[KernelPoint], threads: int) -> list[tuple[KernelPoint, float]]:
    """Return points measured with the nearest number of threads, their rates scaled to ``threads``."""
    counts = {p.threads for p in points}
    nearest = min(counts, key=lambda c: (abs(np.log(c / threads)), -c))
    scale = (threads / nearest) ** _THREAD_POWER
    return [(p, p.rate * scale) for p in points if p.threads == nearest]


def _stream_points(points: Sequence[KernelPoint], threads: int) -> tuple[Floats, Floats]:
    """Return working sets in bytes, ascending, and the median rate over the operations at each."""
    if not points:
        return np.zeros(0), np.zeros(0)
    levels: dict[str, list[tuple[float, float]]] = {}
    for point, rate in _at_threads(points, threads):
        levels.setdefault(str(point.shape.get("level", point.shape["bytes"])), []).append((float(point.shape["bytes"]), rate))
    rows = sorted(
        (float(np.median([size for size, _ in level])), float(np.median([rate for _, rate in level]))) for level in levels.values()
    )
    return np.array([size for size, _ in rows]), np.array([rate for _, rate in rows])


def _element(dtype: str) -> float:
    return DTYPE_BITS.get(dtype, 32) / 8


def _gemm_base(m: Floats, n: Floats, k: Floats, rate: float, bandwidth: float, dtype: str) -> Floats:
    compute = 2.0 * m * n * k / rate
    memory = (m * k + k * n + m * n) * _element(dtype) / bandwidth
    return _START_S + np.hypot(compute, memory)


def _gemm_features(m: Floats, n: Floats, k: Floats) -> Floats:
    return np.stack([np.log2(m), 0.5 * np.log2(n), 0.5 * np.log2(k)], axis=1)


def _gemm_cloud(points: Sequence[tuple[KernelPoint, float]], rate: float, bandwidth: float, dtype: str) -> PointCloud:
    m, n, k = (np.array([float(p.shape[name]) for p, _ in points]) for name in "mnk")
    measured = 2.0 * m * n * k / np.array([r for _, r in points])
    return PointCloud(_gemm_features(m, n, k), np.log(measured / _gemm_base(m, n, k, rate, bandwidth, dtype)))


def _attention_work(arrays: Sequence[Floats], causal: Any) -> Floats:
    b, h, _, q, s, d = arrays
    pairs = np.where(causal, q * np.maximum(s - (q - 1.0) / 2.0, (s + 1.0) / 2.0), q * s)
    return 4.0 * b * h * pairs * d


def _attention_base(arrays: Sequence[Floats], causal: Any, rate: float, bandwidth: float, dtype: str) -> Floats:
    b, h, g, q, s, d = arrays
    moved = 2.0 * b * (g * s + h * q) * d * _element(dtype)
    return _START_S + np.hypot(_attention_work(arrays, causal) / rate, moved / bandwidth)


def _attention_features(arrays: Sequence[Floats]) -> Floats:
    b, h, _, q, s, d = arrays
    return np.stack([0.5 * np.log2(b * h), np.log2(q), 0.5 * np.log2(s), 0.5 * np.log2(d)], axis=1)


def _attention_cloud(points: Sequence[tuple[KernelPoint, float]], rate: float, bandwidth: float, dtype: str) -> PointCloud:
    names = ("batch", "heads", "kv_heads", "query", "keys", "head_dim")
    arrays = [np.array([float(p.shape[name]) for p, _ in points]) for name in names]
    causal = np.array([bool(p.shape.get("causal", False)) for p, _ in points])
    measured = _attention_work(arrays, causal) / np.array([r for _, r in points])
    return PointCloud(_attention_features(arrays), np.log(measured / _attention_base(arrays, causal, rate, bandwidth, dtype)))
