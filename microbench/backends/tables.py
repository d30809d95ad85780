"""Tables of text: Arrow memory-mapped by pyarrow, JSON lines parsed by Python, for the firstrow benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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


BACKEND = Backend(
    name="tables",
    module="pyarrow",
    install="pip install pyarrow",
    open=TableSession,
    dtypes={"firstrow": ("fp32",)},
    variants={"firstrow": ("arrow", "jsonl")},
)
