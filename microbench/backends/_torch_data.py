"""torch.utils.data over the files of the dataload benchmark; worker processes stay for the life of the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from microbench import conditions
from microbench.benchmarks.dataload import decode
from microbench.plugin import Kernel, Unsupported
from microbench.protocol import Case

BATCH = 16


class Samples(torch.utils.data.Dataset[float]):
    """Sums of samples, from loose files or from one memory-mapped file."""

    def __init__(self, folder: Path, count: int, mapped: bool) -> None:
        self.folder, self.count = folder, count
        self.mapped = np.load(folder / "all.npy", mmap_mode="r") if mapped else None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> float:
        return decode(self.mapped[index] if self.mapped is not None else np.load(self.folder / f"{index:06}.npy"))


def build(case: Case, inputs: Mapping[str, Any]) -> Kernel:
    """Make a DataLoader ready with its workers started."""
    kind = case.params.get("format")
    if kind not in ("files", "memmap"):
        raise Unsupported(f"the torch backend reads no {kind!r}")
    workers = int(case.params["workers"])
    loader = torch.utils.data.DataLoader(
        Samples(inputs["folder"], inputs["samples"], kind == "memmap"),
        batch_size=BATCH,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    box: list[Any] = [None]

    def run() -> None:
        box[0] = torch.cat(list(loader))
        if workers:
            conditions.helpers.update(process.pid for process in loader._iterator._workers)

    return Kernel(run, lambda: box[0].numpy())
