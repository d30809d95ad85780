"""From trials to an answer: measured plans in order, the knee, predicted beside measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from advisor.cost.records import Estimate, Interval
from advisor.search.advice import Case
from advisor.search.objective import TIE_MARGIN
from advisor.search.records import Candidate, Reason, Recommendation
from advisor.search.why import loses, reasons
from advisor.trial.records import Trial
from advisor.units import format_seconds
from advisor.usecases.question import Question
from advisor.usecases.verdict import summary

if TYPE_CHECKING:
    from advisor.bench.children import Line
    from advisor.search.analytic import Ranking
    from advisor.search.measured import Contender, MeasuredSearch

#: 80 % interval from a 95 % one, both of a normal distribution: 1.2816 over 1.96 standard deviations.
FROM_95_TO_80 = 1.2816 / 1.9600


@dataclass(slots=True)
class Session:
    """Everything one measured search keeps: the rounds of each contender and the trials stored so far."""

    question: Question
    contenders: list[Contender]
    rows: list[int]
    database_url: str | None
    run_id: str | None = None
    lines: dict[int, list[Line]] = field(default_factory=dict)
    trials: dict[int, Trial] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)


def measured_answer(
    session: Session, search: MeasuredSearch, answer: Recommendation, ranking: Ranking, latency: bool, trials: int
) -> Recommendation:
    """Return the answer with the measured plans in front; one that was never measured cannot beat one that was."""
    good = {row: t for row, t in session.trials.items() if t.measured}
    failed = {row: t for row, t in session.trials.items() if t.status in ("wrong_result", "failed")}
    runs = sum(len(lines) for lines in session.lines.values())
    details = {**answer.search.details, "measured": len(session.trials), "runs": runs, "expected_gain_left": search.last_gain}
    info = replace(answer.search, trials=answer.search.trials + trials, details=details)
    disturbed = sum(t.status == "contended" for t in good.values())
    notes = (*answer.notes, *(f"{summary(t.plan)} through {t.plan.framework}: {t.status}, {t.reason}" for t in failed.values()))
    if disturbed:
        notes = (*notes, f"{disturbed} of {len(good)} plans were measured beside other programs only: close them, and measure again")
    if not good:
        return replace(answer, search=info, notes=(*notes, "no trial gave a clean number: the answer is the prediction"))
    order = sorted(good, key=lambda r: (session.contenders[r].score(good[r].seconds or math.inf, latency=latency), r))
    order = _knee(session, order, good, latency)
    first = order[0]
    made: list[Candidate] = []
    for row in order:
        contender, trial = session.contenders[row], good[row]
        predicted = ranking.priced.estimate(session.rows[row])
        estimate = measured_estimate(predicted, trial)
        ratio = math.exp(
            contender.score(trial.seconds or 1.0, latency=latency)
            - session.contenders[first].score(good[first].seconds or 1.0, latency=latency)
        )
        tie = row != first and ratio <= 1 + TIE_MARGIN
        made.append(
            Candidate(
                plan_id=trial.plan_id,
                plan=trial.plan,
                estimate=estimate,
                family=f"{trial.plan.framework} {trial.plan.execution}",
                tie=tie,
                ratio=ratio,
                loses=None if row == first else f"measured: {loses(made[0].estimate, estimate, ratio, tie=tie)}",
                predicted=predicted,
            )
        )
    q = session.question
    case = Case(model=q.model, workload=q.workload, platform=q.platform, plan=made[0].plan, estimate=made[0].estimate, ranking=ranking)
    why = (_measured_reason(good[first], made[0], len(good)), *reasons(case, ()))
    best = replace(made[0], why=why)
    unmeasured = tuple(c for c in answer.alternatives if c.plan_id not in {m.plan_id for m in made})[:2]
    verdict = _verdict(q, best)
    assumed = {**answer.assumed, **({"global_batch": best.plan.global_batch} if "global_batch" in answer.assumed else {})}
    return replace(
        answer,
        assumed=assumed,
        verdict=verdict,
        recommendation=best,
        alternatives=(*made[1:9], *(replace(c, loses=f"not measured; predicted {c.loses}") for c in unmeasured)),
        search=info,
        notes=notes,
        workload={**answer.workload, "global_batch": best.plan.global_batch},
    )


def _knee(session: Session, order: list[int], good: Mapping[int, Trial], latency: bool) -> list[int]:
    """Put the smallest batch that reaches the knee of the measured throughput first, where the question left the batch open."""
    from advisor.search.objective import KNEE

    if latency or session.question.workload.global_batch is not None:
        return order

    def score(row: int) -> float:
        return session.contenders[row].score(good[row].seconds or math.inf, latency=False)

    near = [r for r in order if score(r) <= score(order[0]) - math.log(KNEE)]
    knee = min(near, key=lambda r: (session.contenders[r].samples, score(r)))
    return [knee, *(r for r in order if r != knee)]


def _measured_reason(trial: Trial, best: Candidate, count: int) -> Reason:
    predicted = best.predicted.latency_s or best.predicted.step_time_s if best.predicted is not None else None
    runs = f"{len(trial.rounds)} fresh process{'es' * (len(trial.rounds) != 1)}"
    text = f"measured {format_seconds(trial.seconds or 0.0)} a batch in {runs}, the best of {count} plans that ran"
    if predicted is not None and trial.seconds:
        text += f"; predicted {format_seconds(predicted.value)} ({100 * (predicted.value / trial.seconds - 1):+.0f} %)"
    return Reason(code="MEASURED", text=text, value=trial.seconds)


def _verdict(question: Question, best: Candidate) -> str:
    time_s = best.estimate.latency_s or best.estimate.step_time_s
    doing = {"train": "training", "finetune": "fine-tuning", "infer": "inference", "serve": "serving"}[question.workload.task]
    return (
        f"Measured: {doing} {question.model.name} here is best with {best.plan.framework} {best.plan.execution}, {summary(best.plan)}, "
        f"{best.plan.threads} threads: {format_seconds(time_s.value if time_s else 0.0)} a batch of {best.plan.global_batch}."
    )


def measured_estimate(predicted: Estimate, trial: Trial) -> Estimate:
    """Return ``predicted`` with its times replaced by what the trial measured; parts keep their predicted proportions.

    The trial's 95 % interval becomes an 80 % one. Memory, which trials do not measure, stays predicted.
    """
    seconds = trial.seconds or 0.0
    before = predicted.latency_s or predicted.step_time_s
    ratio = seconds / before.value if before is not None and before.value else 1.0
    low = seconds * math.exp(math.log((trial.low or seconds) / seconds) * FROM_95_TO_80)
    high = seconds * math.exp(math.log((trial.high or seconds) / seconds) * FROM_95_TO_80)
    time_s = Interval(value=seconds, low=low, high=high)

    def rate(value: Interval | None) -> Interval | None:
        if value is None:
            return None
        middle = value.value / ratio
        return Interval(value=middle, low=middle * seconds / high, high=middle * seconds / low)

    return replace(
        predicted,
        step_time_s=time_s if predicted.step_time_s is not None else None,
        latency_s=time_s if predicted.latency_s is not None else None,
        ttft_s=time_s if predicted.ttft_s is not None and predicted.tpot_s is None else predicted.ttft_s,
        throughput=rate(predicted.throughput),
        tokens_per_s_per_device=rate(predicted.tokens_per_s_per_device),
        mfu=rate(predicted.mfu),
        time_parts_s={name: value * ratio for name, value in predicted.time_parts_s.items()},
        evidence="measured",
        measurements=(trial.measurement_id,),
    )
