"""The priced and ranked space of one question, or the rules that leave it empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from advisor.errors import UsageError
from advisor.usecases.question import Question

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration
    from advisor.search.analytic import Ranking


def rank_question(question: Question, calibration: Calibration) -> Ranking:
    """Return the priced space of a question; UsageError where no framework can do the task there or ``--fix`` leaves nothing legal."""
    from advisor.search.analytic import rank
    from advisor.search.space import check_fixed, context_for, enumerate_plans

    fixed = check_fixed(question.request.fixed)
    context = context_for(question.model, question.workload, question.platform)
    if not context.capabilities:
        raise UsageError(
            f"no framework {'usable here ' if question.hardware.local else ''}does {question.workload.task} "
            f"of a {question.model.kind} model on {question.platform.profile.target}",
            "`advisor probe` shows what is installed" if question.hardware.local else None,
            code="NO-FRAMEWORK",
        )
    ranking = rank(question.model, question.workload, question.platform, calibration, fixed)
    if not len(ranking.plans):
        possible = fixed and bool(len(enumerate_plans(context)))
        rules = broken_rules(question, fixed, calibration) if possible else ""
        raise UsageError(rules or _nothing_legal(question, fixed, bool(possible)), code="NO-LEGAL-PLAN")
    return ranking


def with_fixed(question: Question, pinned: Mapping[str, Any]) -> Question:
    """Return the question with other pinned fields."""
    workload = question.workload
    if "global_batch" in pinned:
        workload = replace(workload, global_batch=int(pinned["global_batch"]))
    return replace(question, workload=workload, request=replace(question.request, fixed=dict(pinned)))


def broken_rules(question: Question, pinned: Mapping[str, Any], calibration: Calibration) -> str:
    """Return the rules that a plan with these fields breaks, the others taken from the best legal plan; '' where none is found."""
    from advisor.plan.legal import violations
    from advisor.plan.records import PLAN_FIELDS, Plan
    from advisor.search.space import context_for

    try:
        free = rank_question(with_fixed(question, {}), calibration)
    except UsageError:
        return ""
    row = int(free.order[0]) if len(free.order) else 0
    base = free.plans.plan(row).to_dict()
    plan = Plan(**{name: pinned.get(name, base[name]) for name in PLAN_FIELDS})
    split = plan.tp * plan.pp * plan.cp
    if "dp" not in pinned and plan.devices % split == 0:
        plan = replace(plan, dp=plan.devices // split)
    elif "dp" not in pinned:
        plan = replace(plan, dp=1, devices=split)
    if "global_batch" not in pinned and question.workload.global_batch is None:
        plan = replace(plan, global_batch=plan.micro_batch * plan.grad_accumulation * plan.dp)
    return "; ".join(text for _, text in violations(plan, context_for(question.model, question.workload, question.platform)))


def _nothing_legal(question: Question, fixed: Mapping[str, Any], possible_unpinned: bool) -> str:
    if fixed and possible_unpinned:
        pins = ", ".join(f"{k}={v}" for k, v in fixed.items())
        return f"no legal plan has {pins} for {question.model.name} on {question.platform.name}"
    batch, devices = question.workload.global_batch, question.platform.devices
    t = question.model.transformer
    sizes = f" ({t.heads} heads, {t.layers} layers)" if t is not None else ""
    return f"a batch of {batch} of {question.model.name}{sizes} cannot be dealt out over {devices} devices"
