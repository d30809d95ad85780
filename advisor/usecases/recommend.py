"""Recommend: the best plan for a question, the runners-up of every family, the reasons, and an honest no."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.errors import DatabaseError, UsageError
from advisor.plan.records import Plan
from advisor.search.records import Candidate, Nearest, Recommendation, Rejected, SearchInfo, plan_id
from advisor.search.why import loses, reasons
from advisor.units import format_bytes, format_rate, format_seconds
from advisor.usecases.question import Question, Request, resolve

if TYPE_CHECKING:
    from advisor.cost.calibration import Calibration
    from advisor.hardware.platform import Platform
    from advisor.search.analytic import Ranking

#: Two plans closer than this are a tie. Repeats of one configuration differ by 1 to 3 % from run to run (published:
#: bloom_prequel), so a smaller predicted gap cannot be told apart by measuring either.
TIE_MARGIN = 0.03
STUDY_ROWS = 32
ALTERNATIVES = 6


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
    ranking = rank(question.model, question.workload, question.platform, calibration, fixed)
    if not len(ranking.plans):
        raise UsageError(_nothing_legal(question, fixed, bool(len(enumerate_plans(context)))), code="NO-LEGAL-PLAN")
    return ranking


def _nothing_legal(question: Question, fixed: Mapping[str, Any], possible_unpinned: bool) -> str:
    if fixed and possible_unpinned:
        pins = ", ".join(f"{k}={v}" for k, v in fixed.items())
        return f"no legal plan has {pins} for {question.model.name} on {question.platform.name}"
    batch, devices = question.workload.global_batch, question.platform.devices
    t = question.model.transformer
    sizes = f" ({t.heads} heads, {t.layers} layers)" if t is not None else ""
    return f"a batch of {batch} of {question.model.name}{sizes} cannot be dealt out over {devices} devices"


def build_answer(
    question: Question, ranking: Ranking, calibration: Calibration, *, start: float, top: int | None, exhaustive: bool
) -> Recommendation:
    """Return the Recommendation for a priced space."""
    from advisor.search.study import run_study

    rows = _study_rows(ranking)
    study, best = run_study(ranking, rows, question.request.seed)
    details: dict[str, Any] = {"feasible": int(ranking.feasible.sum())}
    if exhaustive:
        optimum = int(ranking.order[0]) if len(ranking.order) else None
        details["exhaustive_agrees"] = optimum == best
    candidates = _candidates(question, ranking, best, top or ALTERNATIVES) if best is not None else []
    rejected = _rejected(question, ranking)
    nearest = _nearest(question, ranking, calibration, best)
    info = SearchInfo(
        engine="optuna",
        trials=len(study.trials),
        space_size=len(ranking.plans),
        seconds=time.perf_counter() - start,
        seed=question.request.seed,
        details=details,
    )
    assumed = dict(question.assumed)
    if candidates and "global_batch" in assumed:
        assumed["global_batch"] = candidates[0].plan.global_batch
    return Recommendation(
        assumed=assumed,
        model=question.model_document(),
        hardware=question.hardware.document(),
        task=question.workload.task,
        objective=question.workload.objective,
        workload={
            "seq_len": question.workload.seq_len,
            "global_batch": candidates[0].plan.global_batch if candidates else question.workload.global_batch,
            "input_len": question.workload.input_len,
            "output_len": question.workload.output_len,
        },
        feasible=bool(candidates),
        verdict=_verdict(question, candidates, rejected, nearest),
        recommendation=candidates[0] if candidates else None,
        alternatives=tuple(candidates[1:]),
        rejected=tuple(rejected),
        nearest=tuple(nearest),
        search=info,
        notes=question.notes,
    )


def _study_rows(ranking: Ranking) -> list[int]:
    """Return the rows a study records: the best, the best of each family and framework, and the least infeasible of the rest."""
    rows = [int(r) for r in ranking.order[:STUDY_ROWS]]
    rows += list(ranking.best_of_families().values())
    frameworks = ranking.plans.columns["framework"]
    seen: dict[int, int] = {}
    for row in ranking.order:
        seen.setdefault(int(frameworks[row]), int(row))
    rows += list(seen.values())
    feasible = set(ranking.best_of_families())
    rows += [r for name in ranking.family_names if name not in feasible and (r := ranking.least_infeasible(name)) is not None]
    return list(dict.fromkeys(rows))


def _candidates(question: Question, ranking: Ranking, best: int, count: int) -> list[Candidate]:
    """Return the answer and its runners-up: the best of every family and framework first, then the next that look different."""
    from advisor.search.families import shape_key

    identity = question.identity()
    families = list(ranking.best_of_families().values())
    frameworks = ranking.plans.columns["framework"]
    chosen: list[int] = [best]
    keys = {shape_key(ranking.plans.plan(best))}
    per_framework: dict[int, int] = {}
    for row in ranking.order[:5000]:
        per_framework.setdefault(int(frameworks[row]), int(row))
    pool = [*families, *per_framework.values(), *(int(r) for r in ranking.order[:2000])]
    for row in pool:
        if len(chosen) > max(count, len(families)):
            break
        key = shape_key(ranking.plans.plan(row))
        if key not in keys:
            keys.add(key)
            chosen.append(row)
    if len(chosen) < 4:  # a small space: show what differs only in finer knobs
        chosen += [int(r) for r in ranking.order if int(r) not in chosen][: 4 - len(chosen)]
    chosen = [best, *sorted(chosen[1:], key=lambda r: (float(ranking.score[r]), r))]
    first = ranking.priced.estimate(best)
    made: list[Candidate] = []
    for row in chosen:
        plan = ranking.plans.plan(row)
        estimate = first if row == best else ranking.priced.estimate(row)
        ratio = float(ranking.score[row] / ranking.score[best]) if ranking.score[best] else 1.0
        tie = row != best and ratio <= 1 + TIE_MARGIN
        made.append(
            Candidate(
                plan_id=plan_id(identity, plan),
                plan=plan,
                estimate=estimate,
                family=ranking.family_names[int(ranking.families[row])],
                tie=tie,
                ratio=ratio,
                loses=None if row == best else loses(first, estimate, ratio, tie=tie),
            )
        )
    why = reasons(question.model, question.workload, question.platform, made[0].plan, first, made[1:])
    made[0] = Candidate(plan_id=made[0].plan_id, plan=made[0].plan, estimate=first, family=made[0].family, why=why)
    return made


def _rejected(question: Question, ranking: Ranking) -> list[Rejected]:
    """Return for each family without a feasible plan its nearest miss, and the precisions that the device or model rules out."""
    from advisor.plan.precision import precision_obstacle

    found: list[Rejected] = []
    fits = set(ranking.best_of_families())
    for name in ranking.family_names:
        if name in fits:
            continue
        row = ranking.least_infeasible(name)
        if row is None:
            continue
        plan = ranking.plans.plan(row)
        found.append(Rejected(plan=plan, code="DOES-NOT-FIT", text=f"{name}: {_excess(ranking, row)}", family=name))
    for precision in ("bf16", "fp16", "fp8"):
        obstacle = precision_obstacle(precision, question.platform, question.model)
        if obstacle is not None and question.request.fixed.get("precision") in (None, precision):
            found.append(Rejected(plan=None, code=f"NO-{precision.upper()}", text=obstacle))
    return found


def _excess(ranking: Ranking, row: int) -> str:
    broken = {name: float(values[row]) for name, values in ranking.constraints.items() if float(values[row]) > 0}
    if set(broken) <= {"memory_bytes"} and ranking.priced.memory_limit_bytes is not None:
        need, limit = float(ranking.priced.memory_bytes[row]), float(ranking.priced.memory_limit_bytes)
        if need > limit:
            return f"needs {format_bytes(need)} per device, {format_bytes(limit)} can be used: {format_bytes(need - limit)} too much"
        return f"needs more host memory than is known to be there ({format_bytes(need)} on the device fits)"
    if not broken:
        return "slower at the chosen batch"
    if set(broken) == {"weight_bits"}:
        return "four-bit weights change the output, and plans with eight bits or more fit"
    return ", ".join(
        f"exceeds --limit {name} by {value:.4g}" for name, value in broken.items() if name not in ("memory_bytes", "weight_bits")
    )


def _nearest(question: Question, ranking: Ranking, calibration: Calibration, best: int | None) -> list[Nearest]:
    """Return the ways out when nothing fits, or when only offload to the host makes it fit."""
    if best is not None and ranking.plans.plan(best).offload == "none":
        return []
    from advisor.hardware.load import all_profiles
    from advisor.search.nearest import USUAL, ways_out

    profiles = all_profiles()
    own = question.platform.profile
    others = [profiles[name] for name in USUAL if name in profiles and name != own.id]
    chosen = ([own] if not question.platform.is_cpu and own.id in profiles else []) + others
    return ways_out(question.model, question.workload, question.platform, calibration, what_if, chosen, question.request.fixed)


def what_if(text: str) -> Platform:
    """Return the platform of a ``--hardware`` text as a pure what-if: no database is asked."""
    from advisor.usecases.platforms import resolve_hardware

    return resolve_hardware(text).platform


def _verdict(question: Question, candidates: Sequence[Candidate], rejected: Sequence[Rejected], nearest: Sequence[Nearest]) -> str:
    model, platform = question.model, question.platform
    doing = {"train": "training", "finetune": "fine-tuning", "infer": "inference", "serve": "serving"}[question.workload.task]
    where = f"{platform.devices} × {platform.profile.name}"
    if not candidates:
        excess = next((r.text for r in rejected if r.code == "DOES-NOT-FIT"), "no plan keeps the limits")
        way = next((n for n in nearest if n.hardware != platform.name), nearest[0] if nearest else None)
        out = f" The smallest that does it: {way.change}." if way is not None else ""
        return f"No: {doing} {model.name} does not fit {where}; {excess}.{states_sentence(question)}{out}"
    best = candidates[0]
    text = f"Yes: {doing} {model.name} on {where} with {best.plan.framework}, {summary(best.plan)}"
    if best.estimate.step_time_s is not None and question.workload.is_training:
        text += f": {format_seconds(best.estimate.step_time_s.value)} a step"
    elif best.estimate.latency_s is not None:
        text += f": {format_seconds(best.estimate.latency_s.value)} a batch of {best.plan.global_batch}"
    if best.estimate.throughput is not None:
        text += f", {format_rate(best.estimate.throughput.value, best.estimate.throughput_unit)}"
    if best.plan.offload != "none":
        text += f". Only with offload to the host.{states_sentence(question)}"
    return text if text.endswith(".") else text + "."


def states_sentence(question: Question) -> str:
    """Return what the model states alone take, unsharded: the number behind most of the noes."""
    p = question.model.parameters
    if question.workload.task == "train":
        return f" The states alone (weights, gradients, Adam) take {16 * p / 1e9:.0f} GB, 16 B a parameter."
    return f" The weights alone take {2 * p / 1e9:.1f} GB in 16 bits, {p / 1e9:.1f} GB in 8, {p / 2e9:.1f} GB in 4."


def summary(plan: Plan) -> str:
    """Return a plan in a few words: what differs from the plain way."""
    words = [plan.precision]
    if plan.quantization != "none":
        words.append(plan.quantization)
    words += [
        f"{name}={degree}"
        for name, degree in (("dp", plan.dp), ("tp", plan.tp), ("pp", plan.pp), ("vpp", plan.vpp), ("cp", plan.cp), ("ep", plan.ep))
        if degree > 1
    ]
    if plan.sharding != "none":
        words.append(plan.sharding)
    words.append(f"micro-batch {plan.micro_batch}" + (f" × {plan.grad_accumulation}" if plan.grad_accumulation > 1 else ""))
    if plan.recompute != "none":
        words.append(f"{plan.recompute} recompute")
    if plan.offload != "none":
        words.append(f"{plan.offload} offloaded")
    if plan.execution not in ("eager", "engine"):
        words.append(plan.execution)
    return ", ".join(words)


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
