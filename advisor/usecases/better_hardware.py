"""What better hardware would do to a plan, as a reason of a new answer and of a stored one."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from advisor.errors import AdvisorError
from advisor.plan.records import Plan, Workload
from advisor.search.records import Reason
from advisor.usecases.question import Question

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration


def better_hardware(question: Question, plan: Plan, calibration: Calibration) -> tuple[Reason, ...]:
    """Return one reason that names every better part of the hardware that would change the time of ``plan``; none where none would."""
    from advisor.cost.reasons import counterfactual_lines

    lines = counterfactual_lines(question.model, question.workload, question.platform, plan, calibration)
    return (Reason(code="COUNTERFACTUAL", text="; ".join(lines), detail={"lines": lines}),) if lines else ()


def stored_better_hardware(document: dict[str, Any], plan: dict[str, Any]) -> tuple[list[str], str | None]:
    """Return the lines for a plan of a stored answer, and why there are none where its question cannot be asked again."""
    from advisor.cost.reasons import counterfactual_lines
    from advisor.model.registry import model as find_model
    from advisor.usecases.calibration import load_calibration
    from advisor.usecases.platforms import resolve_hardware

    try:
        model = find_model(document["model"]["name"])
        platform = resolve_hardware(document["hardware"]["name"]).platform
    except AdvisorError as error:
        return [], f"the question cannot be asked again: {error.message}"
    if model.parameters != document["model"]["parameters"]:
        return [], f"{model.name} now names another model"
    told = document["workload"]
    workload = Workload(
        task=document["task"],
        seq_len=told["seq_len"],
        global_batch=plan["global_batch"],
        input_len=told.get("input_len"),
        output_len=told.get("output_len"),
    )
    known = {f.name for f in fields(Plan)}
    again = Plan(**{name: value for name, value in plan.items() if name in known})
    return counterfactual_lines(model, workload, platform, again, load_calibration()), None
