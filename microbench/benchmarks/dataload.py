"""Data loading: samples a second from loose files, tar shards, LMDB, Arrow or one memory-mapped file, by worker count.

A sample is an 8-bit array of 64 KiB (an image of 147 x 147 x 3). ``stage`` tells what loading is: ``read``, to have its bytes (one of
every page is summed), or ``decode``, to make it float32 in [0, 1] and to sum it as well. There is a tar shard for each worker.
The files were just written, so they come from the page cache: this measures formats and workers, not the disk.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from microbench.plugin import Benchmark, Unsupported
from microbench.protocol import Case
from microbench.reference import WrongResult, generator, largest_error

SAMPLE_BYTES = 1 << 16
PAGE_BYTES = 4096
COUNTS = {True: 128, False: 512}


def cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return both stages without workers and with as many as there are threads; without ``quick`` the powers of two between."""
    most = int(plan.get("threads") or 1)
    counts = {0, most}
    if not plan.get("quick"):
        counts |= {1 << power for power in range(most.bit_length()) if 1 << power < most}
    size = {"samples": COUNTS[bool(plan.get("quick"))], "sample_bytes": SAMPLE_BYTES}
    return [{"workers": count, **size, "stage": stage} for count in sorted(counts) for stage in STAGES]


def work(params: Mapping[str, Any]) -> float:
    """Return samples of one call."""
    return float(params["samples"])


def decode(raw: np.ndarray) -> float:
    """Return the sum of a sample as float32 in [0, 1]: what loading ends in."""
    return float((raw.astype(np.float32) * np.float32(1 / 255)).sum(dtype=np.float64))


def touch(raw: np.ndarray) -> float:
    """Return the sum of one byte a page, so that a mapped sample is really read."""
    return float(raw[::PAGE_BYTES].sum(dtype=np.float64))


STAGES = {"read": touch, "decode": decode}


def stage(params: Mapping[str, Any]) -> Callable[[np.ndarray], float]:
    """Return what is done with each sample of a case."""
    name = str(params.get("stage", "decode"))
    if name not in STAGES:
        raise Unsupported(f"data loading has no stage {name!r}")
    return STAGES[name]


def spread(function: Callable[[int], float], count: int, workers: int) -> Callable[[], list[float]]:
    """Return a call that applies ``function`` to 0 ... count - 1 and gives the results in order, in ``workers`` threads or in ours."""
    if not workers:
        return lambda: [function(index) for index in range(count)]
    pool = ThreadPoolExecutor(workers)
    return lambda: list(pool.map(function, range(count)))


def shard_range(count: int, shards: int, number: int) -> range:
    """Return the samples in tar shard ``number`` of ``shards``."""
    return range(number * count // shards, (number + 1) * count // shards)


class DataProblem:
    """The same samples in every format below a temporary folder, and their sums."""

    def __init__(self, case: Case, seed: int) -> None:
        self.work = work(case.params)
        count, size = int(case.params["samples"]), int(case.params["sample_bytes"])
        data = generator(seed, "dataload").integers(0, 256, (count, size), dtype=np.uint8)
        exact = {"read": data[:, ::PAGE_BYTES].sum(axis=1, dtype=np.float64), "decode": data.sum(axis=1, dtype=np.float64) / 255}
        self.sums = exact[str(case.params.get("stage", "decode"))]
        self._folder = tempfile.TemporaryDirectory(prefix="microbench")
        folder = Path(self._folder.name)
        for index, sample in enumerate(data):
            np.save(folder / f"{index:06}.npy", sample)
        np.save(folder / "all.npy", data)
        shards = max(1, int(case.params["workers"]))
        for number in range(shards):
            with tarfile.open(folder / f"shard-{number:04}.tar", "w") as shard:
                for index in shard_range(count, shards, number):
                    info = tarfile.TarInfo(f"{index:06}.bin")
                    info.size = size
                    shard.addfile(info, io.BytesIO(data[index].tobytes()))
        self.inputs = {"folder": folder, "samples": count, "sample_bytes": size, "shards": shards}

    def check(self, result: Any) -> float:
        """Compare every sample's sum, in order."""
        error = largest_error(np.asarray(result, dtype=np.float64), self.sums)
        if not error <= 1e-4:
            raise WrongResult(f"relative error {error:.2g} in the sums of the samples", error)
        return error


def problem(case: Case, seed: int) -> DataProblem:
    """Return the files and the reference of ``case``."""
    return DataProblem(case, seed)


BENCHMARK = Benchmark(
    name="dataload",
    title="samples a second from files, tar shards, LMDB, Arrow, a memory map",
    metric="samples_per_s",
    unit="samples/s",
    cases=cases,
    work=work,
    problem=problem,
    nominal_rate=1e3,
    shares=2.0,
    variant="format",
    threads="never-one",
)
