"""Bandwidth: copy, scale, add and triad over working sets that lie in the L2 cache, in the last cache and in memory; reading a disk.

Bytes are counted as STREAM does (McCalpin): two arrays for copy and scale, three for add and triad, reads for ownership not counted.
Cache levels are hot (the arrays are used again and again); in memory each array is four times the last cache, at least twice where
memory is scarce, so cold. ``read`` (level ``disk``) reads a file that is not in the page cache; ``h2d`` and ``d2h`` (level ``link``) copy
between pinned memory of the host and an accelerator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from microbench import conditions
from microbench.plugin import Benchmark, Unsupported
from microbench.protocol import Case
from microbench.reference import WrongResult, generator, largest_error, uniform

#: Arrays that one pass reads or writes; a file is one.
ARRAYS = {"copy": 2, "scale": 2, "add": 3, "triad": 3, "read": 1, "h2d": 1, "d2h": 1}
OPERATIONS = ("copy", "scale", "add", "triad")
#: Bytes of the file that is read: some tenths of a second of a disk with 200 MB/s.
#: Bytes of one array on an accelerator: ten times the last cache of the largest (50 MiB on an H100), and of one copy over its link.
DEVICE_BYTES = 512 << 20
LINK_BYTES = 256 << 20
FILE_BYTES = {True: 64 << 20, False: 256 << 20}
ELEMENT_BYTES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}
FACTOR = 1.5
#: Assumed where the system does not tell its caches.
DEFAULT_CACHES = {"2": 1 << 20, "3": 16 << 20}


def work(params: Mapping[str, Any]) -> float:
    """Return the bytes one pass moves."""
    return float(params["bytes"])


def cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return working sets for each level: half of one core's L2, a quarter of the last cache, four last caches an array.

    A quarter, because the last cache is shared with others whom one does not see. An array in memory takes at most 1/16 of what
    is available, but never less than two last caches: a smaller one would measure the cache.
    """
    operations = ("copy", "scale", "triad") if plan.get("quick") else OPERATIONS
    if not str(plan.get("device") or "cpu").startswith("cpu"):
        # Caches and disk are the host's. A smaller array first, in case the device has little memory.
        sizes = (DEVICE_BYTES // 8, DEVICE_BYTES)
        rows = [{"operation": name, "level": "memory", "bytes": ARRAYS[name] * size} for size in sizes for name in operations]
        return rows + [{"operation": name, "level": "link", "bytes": LINK_BYTES} for name in ("h2d", "d2h")]
    caches = {int(level): size for level, size in (plan.get("caches") or DEFAULT_CACHES).items()}
    last = max(caches.values())
    arrays = {"memory": max(2 * last, min(max(4 * last, 64 << 20), int(plan.get("memory_bytes") or 4 << 30) // 16))}
    if 2 in caches:
        arrays["L2"] = caches[2] // 2 // 3
    if 3 in caches:
        arrays["L3"] = caches[3] // 4 // 3
    rows = []
    for level in ("L2", "L3", "memory"):
        if level in arrays:
            size = arrays[level] // 4096 * 4096
            rows += [{"operation": name, "level": level, "bytes": ARRAYS[name] * size} for name in operations]
    if plan.get("dtype", "fp32") == "fp32":
        rows.append({"operation": "read", "level": "disk", "bytes": FILE_BYTES[bool(plan.get("quick"))]})
    return rows


class BandwidthProblem:
    """Arrays b and c of equal length and what each operation makes of them in a: b, FACTOR b, b + c, b + FACTOR c."""

    def __init__(self, case: Case, seed: int) -> None:
        self.operation = str(case.params["operation"])
        if self.operation not in ARRAYS or case.dtype not in ELEMENT_BYTES:
            raise ValueError(f"no operation {self.operation!r} in {case.dtype}")
        count = int(case.params["bytes"]) // ARRAYS[self.operation] // ELEMENT_BYTES[case.dtype]
        self.dtype, self.work = case.dtype, work(case.params)
        # The inputs, a backend's copies of them, its output and the check's.
        needed, available = 6 * count * 4, conditions.available_memory_bytes()
        if available is not None and needed > available:
            raise Unsupported(f"needs {needed >> 20} MiB of memory for arrays beyond the caches, {available >> 20} MiB are available")
        block = uniform(generator(seed, "bandwidth"), (min(count, 1 << 20),), case.dtype)
        names = ("b", "c") if ARRAYS[self.operation] == 3 else ("b",)
        self.inputs = {name: np.resize(np.roll(block, i), count) for i, name in enumerate(names)}
        self.inputs["factor"] = FACTOR

    def check(self, result: Any) -> float:
        """Compare every 97th element and both ends with float64; every element must be finite."""
        got = np.asarray(result)
        if got.shape != self.inputs["b"].shape:
            raise WrongResult(f"the result has shape {got.shape}, not {self.inputs['b'].shape}", float("inf"))
        if not np.isfinite(got).all():
            raise WrongResult("part of the result was not written (NaN or infinite)", float("inf"))
        where = np.r_[0 : got.size : 97, max(0, got.size - 64) : got.size]
        b = self.inputs["b"][where].astype(np.float64)
        c = self.inputs["c"][where].astype(np.float64) if "c" in self.inputs else 0.0
        want = {"copy": b, "scale": FACTOR * b, "add": b + c, "triad": b + FACTOR * c, "read": b, "h2d": b, "d2h": b}[self.operation]
        error = largest_error(got[where], want)
        tolerance = {"fp64": 2.0**-50, "fp32": 2.0**-21, "fp16": 2.0**-8, "bf16": 2.0**-5}[self.dtype]
        if not error <= tolerance:
            raise WrongResult(f"relative error {error:.2g}, tolerance of {self.dtype} is {tolerance:.2g}", error)
        return error


def problem(case: Case, seed: int) -> BandwidthProblem:
    """Return the inputs and the reference of ``case``."""
    return BandwidthProblem(case, seed)


BENCHMARK = Benchmark(
    name="bandwidth",
    title="copy, scale, add and triad in cache and in memory, disk read",
    metric="bytes_per_s",
    unit="B/s",
    cases=cases,
    work=work,
    problem=problem,
    nominal_rate=10e9,
    operations=OPERATIONS,
    threads="all,one,sweep",
)
