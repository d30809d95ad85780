"""PlanTable: many plans as columns, so that the cost model prices a hundred thousand of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.plan import records
from advisor.plan.records import PLAN_FIELDS, Plan

Array = npt.NDArray[Any]

#: Columns that hold names; the others hold integers (``sequence_parallel`` 0 or 1).
NAME_COLUMNS = (
    "framework",
    "execution",
    "precision",
    "quantization",
    "sharding",
    "recompute",
    "offload",
    "optimizer",
    "adapter",
    "attention",
)
INT_COLUMNS = tuple(name for name in PLAN_FIELDS if name not in NAME_COLUMNS)


@dataclass(frozen=True, slots=True)
class PlanTable:
    """Plans as columns. An integer column is int64[n]; a name column is int16[n] codes into ``vocabulary[column]``."""

    columns: Mapping[str, Array]
    vocabulary: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, plans: Iterable[Plan]) -> PlanTable:
        """Build a table from plans, in order."""
        rows = list(plans)
        columns: dict[str, Array] = {name: np.array([int(getattr(p, name)) for p in rows], dtype=np.int64) for name in INT_COLUMNS}
        vocabulary: dict[str, tuple[str, ...]] = {}
        for name in NAME_COLUMNS:
            values = tuple(dict.fromkeys(getattr(p, name) for p in rows))
            vocabulary[name] = values
            columns[name] = np.array([values.index(getattr(p, name)) for p in rows], dtype=np.int16)
        return cls(columns, vocabulary)

    @classmethod
    def concat(cls, tables: Iterable[PlanTable]) -> PlanTable:
        """Join tables, in order, under one vocabulary."""
        parts = [t for t in tables if len(t)]
        if not parts:
            return cls.of(())
        vocabulary = {name: tuple(dict.fromkeys(v for t in parts for v in t.vocabulary[name])) for name in NAME_COLUMNS}
        columns: dict[str, Array] = {name: np.concatenate([t.columns[name] for t in parts]) for name in INT_COLUMNS}
        for name in NAME_COLUMNS:
            recode = [np.array([vocabulary[name].index(v) for v in t.vocabulary[name]], dtype=np.int16)[t.columns[name]] for t in parts]
            columns[name] = np.concatenate(recode)
        return cls(columns, vocabulary)

    def __len__(self) -> int:
        return len(self.columns["dp"])

    def ints(self, name: str) -> Array:
        """Return an integer column as float64[n], ready for arithmetic."""
        return self.columns[name].astype(np.float64)

    def equals(self, name: str, value: str) -> Array:
        """Return bool[n]: where name column ``name`` is ``value``."""
        values = self.vocabulary[name]
        return self.columns[name] == values.index(value) if value in values else np.zeros(len(self), dtype=bool)

    def lookup(self, name: str, mapping: Mapping[str, float], default: float | None = None) -> Array:
        """Return float64[n]: ``mapping`` of the name in each row; KeyError for a name without one unless ``default``."""
        values = [mapping[v] if default is None else mapping.get(v, default) for v in self.vocabulary[name]]
        return np.array(values, dtype=np.float64)[self.columns[name]] if values else np.zeros(0)

    def take(self, rows: Array) -> PlanTable:
        """Return the chosen rows (an index array or a mask) as a table."""
        return PlanTable({name: column[rows] for name, column in self.columns.items()}, self.vocabulary)

    def plan(self, row: int) -> Plan:
        """Return one row as a Plan."""
        values: dict[str, Any] = {name: int(self.columns[name][row]) for name in INT_COLUMNS}
        values["sequence_parallel"] = bool(values["sequence_parallel"])
        values.update({name: self.vocabulary[name][int(self.columns[name][row])] for name in NAME_COLUMNS})
        return records.Plan(**values)
