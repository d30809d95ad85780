"""Prediction: one published number beside what the cost model says of it, or the reason why nothing is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Quantity = Literal["time", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One number of one published row.

    ``quantity`` ``time``: seconds of a step or of one batch (a throughput is inverted first); ``memory``: bytes per device by the
    row's own definition (``mem_kind``). ``low`` and ``high`` bound the 80 % interval. ``assumed``: the layout was not published and
    is the plan the advisor would choose. ``skipped`` is the reason where ``predicted`` is None.
    """

    id: str
    group: str
    hardware: str
    quantity: Quantity = "time"
    measured: float | None
    predicted: float | None
    low: float | None = None
    high: float | None = None
    assumed: bool = False
    skipped: str | None = None
    stratum: str | None = None
    """What ``by`` groups by where that is not the group: ``gemm``, ``attention`` … of the microbenchmarks."""
    mem_kind: str | None = None
    """Which definition of memory: ``allocated``, ``reserved``, ``device`` (what nvidia-smi shows) or ``unstated``."""
    status: str = "ok"
    """``ok`` or ``oom`` as published."""
    fits: bool | None = None
    """Whether the model says the plan fits; None where it was not asked."""
    family: tuple[str, ...] | None = None
    """Rows that differ in their plan alone share a family; None where a field of it is blank."""
    plan: str | None = None
    """The plan, written so that equal plans are equal strings."""
    experts: bool = False
    """Whether the model is a mixture of experts."""

    @property
    def error(self) -> float | None:
        """Relative error, predicted over measured minus 1; None where either is missing."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the row of ``predictions`` in validate's document."""
        keys = ("id", "quantity", "measured", "predicted", "low", "high", "assumed", "skipped", "group", "hardware")
        return {key: getattr(self, key) for key in keys}


def skip(row: Mapping[str, str], reason: str, quantity: Quantity = "time") -> Prediction:
    """Return the Prediction of a row that cannot be described, with the reason."""
    return Prediction(
        id=row["id"],
        group=row.get("group", ""),
        hardware=row.get("hw_class") or row.get("hardware", ""),
        quantity=quantity,
        measured=None,
        predicted=None,
        skipped=reason,
        status=row.get("status", "ok"),
    )
