"""Conditions and options of published runs that their source states in words and no column of the table holds.

``db/published/conditions.csv`` says from how many devices on the runs of a source had a setting, and where the source says so;
``db/published/training_options.csv`` lists by row what its source prints beside the numbers. A table with a column ``notes`` of its own
is read for the same words.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from advisor.resources import data_dir

#: The setting under which the host waits for each kernel before it launches the next.
SYNCHRONOUS = "CUDA_LAUNCH_BLOCKING=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """``setting`` holds for rows whose source contains ``source_contains``, from ``min_devices`` on; ``stated``: where that is written."""

    source_contains: str
    min_devices: int
    setting: str
    stated: str


@lru_cache(maxsize=1)
def conditions() -> tuple[Condition, ...]:
    """Return every stated condition; none where the data are not installed."""
    path = data_dir("db") / "published" / "conditions.csv"
    if not path.is_file():
        return ()
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            Condition(
                source_contains=row["source_contains"],
                min_devices=int(row["min_devices"]),
                setting=row["setting"],
                stated=row["stated"],
            )
            for row in csv.DictReader(file)
        )


def settings_of(row: Mapping[str, str], devices: int) -> frozenset[str]:
    """Return the settings that the source of ``row`` states for a run on so many devices."""
    source = row.get("source", "")
    return frozenset(c.setting for c in conditions() if c.source_contains in source and devices >= c.min_devices)


#: Options, and the words by which notes state them.
OPTIONS: Mapping[str, str] = {
    "compile": r"compile",
    "async-tp": r"async ?tp",
    "qlora": r"qlora",
    "lora": r"(?<!q)lora",
    "full-finetune": r"full finetune|\bsft\b",
    "adam8bit": r"(?<!w/o )bnb",
    "interleaved": r"interleaved 1f1b",
}


@lru_cache(maxsize=1)
def _stated_options() -> Mapping[str, frozenset[str]]:
    path = data_dir("db") / "published" / "training_options.csv"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {row["id"]: frozenset(row["options"].split()) for row in csv.DictReader(file)}


def options_of(row: Mapping[str, str]) -> frozenset[str]:
    """Return the options (keys of ``OPTIONS``) of a run: by its own notes, or as listed for the shipped row."""
    notes = row.get("notes", "")
    if notes:
        return frozenset(name for name, words in OPTIONS.items() if re.search(words, notes, re.IGNORECASE))
    return _stated_options().get(row.get("id", ""), frozenset())
