"""Validate: predict every row of a table of measurements, and score the predictions."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.accuracy.records import Prediction, skip
from advisor.accuracy.score import score
from advisor.cost.calibration import Calibration
from advisor.errors import UsageError
from advisor.results.published import KINDS, read_published
from advisor.usecases.calibration import load_calibration
from advisor.yamlio import read_text

Row = Mapping[str, str]
#: The largest table that is read, in bytes.
MAX_BYTES = 256 << 20
#: Columns that tell what kind of measurements a table holds.
_MARKS: Mapping[str, frozenset[str]] = {
    "training": frozenset({"id", "global_batch", "micro_batch", "dp", "tp", "pp"}),
    "inference": frozenset({"id", "input_len", "output_len"}),
    "classic": frozenset({"id", "batch_per_device"}),
    "microbench": frozenset({"id", "op", "shape"}),
}


def validate(
    file: Path | None = None,
    kind: str | None = None,
    by: str = "group",
    *,
    rows: bool = False,
    calibration: Calibration | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return validate's document: of ``file``, of the shipped table of ``kind``, or of all shipped tables under ``kinds``."""
    calibration = calibration or load_calibration()
    if file is None and kind is None:
        kinds = {}
        for name in KINDS:
            if progress is not None:
                progress(f"{name} …")
            kinds[name] = validate(None, name, by, rows=rows, calibration=calibration)
        return {"schema_version": 1, "kinds": kinds}
    table = list(read_published(str(kind))) if file is None else read_table(file)
    name = kind or kind_of(table, str(file))
    return score(name, list(predictions(name, table, calibration)), by, rows=rows)


def predictions(kind: str, rows: Sequence[Row], calibration: Calibration) -> Iterator[Prediction]:
    """Yield the predictions of all ``rows`` of one kind."""
    if kind == "training":
        from advisor.accuracy.training_rows import predict, prepare
        from advisor.search.analytic import best_plan

        yield from predict(prepare(rows, calibration, best_plan), calibration)
        return
    usable = [row for row in rows if row.get("status", "ok") != "suspect"]
    yield from (skip(row, "the source is inconsistent (suspect)") for row in rows if row.get("status", "ok") == "suspect")
    yield from _reader(kind)(usable, calibration)


def _reader(kind: str) -> Callable[[Iterable[Row], Calibration], Iterator[Prediction]]:
    if kind == "inference":
        from advisor.accuracy.inference_rows import predict_rows as of_inference

        return of_inference
    if kind == "classic":
        from advisor.accuracy.classic_rows import predict_rows as of_classic

        return of_classic
    from advisor.accuracy.microbench_rows import predict_rows as of_microbench

    return of_microbench


def read_table(file: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file as text; UsageError if it cannot be read, is empty or has no column ``id``."""
    text = read_text(file, MAX_BYTES)
    try:
        rows = [{k: v or "" for k, v in row.items() if isinstance(k, str)} for row in csv.DictReader(io.StringIO(text), strict=True)]
    except csv.Error as error:
        raise UsageError(f"{file} is not a CSV table: {error}", code="BAD-TABLE") from error
    if not rows:
        raise UsageError(f"{file} holds no rows", "the first line names the columns, as in the published tables", "BAD-TABLE")
    if "id" not in rows[0]:
        raise UsageError(f"{file} has no column 'id'", "the columns are those of the published tables (docs/reference)", "BAD-TABLE")
    return rows


def kind_of(rows: Sequence[Row], what: str) -> str:
    """Return the kind of measurements from the columns; UsageError if they fit none."""
    columns = set(rows[0])
    for kind, marks in _MARKS.items():
        if marks <= columns:
            return kind
    raise UsageError(f"the columns of {what} are of no known kind", f"say which with --kind {'|'.join(KINDS)}", "BAD-TABLE")
