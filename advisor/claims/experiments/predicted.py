"""What the cost model predicts, with its interval: a quantity of one plan, or its ratio between two.

Parameters: ``quantity`` (throughput, memory, states, energy, mfu, latency), ``cases`` (each ``label``, ``model``, ``hardware`` and
the options of ``advisor estimate``), ``a`` and ``b`` (``plan`` and what else differs from the case), ``scale`` for a quantity alone,
``devices_total: true`` multiplies memory by the devices of the plan.

The 95 % interval of a ratio takes the errors of its two sides as independent, which is too wide where one formula prices both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from advisor.claims.records import Claim, Context, Experiment, Outcome, Setting
from advisor.errors import AdvisorError

#: From the 80 % interval that estimates carry to 95 %, both of a normal distribution.
FROM_80_TO_95 = 1.9600 / 1.2816

#: What a parameter costs in memory as long as it is trained.
STATES = ("weights", "gradients", "optimizer_states")

FIELDS = {
    "throughput": "throughput",
    "memory": "memory_bytes_per_device",
    "energy": "energy_j",
    "mfu": "mfu",
}


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Price both sides of every case."""
    settings, troubles = [], []
    for case in parameters["cases"]:
        try:
            sides = [_side(parameters, case, name, context) for name in ("a", "b") if name in parameters]
        except AdvisorError as error:
            troubles.append(f"{case['label']}: {error.message}")
            continue
        missing = [side for side in sides if side is None]
        if missing:
            troubles.append(f"{case['label']}: the cost model has no {parameters['quantity']} here")
            continue
        settings.append(_setting(case, [side for side in sides if side is not None], parameters))
    return Outcome(settings=tuple(settings), lacks=None if settings else "; ".join(troubles))


def _side(parameters: Mapping[str, Any], case: Mapping[str, Any], name: str, context: Context) -> dict[str, Any] | None:
    merged = {**case, **(parameters.get(name) or {})}
    plan = {**(case.get("plan") or {}), **((parameters.get(name) or {}).get("plan") or {})}
    question = {key: value for key, value in merged.items() if key not in ("label", "model", "hardware", "plan")}
    document = context.estimate(str(merged["model"]), plan, str(merged["hardware"]), question)
    estimate = document["estimate"]
    quantity = parameters["quantity"]
    if quantity == "latency":
        found = estimate["latency_s"] or estimate["step_time_s"]
    elif quantity == "states":
        total = math.fsum(estimate["memory_parts_bytes"][part] for part in STATES)
        found = {"value": total, "low": total, "high": total}
    else:
        found = estimate[FIELDS[quantity]]
    if found is None:
        return None
    factor = document["plan"]["devices"] if parameters.get("devices_total") else 1
    sigma = FROM_80_TO_95 * math.log(found["high"] / found["low"]) / 2 if found["low"] > 0 else 0.0
    return {"value": found["value"] * factor, "reach": sigma, "plan": document["plan"], "evidence": estimate["evidence"]}


def _setting(case: Mapping[str, Any], sides: list[dict[str, Any]], parameters: Mapping[str, Any]) -> Setting:
    value = sides[0]["value"] * float(parameters.get("scale") or 1.0)
    if len(sides) == 2:
        value = sides[0]["value"] / sides[1]["value"]
    reach = math.hypot(*(side["reach"] for side in sides))
    return Setting(
        label=str(case["label"]),
        value=value,
        low=value * math.exp(-reach),
        high=value * math.exp(reach),
        detail={name: {"plan": side["plan"], "evidence": side["evidence"]} for name, side in zip(("a", "b"), sides, strict=False)},
    )


EXPERIMENT = Experiment(
    name="predicted",
    title="the cost model's prediction",
    basis="predicted",
    run=run,
    needs=("quantity", "cases", "a"),
    options=("b", "scale", "devices_total"),
    cost_s=lambda parameters, rounds: 3.0 * len(parameters["cases"]) * (2 if "b" in parameters else 1),
)
