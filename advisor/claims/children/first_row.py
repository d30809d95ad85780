"""Milliseconds until the last row of a stored corpus is there: Hugging Face Datasets memory-mapped, or JSON lines parsed."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from advisor.claims.children._answer import answer
from advisor.claims.children._timing import seconds

WORDS = ("the", "model", "learns", "from", "data", "and", "a", "tensor", "flows", "through", "layers", "of", "weights")


def measure(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return milliseconds for each of ``rows``, by ``reader`` (datasets, jsonl)."""
    found = []
    for rows in arguments["rows"]:
        with tempfile.TemporaryDirectory() as name:
            texts = corpus(int(rows), int(arguments["seed"]))
            read = READERS[str(arguments["reader"])](Path(name), texts)
            if read() != texts[-1]:
                raise RuntimeError("the row that was read is another one")
            value = 1000 * seconds(read, threads=1, budget_s=float(arguments.get("budget_s") or 2.0))
        found.append({"label": f"{int(rows):,} rows of text".replace(",", " "), "value": value, "detail": {"reader": arguments["reader"]}})
    return found


def corpus(rows: int, seed: int) -> list[str]:
    """Return sentences of sixty words, some 300 bytes each."""
    rng = random.Random(seed)  # noqa: S311 - a corpus, not a secret
    return [" ".join(rng.choices(WORDS, k=60)) for _ in range(rows)]


def _jsonl(folder: Path, texts: list[str]) -> Callable[[], str]:
    path = folder / "rows.jsonl"
    with path.open("w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)

    def read() -> str:
        with path.open() as file:
            return str([json.loads(line) for line in file][-1]["text"])

    return read


def _datasets(folder: Path, texts: list[str]) -> Callable[[], str]:
    import datasets

    datasets.disable_progress_bars()
    datasets.Dataset.from_dict({"text": texts}).save_to_disk(str(folder / "mapped"))
    return lambda: str(datasets.load_from_disk(str(folder / "mapped"))[-1]["text"])


READERS = {"jsonl": _jsonl, "datasets": _datasets}

if __name__ == "__main__":
    answer(measure)
