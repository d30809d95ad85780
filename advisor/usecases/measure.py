"""Recommend by measuring: really run the promising plans on this machine, and let the measured one win."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from advisor.errors import DatabaseError, UsageError
from advisor.frameworks import framework
from advisor.search.records import Recommendation, plan_id
from advisor.trial.records import Trial
from advisor.units import format_seconds
from advisor.usecases.answer import build_answer
from advisor.usecases.claims_proof import with_proof
from advisor.usecases.launched import needs_script, run_script
from advisor.usecases.launched import obstacle as script_obstacle
from advisor.usecases.measured_answer import Session, measured_answer
from advisor.usecases.question import Question, Request, resolve
from advisor.usecases.ranking import rank_question
from advisor.usecases.recommend import store_answer
from advisor.usecases.studies import measured_study, versions
from advisor.usecases.verdict import summary

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from advisor.bench.children import Line
    from advisor.search.analytic import Ranking
    from advisor.search.measured import Contender
    from advisor.search.workers import Outcome, Worker

Progress = Callable[[str], None]

#: Plans worth measuring: the best of each arm and batch. More than a budget of minutes can run, few enough to reason over.
CONTENDERS = 160
#: A plan predicted to be slower than the best by more than this factor is no contender.
HOPELESS = 12.0
#: Samples a trial takes beyond its first call and warm-up.
CALLS = 8


def recommend_measured(
    request: Request,
    *,
    database_url: str | None = None,
    budget_s: float = 120.0,
    top: int | None = None,
    progress: Progress = lambda _: None,
) -> Recommendation:
    """Answer a question about this machine by trials; every trial is stored as soon as it ends.

    A search that was cut short goes on where it ended, and searches of one question at once share their trials. UsageError if the
    hardware is not this machine, or the model is of a kind that trials cannot build.
    """
    from advisor.search.workers import Worker, finish, run_measured
    from advisor.trial.network import obstacle
    from advisor.usecases.calibration import load_calibration

    start = time.perf_counter()
    question = resolve(request, database_url)
    if not question.hardware.local:
        raise UsageError("--measure runs plans on this machine", "leave out --hardware, or give local", code="NOT-LOCAL")
    if not question.platform.is_cpu:
        raise UsageError("--measure runs trials on the CPU only, so far", code="NOT-CPU")
    reason = obstacle(question.model, question.workload)
    if reason is not None:
        raise UsageError(reason, "without --measure the cost model answers", code="NO-TRIAL")
    calibration = load_calibration()
    ranking = rank_question(question, calibration)
    answer = build_answer(question, ranking, calibration, start=start, top=top, exhaustive=False)
    if not answer.feasible:
        return answer
    session = _session(question, ranking, database_url)
    if not session.contenders:
        raise UsageError("no plan of this question can be run here", "without --measure the cost model answers", code="NO-TRIAL")
    latency = question.workload.objective == "latency"
    study = measured_study(question, database_url)
    worker = Worker.of(
        study,
        session.contenders,
        latency=latency,
        seed=request.seed,
        measure=lambda row, left: _run(session, row, left, progress),
        taken=lambda row, trial: _take(session, row, trial, progress),
    )
    run_measured(worker, budget_s=budget_s)
    _confirm(session, worker, budget_s - (time.perf_counter() - start), progress)
    finish(study)
    measured = measured_answer(session, worker.search, answer, ranking, latency, len(study.trials))
    measured = replace(measured, search=replace(measured.search, seconds=time.perf_counter() - start))
    measured = with_proof(question, measured, database_url)
    if database_url is not None:
        store_answer(question, measured, database_url)
    return measured


def _session(question: Question, ranking: Ranking, database_url: str | None) -> Session:
    """Return the contenders: for each arm, batch and thread count the plan as predicted, hopeless ones left out."""
    from advisor.search.measured import Contender
    from advisor.search.residual import arm_of

    feasible = [int(r) for r in ranking.score.argsort(kind="stable") if bool(ranking.feasible[r])]
    best = float(ranking.score[feasible[0]])
    rows: list[int] = []
    seen: set[tuple[Any, ...]] = set()
    for row in feasible:
        plan = ranking.plans.plan(row)
        spec = framework(plan.framework)
        if spec is None or spec.bench_backend is None or float(ranking.score[row]) > HOPELESS * best:
            continue
        if needs_script(question, plan) and script_obstacle(question, plan) is not None:
            continue
        key = (*arm_of(plan), plan.micro_batch, plan.grad_accumulation, plan.threads)
        if key not in seen:
            seen.add(key)
            rows.append(row)
        if len(rows) >= CONTENDERS:
            break
    contenders = []
    for row in rows:
        plan = ranking.plans.plan(row)
        predicted = float(ranking.priced.time_s[row])
        contenders.append(
            Contender(
                plan=plan,
                predicted_s=predicted,
                sigma=max(float(ranking.priced.sigma_log[row]), 0.1),
                samples=plan.global_batch,
                cost_s=trial_cost_s(plan.framework, plan.execution, predicted),
            )
        )
    return Session(question=question, contenders=contenders, rows=rows, database_url=database_url)


def trial_cost_s(name: str, execution: str, predicted_s: float) -> float:
    """Return about how long a trial takes: start, preparation (compiling) and a few calls; priors stand in the framework's descriptor."""
    spec = framework(name)
    overheads: Mapping[str, float] = spec.overheads if spec is not None else {}
    return overheads.get("start_s", 5.0) + overheads.get(f"prepare_{execution}_s", 1.0) + CALLS * predicted_s


def _run(session: Session, row: int, left: float, progress: Progress) -> Outcome:
    from advisor.search.workers import Outcome
    from advisor.trial.run import run_once
    from advisor.trial.turns import turn

    contender = session.contenders[row]
    with turn():
        start = time.monotonic()
        budget = max(2.0, min(left, CALLS * contender.predicted_s + 4.0))
        rounds = len(session.lines.get(row, []))
        question = session.question
        if needs_script(question, contender.plan):
            line = run_script(question, contender.plan, budget_s=max(left, budget))
        else:
            line = run_once(question.model, question.workload, contender.plan, budget_s=budget, seed=rounds)
    spent = time.monotonic() - start
    trial = _add(session, row, line, spent)
    _store(session, trial, contender.predicted_s)
    progress(f"measured {_told(contender, trial)}")
    seconds = trial.seconds if trial.measured else None
    return Outcome(seconds=seconds, reason=f"{trial.status}: {trial.reason}", record={"line": dict(line), "spent_s": spent})


def _add(session: Session, row: int, line: Line, spent_s: float) -> Trial:
    """Add one round of a contender, and return the trial that all its rounds make."""
    from advisor.trial.run import trial_of

    contender = session.contenders[row]
    session.lines.setdefault(row, []).append(line)
    session.spent[row] = session.spent.get(row, 0.0) + spent_s
    identity = session.question.identity()
    session.trials[row] = trial_of(contender.plan, plan_id(identity, contender.plan), session.lines[row], "cpu0", session.spent[row])
    return session.trials[row]


def _take(session: Session, row: int, stored: FrozenTrial, progress: Progress) -> None:
    """Take over what another worker, or this search before it was cut short, measured."""
    record = stored.user_attrs["record"]
    trial = _add(session, row, record["line"], float(record["spent_s"]))
    progress(f"already measured {_told(session.contenders[row], trial)}")


def _told(contender: Contender, trial: Trial) -> str:
    text = f"{format_seconds(trial.seconds)} a batch" if trial.seconds else f"{trial.status}: {trial.reason}"
    name = f"{contender.plan.framework} {contender.plan.execution}, {summary(contender.plan)}, {contender.plan.threads} threads"
    return f"{name}: {text} (predicted {format_seconds(contender.predicted_s)})"


def _confirm(session: Session, worker: Worker, left: float, progress: Progress) -> None:
    """Run the leaders again in fresh processes, in turns, while the time lasts: one process cannot tell how much the next differs."""
    search = worker.search
    leaders = search.leaders()
    if len(leaders) < 1:
        return
    end = time.perf_counter() + left
    for _ in range(2):
        for row in leaders:
            cost = session.spent[row] / max(1, len(session.lines[row]))
            if time.perf_counter() + cost > end:
                return
            worker.run(row, cost)
            if (seconds := session.trials[row].seconds) is not None:
                search.seconds[row] = seconds


def _store(session: Session, trial: Trial, predicted_s: float) -> None:
    if session.database_url is None:
        return
    from advisor.results.store import Store

    q = session.question
    document = {
        **trial.to_dict(),
        "model": q.model.name,
        "task": q.workload.task,
        "framework": trial.plan.framework,
        "predicted_s": predicted_s,
        "workload": {"seq_len": q.workload.seq_len, "input_len": q.workload.input_len, "output_len": q.workload.output_len},
    }
    try:
        with Store.open(session.database_url) as store:
            if session.run_id is None:
                machine = q.hardware.machine
                machine_id = store.save_machine(machine.to_dict()) if machine is not None else None
                session.run_id = store.start_run(
                    kind="trial",
                    machine_id=machine_id,
                    software={"frameworks": versions(q)},
                    command="recommend --measure",
                    settings=q.identity(),
                )
            store.add_trial(session.run_id, document)
    except DatabaseError as error:
        warnings.warn(f"a trial was not stored: {error.message}", stacklevel=2)
