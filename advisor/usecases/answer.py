"""From a priced space to an answer: the plan, its runners-up of every kind, the reasons, and an honest no."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.search.objective import TIE_MARGIN
from advisor.search.records import Candidate, Nearest, Recommendation, Rejected, SearchInfo, plan_id
from advisor.search.verified import low_precision_mask
from advisor.search.why import loses, reasons
from advisor.units import format_bytes
from advisor.usecases.better_hardware import better_hardware
from advisor.usecases.nearby import nearby
from advisor.usecases.question import Question
from advisor.usecases.verdict import excess, only_offload, verdict

if TYPE_CHECKING:
    from optuna.study import Study

    from advisor.cost.calibration import Calibration
    from advisor.hardware.platform import Platform
    from advisor.search.analytic import Ranking

STUDY_ROWS = 32
ALTERNATIVES = 6


def build_answer(
    question: Question,
    ranking: Ranking,
    calibration: Calibration,
    *,
    start: float,
    top: int | None,
    exhaustive: bool,
    keep: Callable[[Study], None] = lambda _: None,
) -> Recommendation:
    """Return the Recommendation for a priced space; ``keep`` is given the study of its best plans."""
    from advisor.search.study import run_study

    rows = _study_rows(ranking)
    study, best = run_study(ranking, rows, question.request.seed)
    keep(study)
    details: dict[str, Any] = {"feasible": int(ranking.feasible.sum())}
    if exhaustive:
        # Independent of the order: the least score over every feasible plan, against that of the answer.
        details["exhaustive_agrees"] = best == (int(ranking.order[0]) if len(ranking.order) else None)
        if best is not None:
            details["exhaustive_best_over_answer"] = float(ranking.score[ranking.feasible].min() / ranking.score[best])
    candidates = _candidates(question, ranking, calibration, best, top or ALTERNATIVES) if best is not None else []
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
        verdict=verdict(question, ranking, candidates, rejected, nearest),
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


def _candidates(question: Question, ranking: Ranking, calibration: Calibration, best: int, count: int) -> list[Candidate]:
    """Return the answer and its runners-up: the best of every kind a reader compares first, then the next that look different."""
    from advisor.search.advice import Case

    identity = question.identity()
    rows = [best, *sorted(runners_up(ranking, best, count), key=lambda r: (float(ranking.score[r]), r))]
    first = ranking.priced.estimate(best)
    made: list[Candidate] = []
    for row in rows:
        plan = ranking.plans.plan(row)
        estimate = first if row == best else ranking.priced.estimate(row)
        ratio = float(ranking.score[row] / ranking.score[best]) if ranking.score[best] else 1.0
        kept = bool(ranking.feasible[row])
        tie = row != best and kept and 1 / (1 + TIE_MARGIN) <= ratio <= 1 + TIE_MARGIN
        made.append(
            Candidate(
                plan_id=plan_id(identity, plan),
                plan=plan,
                estimate=estimate,
                family=ranking.family_names[int(ranking.families[row])],
                tie=tie,
                ratio=ratio,
                loses=None if row == best else _why_not(ranking, best, row, loses(first, estimate, ratio, tie=tie)),
            )
        )
    case = Case(
        model=question.model, workload=question.workload, platform=question.platform, plan=made[0].plan, estimate=first, ranking=ranking
    )
    why = (*reasons(case, made[1:]), *better_hardware(question, made[0].plan, calibration), *nearby(question, made[0].plan))
    made[0] = replace(made[0], why=why)
    return made


def _why_not(ranking: Ranking, best: int, row: int, text: str) -> str:
    """Return why ``row`` is not the answer: what it gives up, where it is faster than the answer."""
    if not ranking.feasible[row]:
        return f"{excess(ranking, row)}; {text}"
    ratio = float(ranking.score[row] / ranking.score[best]) if ranking.score[best] else 1.0
    if ratio < 1 and ranking.unverified[row]:
        return f"{text}: unverified on this device, and the gain is within the interval"
    return text


def runners_up(ranking: Ranking, best: int, count: int) -> list[int]:
    """Return the rows to show beside ``best``.

    The best of each family and framework, of each way to fine-tune, in 16 bits beside a quantized answer (and the other way round),
    replicas beside splitting; then the next in order that differ in more than how the batch is cut.
    """
    from advisor.search.families import shape_key

    plans, possible = ranking.plans, ranking.possible
    families = list(ranking.best_of_families().values())
    frameworks = plans.columns["framework"]
    per_framework: dict[int, int] = {}
    for row in ranking.order[:5000]:
        per_framework.setdefault(int(frameworks[row]), int(row))
    must = [r for r in _other_kinds(ranking, best) if r != best]
    chosen: list[int] = []
    keys = {shape_key(plans.plan(best))}
    pool = [*must, *families, *per_framework.values(), *(int(r) for r in ranking.order[:2000])]
    for place, row in enumerate(pool):
        if len(chosen) >= max(count, len(families)) and place >= len(must):
            break
        key = shape_key(plans.plan(row))
        if key not in keys and possible[row]:
            keys.add(key)
            chosen.append(row)
    if len(chosen) < 3:  # a small space: show what differs only in finer knobs
        chosen += [int(r) for r in ranking.order if int(r) not in (best, *chosen)][: 3 - len(chosen)]
    return chosen


def _other_kinds(ranking: Ranking, best: int) -> list[int]:
    """Return the best possible row of each kind that a reader compares with the answer, whatever the order prefers."""
    plans, score = ranking.plans, ranking.score
    # At the batch of the answer where it has rows: another batch is another question.
    same = ranking.possible & (plans.columns["global_batch"] == plans.columns["global_batch"][best])
    low = low_precision_mask(plans)
    kinds = [plans.equals("adapter", name) for name in plans.vocabulary["adapter"]] if len(plans.vocabulary["adapter"]) > 1 else []
    kinds += [~low, low] if low.any() else []
    if "headroom_bytes" in ranking.constraints:  # the faster plan at the brim, beside the one with room
        others = [values <= 0 for name, values in ranking.constraints.items() if name != "headroom_bytes"]
        kinds += [np.all([*others, ranking.constraints["headroom_bytes"] > 0, low == low[best]], axis=0)]
    if ranking.priced.is_training:
        kinds += [~plans.equals("offload", "none")]
    if ranking.priced.is_training and ranking.context.platform.devices > 1:
        alone = (plans.columns["tp"] * plans.columns["pp"] * plans.columns["cp"] == 1) & plans.equals("offload", "none")
        stages = (("zero1", "zero2"), ("zero3", "fsdp", "hsdp"))
        kinds += [alone & np.logical_or.reduce([plans.equals("sharding", name) for name in stage]) for stage in stages]
    if not ranking.priced.is_training and ranking.context.platform.devices > 1:
        split = plans.columns["tp"] * plans.columns["pp"]
        kinds += [split == 1, split > 1]
    found = []
    for mask in kinds:
        if mask[best]:
            continue
        rows = np.flatnonzero(same & mask)
        rows = rows if len(rows) else np.flatnonzero(ranking.possible & mask)
        if len(rows):
            plain = rows[ranking.feasible[rows]]
            rows = plain if len(plain) else rows
            found.append(int(rows[np.argmin(score[rows])]))
    return found


def _rejected(question: Question, ranking: Ranking) -> list[Rejected]:
    """Return for each family without a feasible plan its nearest miss, and the precisions that the device or model rules out."""
    from advisor.plan.precision import precision_obstacle

    found: list[Rejected] = []
    fits = {ranking.family_names[int(code)] for code in np.unique(ranking.families[ranking.possible])}
    for name in ranking.family_names:
        row = None if name in fits else ranking.least_infeasible(name)
        if row is not None:
            found.append(_miss(ranking, row, name, name))
    found += _stages(question, ranking)
    for precision in ("bf16", "fp16", "fp8"):
        obstacle = precision_obstacle(precision, question.platform, question.model)
        if obstacle is not None and question.request.fixed.get("precision") in (None, precision):
            found.append(Rejected(plan=None, code=f"NO-{precision.upper()}", text=obstacle))
    return found


def _miss(ranking: Ranking, row: int, name: str, family: str | None) -> Rejected:
    plan = ranking.plans.plan(row)
    parts = {key: float(values[row]) for key, values in ranking.priced.memory_parts.items()}
    states = sum(parts.get(key, 0.0) for key in ("weights", "gradients", "optimizer_states"))
    limit = ranking.priced.memory_limit_bytes
    over = limit is not None and float(ranking.priced.memory_bytes[row]) > limit
    binding = (
        None if not over else ("memory.state" if ranking.priced.is_training and states > 0.5 * (limit or 0.0) else "memory.activations")
    )
    if over and not ranking.priced.is_training:
        binding = "memory.weights" if parts.get("weights", 0.0) > 0.5 * (limit or 0.0) else "memory.kv_cache"
    text = f"{name}: {excess(ranking, row)}"
    if binding == "memory.state":
        text += f"; weights, gradients and optimizer states alone take {format_bytes(states)} of it"
    hint = "offload=optimizer" if binding == "memory.state" and plan.offload == "none" else None
    return Rejected(plan=plan, code="DOES-NOT-FIT", text=text, family=family, binding_constraint=binding, suggestion=hint)


def _stages(question: Question, ranking: Ranking) -> list[Rejected]:
    """Return each way to shard (or to fine-tune) that fits no device without offload, beside those that do."""
    plans = ranking.plans
    if not question.workload.is_training or question.platform.devices == 1:
        return []
    resident = plans.equals("offload", "none") & (plans.columns["tp"] * plans.columns["pp"] * plans.columns["cp"] == 1)
    found = []
    for column, names in (("sharding", ("zero1", "zero2", "zero3", "fsdp")), ("adapter", ("none", "lora", "qlora"))):
        for name in names:
            rows = np.flatnonzero(plans.equals(column, name) & (resident if column == "sharding" else plans.equals("offload", "none")))
            if not len(rows) or ranking.possible[rows].any() or (column == "adapter" and len(plans.vocabulary["adapter"]) == 1):
                continue
            row = int(rows[np.argmin(ranking.priced.memory_bytes[rows])])
            label = {"none": "all weights trained"}.get(name, name) if column == "adapter" else name
            found.append(_miss(ranking, row, label, None))
    return found


def _nearest(question: Question, ranking: Ranking, calibration: Calibration, best: int | None) -> list[Nearest]:
    """Return the ways out when nothing fits, or when only offload to the host makes it fit."""
    if best is not None and (ranking.plans.plan(best).offload == "none" or not only_offload(ranking)):
        return []
    from advisor.hardware.load import all_profiles
    from advisor.search.nearest import USUAL, ways_out

    profiles = all_profiles()
    own = question.platform.profile
    others = [profiles[name] for name in USUAL if name in profiles and name != own.id]
    chosen = ([own] if not question.platform.is_cpu and own.id in profiles else []) + others
    ways = ways_out(question.model, question.workload, question.platform, calibration, what_if, chosen, question.request.fixed)
    # What the answer itself does is no way out of it.
    return [w for w in ways if best is None or w.hardware != question.platform.name or w.plan.offload == "none"]


def what_if(text: str) -> Platform:
    """Return the platform of a ``--hardware`` text as a pure what-if: no database is asked."""
    from advisor.usecases.platforms import resolve_hardware

    return resolve_hardware(text, strict=True).platform
