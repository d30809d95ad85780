"""LMDB: samples by key from one memory-mapped B+ tree, for the dataload benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from microbench.benchmarks.dataload import decode
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

        if case.benchmark != "dataload" or case.params.get("format") != "lmdb" or int(case.params["workers"]):
            raise Unsupported("the lmdb backend reads its own format, in one process")
        folder, count = inputs["folder"], inputs["samples"]
        room = ROOM * count * inputs["sample_bytes"] + (1 << 24)
        path = str(folder / "samples.lmdb")
        with self.lmdb.open(path, map_size=room) as database, database.begin(write=True) as writing:
            for index in range(count):
                writing.put(f"{index:06}".encode(), np.load(folder / f"{index:06}.npy").tobytes())
        database = self.lmdb.open(path, readonly=True, lock=False, map_size=room)
        box: list[Any] = [None]

        def run() -> None:
            with database.begin(buffers=True) as reading:
                box[0] = [decode(np.frombuffer(reading.get(f"{index:06}".encode()), np.uint8)) for index in range(count)]

        return Kernel(run, lambda: np.array(box[0]))


BACKEND = Backend(
    name="lmdb",
    module="lmdb",
    install="pip install lmdb",
    open=LmdbSession,
    dtypes={"dataload": ("fp32",)},
    variants={"dataload": ("lmdb",)},
)
