"""One value of a knob against the best of several, measured here: is the rule of thumb the best setting?

Parameters: ``benchmark``, ``backend``, ``parameter`` (the knob), ``values``, ``claimed``; numbers, or ``Nx`` for N times the usable CPUs;
``cases`` with a ``label`` and the other parameters, ``dtype``. One round is one process that measures every value; the number of a
round is the speed of the claimed value over that of the value which is best over all rounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from advisor.bench.children import Line, run_round
from advisor.bench.combine import DRIFT
from advisor.claims.experiments._rounds import LEAST, enough
from advisor.claims.experiments.speed import START_S, USABLE, case_of
from advisor.claims.records import Claim, Context, Experiment, Outcome, Setting
from microbench.protocol import Request

VALUE_S = 3.0


def resolved(value: Any, threads: int) -> int:
    """Return a value of the knob: ``2x`` is twice the usable CPUs."""
    return int(float(value[:-1]) * threads) if isinstance(value, str) and value.endswith("x") else int(value)


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Measure every value in every case and set the claimed one against the best."""
    claimed = resolved(parameters["claimed"], context.threads)
    values = sorted({claimed, *(resolved(value, context.threads) for value in parameters["values"])})
    found: list[list[list[Line]]] = [[] for _ in parameters["cases"]]
    outcome, number = Outcome(), 0
    while not enough(claim, outcome, number, context.rounds) and (not number or context.left_s > 4.0):
        for shared, rows in zip(parameters["cases"], found, strict=True):
            rows.append(_round(parameters, shared, values, number, context))
        number += 1
        outcome = _outcome(parameters, values, values.index(claimed), found)
    return outcome


def _outcome(parameters: Mapping[str, Any], values: list[int], own: int, found: list[list[list[Line]]]) -> Outcome:
    """Return the settings of the rounds so far: for each case, the lines of each round in the order of ``values``."""
    settings, troubles = [], []
    for shared, lines in zip(parameters["cases"], found, strict=True):
        good = [row for row in lines if all(line["status"] in USABLE for line in row)]
        if len(good) < LEAST:
            troubles += [str(line["reason"]) for row in lines for line in row if line["status"] not in USABLE]
            continue
        speed = [[_speed(line) for line in row] for row in good]
        means = [math.fsum(math.log(row[i]) for row in speed) / len(speed) for i in range(len(values))]
        best = means.index(max(means))
        settings.append(
            Setting(
                label=f"{shared['label']}: {values[own]} against {values[best]}",
                samples=tuple(row[own] / row[best] for row in speed),
                evidence=tuple(line["id"] for row in good for line in row),
                detail={
                    "samples_per_s": {str(value): math.exp(mean) for value, mean in zip(values, means, strict=True)},
                    "best": values[best],
                },
            )
        )
    return Outcome(settings=tuple(settings), lacks="; ".join(dict.fromkeys(troubles)) or None, drift=DRIFT["seconds"])


def _round(parameters: Mapping[str, Any], shared: Mapping[str, Any], values: list[int], number: int, context: Context) -> list[Line]:
    """Measure every value in one process; each round begins at another one, so that what the first pays hits each in turn."""
    cases = tuple(case_of(str(parameters["benchmark"]), {parameters["parameter"]: value}, shared) for value in values)
    shift = number % len(cases)
    context.say(f"{shared['label']}, round {number + 1}")
    lines = run_round(
        Request(
            backend=str(parameters["backend"]),
            device="cpu",
            threads=context.threads,
            cases=cases[shift:] + cases[:shift],
            budget_s=max(4.0, min(VALUE_S * len(cases), context.left_s)),
            seed=context.seed + number,
            quick=True,
        )
    )
    back = len(cases) - shift
    return lines[back:] + lines[:back]


def _speed(line: Line) -> float:
    return 1 / float(line["value"]) if line["metric"] == "seconds" else float(line["value"])


EXPERIMENT = Experiment(
    name="against_best",
    title="one setting against the best of several, measured on this machine",
    basis="measured",
    run=run,
    needs=("benchmark", "backend", "parameter", "values", "claimed", "cases"),
    cost_s=lambda parameters, rounds: rounds * len(parameters["cases"]) * (START_S + VALUE_S * len(parameters["values"])),
)
