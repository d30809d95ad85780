"""torch.utils.data over the files of the dataload benchmark; worker processes stay for the life of the kernel."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from microbench import conditions
from microbench.benchmarks.dataload import stage
from microbench.plugin import Kernel, Unsupported
from microbench.protocol import Case

BATCH = 16


class Samples(torch.utils.data.Dataset[float]):
    """Sums of samples, from loose files or from one memory-mapped file."""

    def __init__(self, folder: Path, count: int, mapped: bool, use: Callable[[np.ndarray], float]) -> None:
        self.folder, self.count, self.use = folder, count, use
        self.mapped = np.load(folder / "all.npy", mmap_mode="r") if mapped else None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> float:
        return self.use(self.mapped[index] if self.mapped is not None else np.load(self.folder / f"{index:06}.npy"))


class Shards(torch.utils.data.IterableDataset[tuple[int, float]]):
    """(index, sum) of the samples in tar shards, read from begin to end, each worker its own shards (as webdataset does)."""

    def __init__(self, folder: Path, shards: int, use: Callable[[np.ndarray], float]) -> None:
        self.folder, self.shards, self.use = folder, shards, use

    def __iter__(self) -> Iterator[tuple[int, float]]:
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info is not None else (0, 1)
        for number in range(first, self.shards, step):
            with tarfile.open(self.folder / f"shard-{number:04}.tar") as archive:
                for item in archive:
                    yield int(item.name[:6]), self.use(np.frombuffer(archive.extractfile(item).read(), np.uint8))  # type: ignore[union-attr]


def build(case: Case, inputs: Mapping[str, Any]) -> Kernel:
    """Make a DataLoader ready; its workers are started by the first call."""
    kind, use = case.params.get("format"), stage(case.params)
    if kind not in ("files", "memmap", "tar"):
        raise Unsupported(f"the torch backend reads no {kind!r}")
    workers, folder = int(case.params["workers"]), inputs["folder"]
    samples = Shards(folder, inputs["shards"], use) if kind == "tar" else Samples(folder, inputs["samples"], kind == "memmap", use)
    loader = torch.utils.data.DataLoader(samples, batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0)
    box: list[Any] = [None]

    def run() -> None:
        box[0] = list(loader)
        if workers:
            conditions.helpers.update(process.pid for process in loader._iterator._workers)

    def result() -> Any:
        if kind != "tar":
            return torch.cat(box[0]).numpy()
        order = torch.cat([indices for indices, _ in box[0]]).argsort()
        return torch.cat([sums for _, sums in box[0]])[order].numpy()

    return Kernel(run, result)
