"""Tables: Arrow memory-mapped by pyarrow, for the firstrow and dataload benchmarks; JSON lines parsed by Python, for firstrow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from microbench.benchmarks.dataload import spread, stage
from microbench.plugin import Backend, Kernel, Unsupported
from microbench.protocol import Case


class TableSession:
    """pyarrow in this process."""

    def __init__(self, device: str, threads: int, options: Mapping[str, Any]) -> None:
        import pyarrow

        self.arrow, self.version = pyarrow, pyarrow.__version__

    def build(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Make the file of the format ready; every call opens it anew."""
        kind = case.params.get("format")
        if case.benchmark == "dataload" and kind == "arrow":
            return self._samples(case, inputs)
        if case.benchmark != "firstrow" or kind not in ("arrow", "jsonl"):
            raise Unsupported(f"the tables backend reads no {kind!r}")
        path, last = inputs["path"], inputs["rows"] - 1
        box: list[Any] = [None]

        def parse() -> None:
            with path.open() as file:
                rows = [json.loads(line) for line in file]
            box[0] = rows[last]["text"]

        def mapped() -> None:
            with self.arrow.memory_map(str(arrow_path)) as source:
                box[0] = self.arrow.ipc.open_file(source).read_all()["text"][last].as_py()

        if kind == "jsonl":
            return Kernel(parse, lambda: box[0])
        import pyarrow.ipc

        arrow_path = path.with_suffix(".arrow")
        with path.open() as file:
            rows = [json.loads(line) for line in file]
        table = self.arrow.table({"id": [row["id"] for row in rows], "text": [row["text"] for row in rows]})
        with pyarrow.ipc.new_file(str(arrow_path), table.schema) as writer:
            writer.write_table(table)
        return Kernel(mapped, lambda: box[0])

    def _samples(self, case: Case, inputs: Mapping[str, Any]) -> Kernel:
        """Write the samples as a column of fixed width and read them from the map: a slice copies nothing."""
        import numpy as np
        import pyarrow.ipc

        path, count, size = inputs["folder"] / "samples.arrow", inputs["samples"], inputs["sample_bytes"]
        data = np.load(inputs["folder"] / "all.npy", mmap_mode="r")
        column = self.arrow.FixedSizeBinaryArray.from_buffers(self.arrow.binary(size), count, [None, self.arrow.py_buffer(data.tobytes())])
        with pyarrow.ipc.new_file(str(path), self.arrow.schema([("sample", column.type)])) as writer:
            writer.write_table(self.arrow.table({"sample": column}))
        source = self.arrow.memory_map(str(path))
        rows = pyarrow.ipc.open_file(source).read_all()["sample"]
        use = stage(case.params)
        box: list[Any] = [None]
        load = spread(lambda index: use(np.frombuffer(rows[index].as_buffer(), np.uint8)), count, int(case.params["workers"]))

        def run() -> None:
            box[0] = load()

        return Kernel(run, lambda: np.array(box[0]))


BACKEND = Backend(
    name="tables",
    module="pyarrow",
    install="pip install pyarrow",
    open=TableSession,
    dtypes={"firstrow": ("fp32",), "dataload": ("fp32",)},
    variants={"firstrow": ("arrow", "jsonl"), "dataload": ("arrow",)},
)
