"""A quantity that is no timing (bytes, counts, errors), determined by a child process that prints it.

Parameters: ``child`` (a module of ``advisor.claims.children``), ``arguments`` (handed to it), ``environment`` (where it runs), ``label``,
``limit_s``, ``prepared`` (it keeps exports that ``claims prepare`` builds). The child reads its arguments as JSON and prints one object:
``{"lacks": "..."}``, or ``{"settings": [...]}``, each with ``label``, ``value`` (perhaps ``low`` and ``high``) or ``samples``, and
``detail``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.claims.experiments._child import TYPICAL_S, ask, prepare, settings_of
from advisor.claims.records import Claim, Context, Experiment, Outcome


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Run the child and return what it printed."""
    document = ask(parameters, context, seed=context.seed)
    if document.get("lacks"):
        return Outcome(lacks=str(document["lacks"]))
    return Outcome(settings=settings_of(document, str(parameters.get("label") or parameters["child"])))


EXPERIMENT = Experiment(
    name="quantity",
    title="bytes, counts or errors determined on this machine",
    basis="measured",
    run=run,
    prepare=prepare,
    needs=("child",),
    options=("arguments", "environment", "label", "limit_s", "typical_s", "prepared"),
    cost_s=lambda parameters, rounds: float(parameters.get("typical_s") or TYPICAL_S),
)
