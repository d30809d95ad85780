"""Two sides of one comparison (frameworks, precisions, executions, batches) through the benches of the measuring child, interleaved.

Parameters: ``a`` and ``b`` (``backend``, ``dtype``, and parameters of the case), ``cases`` (each ``label`` with the parameters both
sides share), ``benchmark`` (default ``model``), ``quantity``: ``throughput`` gives speed of A over speed of B, ``latency`` seconds of A
over seconds of B, ``absolute_ms`` milliseconds of A alone (no ``b``), ``error`` the output error of A (no ``b``).
``round_s`` is what one process may take beside its start. ``device: cpu`` keeps networks off an accelerator. A side with an
``environment`` runs in that one. ``prepared: true`` says that a first run builds exports that the next ones find.

One round is one fresh process a side; the side that goes first changes from round to round, so that drift of the machine hits both alike.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.bench.children import Line, run_round
from advisor.bench.combine import DRIFT
from advisor.claims.environments import interpreter, lacks
from advisor.claims.experiments._rounds import LEAST, enough, in_turns
from advisor.claims.networks import NETWORKS, backend_of
from advisor.claims.records import Claim, Context, Experiment, Outcome, Setting
from microbench.protocol import Case, Request

#: Starting a process, importing its framework and building a network; a priori, for the budget alone.
START_S = 8.0
ROUND_S = 6.0
COMPILE_S = 45.0
#: The least worth starting: below it no network gives its samples.
LEAST_S = 3.0
#: What building exports may take, outside the budget; a round that finds them ends long before.
PREPARE_S = 60.0
USABLE = ("ok", "contended")


def case_of(benchmark: str, side: Mapping[str, Any], shared: Mapping[str, Any]) -> Case:
    """Return the case of one side: shared parameters, then its own; a network may be given by its name."""
    params = {**shared, **side}
    for name in ("backend", "dtype", "label", "environment"):
        params.pop(name, None)
    if isinstance(params.get("network"), str):
        params["network"] = NETWORKS[params["network"]]
    if benchmark == "model":
        params.setdefault("quantization", "none")
    return Case(benchmark=benchmark, dtype=str(side.get("dtype") or shared.get("dtype") or "fp32"), params=params)


def device_of(benchmark: str, parameters: Mapping[str, Any], context: Context) -> str:
    """Return what the framework calls the device: this machine's own for networks, unless the claim is about the CPU."""
    return str(parameters.get("device") or context.device) if benchmark == "model" else "cpu"


def request_of(parameters: Mapping[str, Any], name: str, context: Context, number: int, budget_s: float) -> Request:
    """Return what one side's process is asked in round ``number``."""
    side = parameters[name]
    benchmark = str(parameters.get("benchmark") or "model")
    return Request(
        backend=backend_of(str(side["backend"])),
        device=device_of(benchmark, parameters, context),
        threads=context.threads,
        cases=tuple(case_of(benchmark, side, shared) for shared in parameters["cases"]),
        budget_s=budget_s,
        seed=context.seed * 1000 + number,
        quick=True,
    )


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Run the comparison and return a setting for each case that both sides measured at least twice."""
    sides = [name for name in ("a", "b") if parameters.get(name)]
    missing = [lacks(str(parameters[name]["environment"])) for name in sides if not _reachable(parameters[name])]
    if missing:
        return Outcome(lacks="; ".join(dict.fromkeys(missing)))
    found: dict[str, list[list[Line]]] = {name: [] for name in sides}
    outcome, longest, number = Outcome(), 0.0, 0
    while not enough(claim, outcome, number, context.rounds):
        before = context.left_s
        if number and before < longest:
            break
        for name in in_turns(sides, number):
            budget = max(LEAST_S, min(_round_s(parameters, name), context.left_s / 2))
            context.say(f"round {number + 1}, {name.upper()}: {parameters[name]['backend']}")
            found[name].append(_round(parameters, name, context, number, budget))
        longest = max(longest, before - context.left_s)
        number += 1
        outcome = outcome_of(parameters, found)
        if all(line["status"] not in USABLE for side in sides for line in found[side][-1]):
            break
    return outcome


def _reachable(side: Mapping[str, Any]) -> bool:
    return not side.get("environment") or interpreter(str(side["environment"])) is not None


def _round(parameters: Mapping[str, Any], name: str, context: Context, number: int, budget_s: float) -> list[Line]:
    """Run one side's process, in its environment."""
    environment = parameters[name].get("environment")
    python = interpreter(str(environment)) if environment else None
    return run_round(request_of(parameters, name, context, number, budget_s), python=None if python == sys.executable else python)


def prepare(parameters: Mapping[str, Any], context: Context) -> Outcome:
    """Run each side once where its test says that a first run builds what the others find."""
    if not parameters.get("prepared"):
        return Outcome()
    troubles = []
    for name in ("a", "b"):
        if parameters.get(name) and _reachable(parameters[name]):
            context.say(f"{name.upper()}: {parameters[name]['backend']}")
            lines = _round(parameters, name, context, 0, PREPARE_S)
            troubles += [f"{Path(line['backend']).stem}: {line['reason']}" for line in lines if line["status"] not in USABLE]
    return Outcome(lacks="; ".join(dict.fromkeys(troubles)) or None)


def outcome_of(parameters: Mapping[str, Any], found: Mapping[str, list[list[Line]]]) -> Outcome:
    """Return the settings of the rounds so far (for each side, the lines of each round), and what kept cases from being one."""
    quantity = parameters.get("quantity", "throughput")
    settings, troubles = [], []
    for index, shared in enumerate(parameters["cases"]):
        sides = {name: [lines[index] for lines in rows] for name, rows in found.items()}
        pairs = [row for row in zip(*sides.values(), strict=True) if all(line["status"] in USABLE for line in row)]
        if len(pairs) < LEAST:
            troubles += [f"{shared['label']}: {text}" for text in _troubles(sides) or [f"only {len(pairs)} round of both sides"]]
            continue
        settings.append(
            Setting(
                label=str(shared["label"]),
                samples=tuple(_number(quantity, row) for row in pairs),
                evidence=tuple(line["id"] for row in pairs for line in row),
                detail=_detail(sides, pairs),
            )
        )
    drift = DRIFT["seconds"] * (math.sqrt(2) if "b" in found else 1.0)
    return Outcome(settings=tuple(settings), lacks="; ".join(dict.fromkeys(troubles)) or None, drift=drift)


def _number(quantity: str, row: tuple[Line, ...]) -> float:
    """Return the quantity of one round; rates are turned to seconds first, so that both metrics read alike."""
    if quantity == "error":
        return max(float(row[0]["max_error"] or 0.0), 1e-12)
    seconds = [_seconds(line) for line in row]
    if quantity == "absolute_ms":
        return 1000 * seconds[0]
    return seconds[1] / seconds[0] if quantity == "throughput" else seconds[0] / seconds[1]


def _seconds(line: Line) -> float:
    """Return the seconds of one sample, so that sides of different batch compare."""
    value = float(line["value"])
    return value / float(line["params"].get("batch") or 1) if line["metric"] == "seconds" else 1 / value


def _detail(sides: Mapping[str, list[Line]], pairs: list[tuple[Line, ...]]) -> dict[str, Any]:
    detail: dict[str, Any] = {}
    for name, lines in zip(sides, zip(*pairs, strict=True), strict=True):
        ordered = sorted(_seconds(line) for line in lines)
        detail[name] = {
            "backend": Path(lines[0]["backend"]).stem,
            "version": lines[0]["backend_version"],
            "dtype": lines[0]["dtype"],
            "seconds_a_sample": ordered[len(ordered) // 2],
            "max_error": max((float(line["max_error"]) for line in lines if line["max_error"] is not None), default=None),
            "prepare_s": (lines[0].get("conditions") or {}).get("prepare_s"),
            "fused_nodes": (lines[0].get("conditions") or {}).get("fused_nodes"),
            "contended": any(line["status"] == "contended" for line in lines),
        }
    return detail


def _troubles(sides: Mapping[str, list[Line]]) -> list[str]:
    return [f"{Path(line['backend']).stem}: {line['reason']}" for lines in sides.values() for line in lines if line["status"] not in USABLE]


def _round_s(parameters: Mapping[str, Any], name: str) -> float:
    own = float(parameters.get("round_s") or ROUND_S) * len(parameters["cases"])
    return own + (COMPILE_S * len(parameters["cases"]) if _compiles(parameters, name) else 0.0)


def _compiles(parameters: Mapping[str, Any], name: str) -> bool:
    return parameters[name].get("execution") == "compile" or any(case.get("execution") == "compile" for case in parameters["cases"])


def cost_s(parameters: Mapping[str, Any], count: int) -> float:
    """Return about how long ``count`` rounds take."""
    return count * sum(START_S + _round_s(parameters, name) for name in ("a", "b") if parameters.get(name))


EXPERIMENT = Experiment(
    name="speed",
    title="both sides measured on this machine, interleaved in fresh processes",
    basis="measured",
    run=run,
    needs=("a", "cases"),
    options=("b", "benchmark", "device", "quantity", "round_s", "prepared"),
    cost_s=cost_s,
    prepare=prepare,
)
