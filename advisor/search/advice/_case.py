"""What advice is given on: the question, the chosen plan and its estimate, and the plans that were priced beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from advisor.cost.records import Estimate
from advisor.hardware.platform import Platform
from advisor.model.records import Model
from advisor.plan.records import PLAN_FIELDS, Plan, Workload
from advisor.plan.table import NAME_COLUMNS

if TYPE_CHECKING:
    from advisor.search.analytic import Ranking


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An answered question."""

    model: Model
    workload: Workload
    platform: Platform
    plan: Plan
    estimate: Estimate
    ranking: Ranking | None = None

    @property
    def memory_bytes(self) -> float | None:
        """Return the predicted memory of the fullest device, or None."""
        value = self.estimate.memory_bytes_per_device
        return None if value is None else value.value

    @property
    def time_s(self) -> float | None:
        """Return the predicted step time or latency."""
        value = self.estimate.step_time_s or self.estimate.latency_s
        return None if value is None else value.value

    def sibling(self, **changes: object) -> int | None:
        """Return the row of the priced plan that differs from the chosen one in ``changes`` alone, or None if it was not priced."""
        if self.ranking is None:
            return None
        plans = self.ranking.plans
        mask = np.ones(len(plans), dtype=bool)
        for name in PLAN_FIELDS:
            wanted = changes.get(name, getattr(self.plan, name))
            mask &= plans.equals(name, str(wanted)) if name in NAME_COLUMNS else plans.columns[name] == int(wanted)  # type: ignore[call-overload]
        rows = np.flatnonzero(mask)
        return int(rows[0]) if len(rows) else None
