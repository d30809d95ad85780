"""Time a call with the measuring child's own loop, or cold: once at a time, with what it reads dropped from the page cache before."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def seconds(run: Callable[[], Any], *, threads: int, budget_s: float) -> float:
    """Return the median seconds of one call, warm: calibrated, warmed up and sampled as in ``advisor bench``."""
    from microbench.sampling import time_kernel

    return time_kernel(run, budget_s=budget_s, limit_s=max(4 * budget_s, 20.0), threads=threads, min_samples=4).estimate()[0]


def cold_seconds(run: Callable[[], Any], files: Iterable[Path], *, times: int) -> float:
    """Return the median seconds of one call with ``files`` out of the page cache; dropping them is outside the timing."""
    paths, samples = list(files), []
    for _ in range(times):
        drop(paths)
        begin = time.perf_counter()
        run()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples)


def drop(paths: Iterable[Path]) -> None:
    """Write ``paths`` out and drop their pages from the cache (posix_fadvise; clean pages need no rights)."""
    os.sync()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
