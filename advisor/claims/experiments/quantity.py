"""A quantity that is no timing (bytes, counts, errors), determined by a child process that prints it.

Parameters: ``child`` (a module of ``advisor.claims.children``), ``arguments`` (handed to it), ``label``, ``limit_s``. The child reads its
arguments as JSON and prints one object: ``{"lacks": "..."}``, or ``{"settings": [...]}``, each with ``label``, ``value`` (perhaps ``low``
and ``high``) or ``samples``, and ``detail``.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from typing import Any

from advisor.claims.records import Claim, Context, Experiment, Outcome, Setting
from advisor.errors import UsageError
from microbench.child import python_child, run_child

LIMIT_S = 120.0
#: What a child takes: a framework's import and a few seconds of work.
TYPICAL_S = 20.0


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Run the child and return what it printed."""
    name = str(parameters["child"])
    module = f"advisor.claims.children.{name}"
    if not name.isidentifier() or importlib.util.find_spec(module) is None:
        raise UsageError(
            f"claim {claim.id}: no child {name!r}", "the children are the modules of advisor/claims/children", code="BAD-CLAIM"
        )
    limit = max(5.0, min(float(parameters.get("limit_s") or LIMIT_S), context.left_s))
    arguments = json.dumps({**(parameters.get("arguments") or {}), "seed": context.seed, "threads": context.threads})
    context.say(f"child {name}")
    child = run_child(python_child(module), timeout_s=limit, stdin=arguments)
    if child.status != "ok":
        return Outcome(lacks=f"the child {name} did not answer: {child.reason}")
    lines = child.stdout.strip().splitlines()
    try:
        document = json.loads(lines[-1] if lines else "")
    except ValueError:
        return Outcome(lacks=f"the child {name} printed no result")
    if document.get("lacks"):
        return Outcome(lacks=str(document["lacks"]))
    settings = tuple(
        Setting(
            label=str(item.get("label") or parameters.get("label") or name),
            value=item.get("value"),
            low=item.get("low"),
            high=item.get("high"),
            samples=tuple(item.get("samples") or ()),
            detail=item.get("detail") or {},
        )
        for item in document["settings"]
    )
    return Outcome(settings=settings)


EXPERIMENT = Experiment(
    name="quantity",
    title="bytes, counts or errors determined on this machine",
    basis="measured",
    run=run,
    needs=("child",),
    options=("arguments", "label", "limit_s"),
    cost_s=lambda parameters, rounds: TYPICAL_S,
)
