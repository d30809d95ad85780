"""LMDB: samples by key from one memory-mapped B+ tree, for the dataload benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from microbench.benchmarks.dataload import spread, stage
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case

#: Room for the samples and the tree: pages are 4 KiB, so a sample just over one takes two.
ROOM = 4


class LmdbSession:
    """A session without state; the database lies beside the loose files."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import lmdb

        self.lmdb, self.version = lmdb, lmdb.__version__

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Write the samples into a database and read them back by key."""
        import numpy as np

        if case.benchmark != "dataload" or case.params.get("format") != "lmdb":
            raise Unsupported("the lmdb backend reads its own format")
        folder, count = inputs["folder"], inputs["samples"]
        room = ROOM * count * inputs["sample_bytes"] + (1 << 24)
        path = str(folder / "samples.lmdb")
        with self.lmdb.open(path, map_size=room) as database, database.begin(write=True) as writing:
            for index in range(count):
                writing.put(f"{index:06}".encode(), np.load(folder / f"{index:06}.npy").tobytes())
        database = self.lmdb.open(path, readonly=True, lock=False, map_size=room)
        use = stage(case.params)
        box: list[Any] = [None]

        def read(index: int) -> float:
            with database.begin(buffers=True) as reading:
                return use(np.frombuffer(reading.get(f"{index:06}".encode()), np.uint8))

        load = spread(read, count, int(case.params["workers"]))

        def run() -> None:
            box[0] = load()

        return Kernel(run, lambda: np.array(box[0]))


BACKEND = Backend(
    name="lmdb",
    module="lmdb",
    install="pip install lmdb",
    open=LmdbSession,
    dtypes={"dataload": ("fp32",)},
    variants={"dataload": ("lmdb",)},
)
