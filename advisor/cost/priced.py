"""PricedTable: the predictions of a table of plans, and what every way of pricing needs to make one.

The pricing of training, of convolutional networks and of inference each fill a column of seconds for each part of the time; what
follows from them (bottleneck, evidence, energy, cost, fit) is worked out here once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.cost.energy import energy_j
from advisor.cost.records import Bottleneck, Estimate, Interval
from advisor.cost.uncertainty import interval
from advisor.hardware.platform import Evidence, Platform
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
#: spread about 8 % of the memory, set by choice. Of 1,057 published runs that did run, 92 are predicted beyond it, so it is advice and
#: not a bar: a plan that only ``fits`` may well run.
COMFORT_Z = 0.55


def comfortable(priced: PricedTable) -> npt.NDArray[np.bool_]:
    """Return bool[n]: plans that fit with room for the error of the prediction, ``memory * exp(COMFORT_Z * sigma) <= limit``."""
    if priced.memory_limit_bytes is None:
        return np.ones(len(priced), dtype=bool)
    return np.asarray(priced.memory_bytes * np.exp(COMFORT_Z * priced.memory_sigma_log) <= priced.memory_limit_bytes)


#: Evidence from the strongest to the weakest.
EVIDENCE: tuple[Evidence, ...] = ("measured", "calibrated", "transferred", "spec")


def weakest(found: Iterable[Evidence]) -> Evidence:
    """Return the weakest evidence among ``found``; ``spec`` of none."""
    return max(found, key=EVIDENCE.index, default="spec")


def bottlenecks(parts: Mapping[str, Floats], causes: Mapping[str, str]) -> npt.NDArray[np.int8]:
    """Return for each plan the cause that takes the most time, as a code into ``BOTTLENECKS``; ``causes`` names that of each part."""
    totals = np.zeros((len(BOTTLENECKS), len(next(iter(parts.values())))))
    for name, seconds in parts.items():
        totals[BOTTLENECKS.index(causes[name])] += seconds
    return np.asarray(totals.argmax(axis=0), dtype=np.int8)


def busy_share(parts: Mapping[str, Floats], causes: Mapping[str, str], time: Floats) -> Floats:
    """Return the share of the time that a device computes or moves its own memory."""
    working = [seconds for name, seconds in parts.items() if causes[name] in ("compute", "memory_bandwidth")]
    return sum(working, start=np.zeros_like(time)) / np.maximum(time, 1e-12)


@dataclass(frozen=True, slots=True)
class PlanGroup:
    """Plans that are priced in one call: their rows, the choices they share by column, and their threads (0 on no CPU)."""

    rows: npt.NDArray[np.intp]
    choice: Mapping[str, str]
    threads: int


def plan_groups(plans: PlanTable, platform: Platform, names: Sequence[str]) -> list[PlanGroup]:
    """Return the groups of plans that are alike in the columns ``names`` and, on a CPU, in their threads."""
    if not len(plans):
        return []
    threads = plans.columns["threads"] if platform.is_cpu else np.zeros(len(plans), dtype=np.int64)
    keys = np.stack([plans.columns[name].astype(np.int64) for name in names] + [threads])
    unique, back = np.unique(keys, axis=1, return_inverse=True)
    order = np.asarray(back).ravel()
    return [
        PlanGroup(
            np.flatnonzero(order == index),
            {name: plans.vocabulary[name][int(unique[row, index])] for row, name in enumerate(names)},
            int(unique[-1, index]) or platform.threads,
        )
        for index in range(unique.shape[1])
    ]


class RowEvidence:
    """Evidence, measurements and notes of the plans, gathered group by group."""

    def __init__(self, n: int) -> None:
        self.rows: list[Evidence] = ["spec"] * n
        self.measurements: dict[str, None] = {}
        self.notes: dict[str, None] = {}

    def add(self, rows: npt.NDArray[np.intp], known: Evidence, measurements: Iterable[str] = (), notes: Iterable[str] = ()) -> None:
        """Set the evidence of ``rows`` and keep what it rests on, each once and in order."""
        for row in rows.tolist():
            self.rows[row] = known
        self.measurements |= dict.fromkeys(measurements)
        self.notes |= dict.fromkeys(notes)


def assemble(
    platform: Platform, parts: Mapping[str, Floats], causes: Mapping[str, str], held: Mapping[str, Floats], devices: Floats, **rest: Any
) -> PricedTable:
    """Return the PricedTable of parts of time and memory; ``rest`` are its other fields (``throughput``, ``sigma_log`` …)."""
    n = len(devices)
    time = sum(parts.values(), start=np.zeros(n))
    total = rest.pop("memory_bytes", None)
    total = sum(held.values(), start=np.zeros(n)) if total is None else total
    limit = float(platform.memory_bytes) if platform.memory_bytes else None
    hourly = platform.usd_per_device_hour
    return PricedTable(
        time_s=time,
        time_parts=parts,
        memory_bytes=total,
        memory_parts=held,
        memory_limit_bytes=limit,
        fits=np.ones(n, dtype=bool) if limit is None else total <= limit,
        energy_j=energy_j(platform, time, busy_share(parts, causes, time), devices),
        cost_usd=None if hourly is None else time * devices * hourly / 3600.0,
        bottleneck=bottlenecks(parts, causes),
        **rest,
    )
