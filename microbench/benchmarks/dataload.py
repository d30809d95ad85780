"""Data loading: samples a second from loose files, a tar shard or one memory-mapped file, by worker count.

A sample is an 8-bit array of 64 KiB (an image of 147 x 147 x 3); loading it means to read it, to make it float32 in [0, 1] and to sum it.
The files were just written, so they come from the page cache: this measures formats and workers, not the disk.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from microbench.plugin import Benchmark
from microbench.protocol import Case
from microbench.reference import WrongResult, generator, largest_error

SAMPLE_BYTES = 1 << 16
COUNTS = {True: 128, False: 512}


def cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one case without workers and one with as many as there are threads."""
    workers = dict.fromkeys((0, int(plan.get("threads") or 1)))
    return [{"workers": count, "samples": COUNTS[bool(plan.get("quick"))], "sample_bytes": SAMPLE_BYTES} for count in workers]


def work(params: Mapping[str, Any]) -> float:
    """Return samples of one call."""
    return float(params["samples"])


def decode(raw: np.ndarray) -> float:
    """Return the sum of a sample as float32 in [0, 1]: what loading ends in."""
    return float((raw.astype(np.float32) * np.float32(1 / 255)).sum(dtype=np.float64))


class DataProblem:
    """The same samples in every format below a temporary folder, and their sums."""

    def __init__(self, case: Case, seed: int) -> None:
        self.work = work(case.params)
        count, size = int(case.params["samples"]), int(case.params["sample_bytes"])
        data = generator(seed, "dataload").integers(0, 256, (count, size), dtype=np.uint8)
        self.sums = data.sum(axis=1, dtype=np.float64) / 255
        self._folder = tempfile.TemporaryDirectory(prefix="microbench")
        folder = Path(self._folder.name)
        for index, sample in enumerate(data):
            np.save(folder / f"{index:06}.npy", sample)
        np.save(folder / "all.npy", data)
        with tarfile.open(folder / "shard.tar", "w") as shard:
            for index, sample in enumerate(data):
                info = tarfile.TarInfo(f"{index:06}.bin")
                info.size = size
                shard.addfile(info, io.BytesIO(sample.tobytes()))
        self.inputs = {"folder": folder, "samples": count, "sample_bytes": size}

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
    title="samples a second from loose files, a tar shard, a memory-mapped file",
    metric="samples_per_s",
    unit="samples/s",
    cases=cases,
    work=work,
    problem=problem,
    nominal_rate=1e3,
    variant="format",
    threads="never-one",
)
