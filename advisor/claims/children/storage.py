"""Samples a second from one format of storage: loose files, a tar shard, WebDataset, LMDB; in order or at random, warm or cold.

A sample is an array of bytes; to have it means that every one of its cache lines was read (a sum over it). Warm: from the page
cache; cold: dropped from it before each pass, so that the disk takes part.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import Lacks, answer
from advisor.claims.children._timing import cold_seconds, seconds

#: Bytes between two that are read: one cache line.
LINE = 64
COLD_PASSES = 5

Reader = Callable[[], int]


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return samples a second of ``format`` in each of ``cases`` (``label``, ``samples``, ``sample_bytes``, ``order``, ``cache``)."""
    return [_rate(str(arguments["format"]), case, arguments) for case in arguments["cases"]]


def _rate(kind: str, case: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    import numpy as np

    count, size = int(case["samples"]), int(case["sample_bytes"])
    rng = np.random.default_rng(int(arguments["seed"]))
    data = rng.integers(0, 256, (count, size), dtype=np.uint8)
    want = int(data[:, ::LINE].sum(dtype=np.int64))
    order = rng.permutation(count) if case.get("order") == "random" else np.arange(count)
    with tempfile.TemporaryDirectory(dir=arguments.get("folder")) as name:
        read, files = FORMATS[kind](Path(name), data, [int(i) for i in order])
        got = read()
        if got != want:
            raise RuntimeError(f"{kind}: the samples sum to {got}, not to {want}")
        if case.get("cache") == "cold":
            taken = cold_seconds(read, files, times=COLD_PASSES)
        else:
            taken = seconds(read, threads=1, budget_s=float(arguments.get("budget_s") or 1.5))
    return {"label": str(case["label"]), "value": count / taken, "detail": {"format": kind, **case}}


def touch(raw: Any) -> int:
    """Return the sum of one byte of each cache line of a sample."""
    import numpy as np

    return int(np.frombuffer(raw, np.uint8)[::LINE].sum(dtype=np.int64))


def _files(folder: Path, data: Any, order: list[int]) -> tuple[Reader, list[Path]]:
    paths = [folder / f"{index:06}.bin" for index in range(len(data))]
    for path, sample in zip(paths, data, strict=True):
        path.write_bytes(sample.tobytes())
    return lambda: sum(touch(paths[index].read_bytes()) for index in order), paths


def _shard(folder: Path, data: Any) -> Path:
    path = folder / "shard.tar"
    with tarfile.open(path, "w") as shard:
        for index, sample in enumerate(data):
            info = tarfile.TarInfo(f"{index:06}.bin")
            info.size = sample.nbytes
            shard.addfile(info, io.BytesIO(sample.tobytes()))
    return path


def _tar(folder: Path, data: Any, order: list[int]) -> tuple[Reader, list[Path]]:
    _in_order("tar", order)
    path = _shard(folder, data)

    def read() -> int:
        with tarfile.open(path) as shard:
            return sum(touch(file.read()) for item in shard if (file := shard.extractfile(item)) is not None)

    return read, [path]


def _webdataset(folder: Path, data: Any, order: list[int]) -> tuple[Reader, list[Path]]:
    import webdataset

    _in_order("webdataset", order)
    path = _shard(folder, data)
    shards = webdataset.WebDataset(str(path), shardshuffle=False)
    return lambda: sum(touch(sample["bin"]) for sample in shards), [path]


def _in_order(kind: str, order: list[int]) -> None:
    if order != sorted(order):
        raise Lacks(f"{kind} reads its samples in order")


def _lmdb(folder: Path, data: Any, order: list[int]) -> tuple[Reader, list[Path]]:
    import lmdb

    path = folder / "lmdb"
    with lmdb.open(str(path), map_size=4 * data.nbytes + (1 << 24)) as database, database.begin(write=True) as writing:
        for index, sample in enumerate(data):
            writing.put(f"{index:06}".encode(), sample.tobytes())
    keys = [f"{index:06}".encode() for index in order]

    def read() -> int:
        # Opened anew in each pass: pages that are mapped stay in memory however cold the cache is made.
        with lmdb.open(str(path), readonly=True, lock=False, readahead=False) as opened, opened.begin(buffers=True) as reading:
            return sum(touch(reading.get(key)) for key in keys)

    return read, [path / "data.mdb"]


FORMATS = {"files": _files, "tar": _tar, "webdataset": _webdataset, "lmdb": _lmdb}

if __name__ == "__main__":
    answer(measure)
