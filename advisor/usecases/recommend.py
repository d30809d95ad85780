"""Recommend: the best plan for a question, answered from the cost model and stored."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from advisor.errors import DatabaseError, UsageError
from advisor.search.records import Recommendation
from advisor.usecases.answer import build_answer
from advisor.usecases.mixed import best_of_mixed
from advisor.usecases.product_rates import with_product_rates
from advisor.usecases.question import Question, Request, resolve

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration
    from advisor.search.analytic import Ranking


def recommend(
    request: Request, *, database_url: str | None = None, save: bool = True, top: int | None = None, exhaustive: bool = False
) -> Recommendation:
    """Answer a question from the cost model; stores the answer in the database unless told not to.

    ``exhaustive`` compares the study's optimum with the whole enumerated space and says so in ``search``.
    """
    from advisor.usecases.calibration import load_calibration

    start = time.perf_counter()
    question = resolve(request, database_url)
    calibration = load_calibration()
    if question.hardware.parts:
        question, ranking = best_of_mixed(question, calibration)
    else:
        ranking = rank_question(question, calibration)
    answer = build_answer(question, ranking, calibration, start=start, top=top, exhaustive=exhaustive)
    if save and database_url is not None:
        store_answer(question, answer, database_url)
    return answer


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
    platform, moved, used = with_product_rates(question.platform, calibration)
    ranking = rank(question.model, question.workload, platform, moved, fixed)
    if used:
        ranking = replace(ranking, priced=replace(ranking.priced, measurements=tuple(dict.fromkeys((*ranking.priced.measurements, *used)))))
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


def store_answer(question: Question, answer: Recommendation, database_url: str) -> None:
    """Store an answer with its plans; a database that cannot be written costs the record, not the answer."""
    from advisor.results.store import Store

    document = answer.to_dict()
    plans = [document["recommendation"]] if document["recommendation"] else []
    try:
        with Store.open(database_url) as store:
            store.save_recommendation({**question.identity(), "objective": answer.objective}, document, [*plans, *document["alternatives"]])
    except DatabaseError as error:
        warnings.warn(f"the answer was not stored: {error.message}; {error.hint or 'see `advisor db status`'}", stacklevel=2)


Progress = Callable[[str], None]
