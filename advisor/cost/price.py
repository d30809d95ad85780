"""price: the one entry of the cost model. A table of plans in, a table of predictions out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.records import Bottleneck, Estimate, Interval
from advisor.cost.uncertainty import interval
from advisor.hardware.platform import Evidence, Platform
from advisor.model.records import Model
from advisor.plan.records import Workload
from advisor.plan.table import PlanTable

Floats = npt.NDArray[np.float64]

BOTTLENECKS: tuple[Bottleneck, ...] = ("compute", "memory_bandwidth", "communication", "bubble", "launch", "input")


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedTable:
    """Predictions of n plans. Times in seconds, memory in bytes per device; parts add up to their totals exactly.

    ``time_s`` is the step time for training, the latency of one batch for infer and serve. ``sigma_log`` is the standard deviation
    of log(measured / predicted) of the time, ``memory_sigma_log`` of the memory. ``bottleneck`` holds codes into ``BOTTLENECKS``.
    """

    time_s: Floats
    time_parts: Mapping[str, Floats]
    memory_bytes: Floats
    memory_parts: Mapping[str, Floats]
    memory_limit_bytes: float | None
    fits: npt.NDArray[np.bool_]
    throughput: Floats
    throughput_unit: str
    tokens_per_s_per_device: Floats
    mfu: Floats
    ttft_s: Floats | None = None
    tpot_s: Floats | None = None
    energy_j: Floats | None = None
    cost_usd: Floats | None = None
    sigma_log: Floats
    memory_sigma_log: Floats
    evidence: Evidence
    bottleneck: npt.NDArray[np.int8]
    is_training: bool = True
    row_evidence: tuple[Evidence, ...] | None = None
    """Evidence of each plan where they differ (frameworks fitted or not); ``evidence`` is then the weakest of them."""
    measurements: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.time_s)

    def estimate(self, row: int) -> Estimate:
        """Return one row as an Estimate, every value with its 80 % interval."""
        sigma = float(self.sigma_log[row])

        def around(column: Floats | None, spread: float) -> Interval | None:
            return None if column is None else interval(float(column[row]), spread)

        time = interval(float(self.time_s[row]), sigma)
        return Estimate(
            step_time_s=time if self.is_training else None,
            latency_s=None if self.is_training else time,
            throughput=around(self.throughput, sigma),
            throughput_unit=self.throughput_unit,
            tokens_per_s_per_device=around(self.tokens_per_s_per_device, sigma),
            mfu=around(self.mfu, sigma),
            ttft_s=around(self.ttft_s, sigma),
            tpot_s=around(self.tpot_s, sigma),
            memory_bytes_per_device=around(self.memory_bytes, float(self.memory_sigma_log[row])),
            energy_j=around(self.energy_j, sigma),
            cost_usd=around(self.cost_usd, sigma),
            time_parts_s={name: float(column[row]) for name, column in self.time_parts.items()},
            memory_parts_bytes={name: float(column[row]) for name, column in self.memory_parts.items()},
            bottleneck=BOTTLENECKS[int(self.bottleneck[row])],
            fits=bool(self.fits[row]),
            evidence=self.evidence if self.row_evidence is None else self.row_evidence[row],
            measurements=self.measurements,
            notes=self.notes,
        )


#: How far, in standard deviations of the memory's logarithm, a plan should stay below the limit to be trusted to run: at the fitted
#: spread about 8 % of the memory, set by choice. Of 1,045 published runs that did run, 90 are predicted beyond it, so it is advice and
#: not a bar: a plan that only ``fits`` may well run.
COMFORT_Z = 0.55


def comfortable(priced: PricedTable) -> npt.NDArray[np.bool_]:
    """Return bool[n]: plans that fit with room for the error of the prediction, ``memory * exp(COMFORT_Z * sigma) <= limit``."""
    if priced.memory_limit_bytes is None:
        return np.ones(len(priced), dtype=bool)
    return np.asarray(priced.memory_bytes * np.exp(COMFORT_Z * priced.memory_sigma_log) <= priced.memory_limit_bytes)


def price(model: Model, workload: Workload, platform: Platform, plans: PlanTable, calibration: Calibration) -> PricedTable:
    """Return the predictions of every plan of ``plans`` for ``workload`` on ``platform``, vectorised over the plans.

    Plans are taken as legal (``advisor.plan.legal``); whether they fit memory is told, not required.
    """
    if workload.is_training:
        if model.transformer is None:
            from advisor.cost.convolutional import price_training_convolutional

            return price_training_convolutional(model, workload, platform, plans, calibration)
        from advisor.cost.price_training import price_training

        return price_training(model, workload, platform, plans, calibration)
    from advisor.cost.inference import price_inference

    return price_inference(model, workload, platform, plans, calibration)
