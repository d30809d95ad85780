"""Reasons: what bounds a plan, and what would change if the hardware were better (counterfactuals)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from advisor.cost.calibration import Calibration
from advisor.cost.price import price
from advisor.hardware.platform import Platform
from advisor.model.records import Model
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """What one better part of the hardware would do to a plan's time: ``change`` is relative (-0.11: 11 % less)."""

    code: str
    text: str
    change: float


#: Code, and the phrase that begins the sentence.
CHANGES: Final[Mapping[str, str]] = {
    "network-2x": "with the network between nodes twice as fast",
    "fabric-2x": "with the links inside a node twice as fast",
    "memory-2x": "with twice the memory bandwidth",
    "compute-2x": "with twice the FLOP/s",
}


def counterfactuals(
    model: Model, workload: Workload, platform: Platform, plans: PlanTable, calibration: Calibration
) -> list[list[Counterfactual]]:
    """Return for each plan what each change would do, the most effective first; a change that does not apply is left out.

    A device whose data sheet does not state the number in question is left as it is.
    """
    base = price(model, workload, platform, plans, calibration).time_s
    changed: dict[str, Floats] = {}
    for code in CHANGES:
        better = _better(platform, code)
        if better is not None:
            changed[code] = price(model, workload, better, plans, calibration).time_s
    found: list[list[Counterfactual]] = []
    for row in range(len(plans)):
        every = [_told(code, float(time[row] / base[row] - 1.0)) for code, time in changed.items()]
        found.append(sorted(every, key=lambda c: c.change))
    return found


#: A change of less than this is not worth a line.
SMALLEST_CHANGE = 0.005


def counterfactual_lines(model: Model, workload: Workload, platform: Platform, plan: Plan, calibration: Calibration) -> list[str]:
    """Return one line for each better part of the hardware that would change the time of ``plan``, the most effective first.

    As in "with twice the memory bandwidth: -11 %"; empty where no part is known well enough to change.
    """
    found = counterfactuals(model, workload, platform, PlanTable.of([plan]), calibration)[0]
    return [c.text for c in found if c.change <= -SMALLEST_CHANGE]


def _told(code: str, change: float) -> Counterfactual:
    return Counterfactual(code=code, text=f"{CHANGES[code]}: {100 * change:+.0f} %", change=change)


def _better(platform: Platform, code: str) -> Platform | None:
    """Return the platform with one part twice as fast, None where it has no such part or its speed is not known."""
    sheet = platform.profile
    if code in ("network-2x", "fabric-2x"):
        tiers = list(platform.tiers)
        index = 0 if code == "fabric-2x" else 1
        if len(tiers) <= index:
            return None
        tiers[index:] = [replace(t, bandwidth_bytes_per_s=2 * t.bandwidth_bytes_per_s) for t in tiers[index : index + 1]] + tiers[
            index + 1 :
        ]
        return replace(platform, tiers=tuple(tiers))
    if code == "memory-2x":
        if sheet.memory_gb_per_s is None:
            return None
        return replace(platform, profile=msgspec.structs.replace(sheet, memory_gb_per_s=2 * sheet.memory_gb_per_s))
    if not sheet.dense_tflops:
        return None
    peaks = {name: 2 * value for name, value in sheet.dense_tflops.items()}
    power = None if sheet.tdp_w is None else 2 * sheet.tdp_w
    return replace(platform, profile=msgspec.structs.replace(sheet, dense_tflops=peaks, tdp_w=power))
