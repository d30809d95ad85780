"""Conditions of published runs that their source states in words and no column of the table holds: ``db/published/conditions.csv``.

A line says from how many devices on the runs of a source had a setting, and where the source says so.
"""

from __future__ import annotations

import csv
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
