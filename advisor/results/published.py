"""The published measurements that ship with the product, read as they stand. Standard library only.

Every value is the text of the file; an empty string means that the source does not say. ``db/published/SOURCES.md`` names the
sources, their licences and the definitions behind the columns.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from advisor.errors import UnknownName
from advisor.resources import data_dir

#: Kinds of measurements, each a file ``db/published/<kind>.csv``.
KINDS = ("training", "inference", "classic", "microbench")


def published_path(kind: str) -> Path:
    """Return the CSV file of ``kind`` (one of ``KINDS``); raises UnknownName for another."""
    if kind not in KINDS:
        raise UnknownName("kind of published rows", kind, KINDS)
    return data_dir("db") / "published" / f"{kind}.csv"


def read_published(kind: str) -> Iterator[dict[str, str]]:
    """Yield the rows of ``kind`` in file order: column name to text, ``""`` where the source is silent."""
    with published_path(kind).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def hardware_specs_path() -> Path:
    """Return the CSV file of device data sheets (dense peaks in TFLOP/s, memory in GiB, bandwidths in GB/s per direction)."""
    return data_dir("db") / "published" / "hardware_specs.csv"


def read_hardware_specs() -> Iterator[dict[str, str]]:
    """Yield one row a device; the tags of its ``sources`` column are spelled out in ``hardware_sources.csv``."""
    with hardware_specs_path().open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)
