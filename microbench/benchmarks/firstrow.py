"""First row: to open a stored table of text and have one row of it, from a memory-mapped file or by parsing all of it.

``params``: ``rows``, ``row_bytes``, ``format`` (``jsonl``, ``arrow``). Opening is part of every call, as when a job begins.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from microbench.plugin import Benchmark
from microbench.protocol import Case
from microbench.reference import WrongResult, generator

ROWS = {True: 10_000, False: 50_000}
ROW_BYTES = 400
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz     ", dtype=np.uint8)


def cases(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one case."""
    return [{"rows": ROWS[bool(plan.get("quick"))], "row_bytes": ROW_BYTES}]


def work(params: Mapping[str, Any]) -> float:
    """Return bytes of the table: what parsing reads."""
    return float(params["rows"]) * float(params["row_bytes"])


class TableProblem:
    """Rows of random letters as JSON lines below a temporary folder; the wanted row is the last."""

    work = 1.0

    def __init__(self, case: Case, seed: int) -> None:
        count, size = int(case.params["rows"]), int(case.params["row_bytes"])
        letters = LETTERS[generator(seed, "firstrow").integers(0, len(LETTERS), (count, size))]
        self._folder = tempfile.TemporaryDirectory(prefix="microbench")
        self.path = Path(self._folder.name) / "rows.jsonl"
        texts = [row.tobytes().decode() for row in letters]
        with self.path.open("w") as file:
            file.writelines(json.dumps({"id": index, "text": text}) + "\n" for index, text in enumerate(texts))
        self.wanted = texts[-1]
        self.inputs = {"path": self.path, "rows": count}

    def check(self, result: Any) -> float:
        """Compare the row's text."""
        if str(result) != self.wanted:
            raise WrongResult("the row that was read is another one", float("inf"))
        return 0.0


def problem(case: Case, seed: int) -> TableProblem:
    """Return the table of ``case``."""
    return TableProblem(case, seed)


BENCHMARK = Benchmark(
    name="firstrow",
    title="open a stored table and have one row",
    metric="seconds",
    unit="s",
    cases=cases,
    work=work,
    problem=problem,
    nominal_rate=100e6,
    variant="format",
    threads="all",
)
