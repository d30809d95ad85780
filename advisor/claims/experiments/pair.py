"""Two children set against each other, interleaved: what the benches do not measure (peak memory, scaling, a whole pipeline).

Parameters: ``a`` and ``b``, each ``child``, ``arguments``, ``environment``; ``quantity``: ``ratio`` is the value of A over that of B,
``inverse`` that of B over that of A (for seconds, where more is claimed), ``absolute`` that of A alone (no ``b``). A child prints settings
with ``label`` and ``value``; settings are set against each other by their labels. One round is one fresh process a side; the side that
goes first changes from round to round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from advisor.bench.combine import DRIFT
from advisor.claims.experiments._child import TYPICAL_S, ask, prepare
from advisor.claims.experiments._rounds import LEAST, enough, in_turns
from advisor.claims.records import Claim, Context, Experiment, Outcome, Setting

Rows = dict[str, Mapping[str, Any]]


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Run both children in turns and return a setting for each label that both gave at least twice."""
    sides = [name for name in ("a", "b") if parameters.get(name)]
    found: dict[str, list[Rows]] = {name: [] for name in sides}
    outcome, longest, number = Outcome(), 0.0, 0
    while not enough(claim, outcome, number, context.rounds):
        before = context.left_s
        if number and before < longest:
            break
        for name in in_turns(sides, number):
            document = ask(parameters[name], context, seed=context.seed * 1000 + number)
            if document.get("lacks"):
                return Outcome(settings=outcome.settings, lacks=str(document["lacks"]), drift=outcome.drift)
            found[name].append({str(item["label"]): item for item in document["settings"]})
        longest = max(longest, before - context.left_s)
        number += 1
        outcome = outcome_of(str(parameters.get("quantity") or "ratio"), found)
    return outcome


def outcome_of(quantity: str, found: Mapping[str, list[Rows]]) -> Outcome:
    """Return the settings of the rounds so far."""
    sides = list(found)
    labels = [label for label in (found["a"][0] if found["a"] else {}) if all(label in rows for name in sides for rows in found[name])]
    settings = []
    for label in labels:
        rounds = [[float(rows[label]["value"]) for rows in row] for row in zip(*found.values(), strict=True)]
        if len(rounds) < LEAST:
            continue
        detail = {name: {"values": [row[i] for row in rounds], **found[name][-1][label].get("detail", {})} for i, name in enumerate(sides)}
        settings.append(Setting(label=label, samples=tuple(_number(quantity, row) for row in rounds), detail=detail))
    lacks = None if settings or not labels else "fewer than two rounds of both sides"
    return Outcome(settings=tuple(settings), lacks=lacks, drift=DRIFT["seconds"] * (math.sqrt(2) if "b" in found else 1.0))


def _number(quantity: str, row: list[float]) -> float:
    if len(row) == 1:
        return row[0]
    return row[1] / row[0] if quantity == "inverse" else row[0] / row[1]


def _prepare(parameters: Mapping[str, Any], context: Context) -> Outcome:
    """Let each side build what it keeps."""
    outcomes = [prepare(parameters[name], context) for name in ("a", "b") if parameters.get(name)]
    lacking = [outcome.lacks for outcome in outcomes if outcome.lacks]
    return Outcome(lacks="; ".join(dict.fromkeys(lacking)) or None)


EXPERIMENT = Experiment(
    name="pair",
    title="two children against each other on this machine, interleaved in fresh processes",
    basis="measured",
    run=run,
    prepare=_prepare,
    needs=("a",),
    options=("b", "quantity", "typical_s"),
    cost_s=lambda parameters, rounds: rounds * (2 if parameters.get("b") else 1) * float(parameters.get("typical_s") or TYPICAL_S),
)
