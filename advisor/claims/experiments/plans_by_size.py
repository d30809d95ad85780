"""Which plans are best, or possible at all, over models of growing size: a rule about parallelism put to the cost model.

Parameters: ``models``, ``hardware``, options of the question (``question``), and ``rule``:
``pure_dp_best``: the best plan needs neither tensor nor pipeline parallelism nor sharding; ``without_mp_impossible``: no plan without
tensor and pipeline parallelism fits. The number is the share of the models for which the rule holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.claims.records import Claim, Context, Experiment, Outcome, Setting
from advisor.errors import AdvisorError


def _pure_dp_best(model: str, hardware: str, question: Mapping[str, Any], context: Context) -> tuple[bool, str]:
    answer = context.recommend(model, hardware, question)
    if not answer["feasible"]:
        return False, "nothing fits"
    ranked = [answer["recommendation"], *answer["alternatives"]]
    tied = [item["plan"] for item in ranked if item is ranked[0] or item["tie"]]
    pure = [plan for plan in tied if plan["tp"] == plan["pp"] == plan["cp"] == 1 and plan["sharding"] == "none"]
    shown = pure[0] if pure else tied[0]
    return bool(pure), f"dp{shown['dp']} tp{shown['tp']} pp{shown['pp']} {shown['sharding']}"


def _without_mp_impossible(model: str, hardware: str, question: Mapping[str, Any], context: Context) -> tuple[bool, str]:
    try:
        answer = context.recommend(model, hardware, {**question, "fixed": {"tp": 1, "pp": 1}})
    except AdvisorError as error:
        return True, error.message
    if not answer["feasible"]:
        return True, "no plan with tp 1 and pp 1 fits"
    plan = answer["recommendation"]["plan"]
    return False, f"{plan['sharding']} over {plan['shard_degree']} fits, recompute {plan['recompute']}"


RULES = {"pure_dp_best": _pure_dp_best, "without_mp_impossible": _without_mp_impossible}


def run(parameters: Mapping[str, Any], claim: Claim, context: Context) -> Outcome:
    """Ask for every model and return the share for which the rule holds."""
    rule = RULES.get(str(parameters["rule"]))
    if rule is None:
        return Outcome(lacks=f"no rule {parameters['rule']!r}; there are {', '.join(RULES)}")
    found: dict[str, tuple[bool, str]] = {}
    for model in parameters["models"]:
        context.say(model)
        found[model] = rule(str(model), str(parameters["hardware"]), parameters.get("question") or {}, context)
    share = sum(holds for holds, _ in found.values()) / len(found)
    detail = {model: {"holds": holds, "plan": text} for model, (holds, text) in found.items()}
    return Outcome(settings=(Setting(label=f"{len(found)} models on {parameters['hardware']}", value=share, detail=detail),))


EXPERIMENT = Experiment(
    name="plans_by_size",
    title="the best plans over models of growing size, by the cost model",
    basis="predicted",
    run=run,
    needs=("models", "hardware", "rule"),
    options=("question",),
    cost_s=lambda parameters, rounds: 4.0 * len(parameters["models"]),
)
