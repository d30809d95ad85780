"""The Optuna study of an analytic search: a sampler of our own proposes the best rows of the priced space.

The space is enumerated and priced in one vectorised pass, so the sampler knows the whole ranking; the study is the search's
record: parameters, values, constraints and attributes of the best trials, in the form every Optuna tool reads.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial

from advisor.plan.records import PLAN_FIELDS
from advisor.search.analytic import Ranking

MAX_TRIALS = 64
#: How many of the best trials of an analytic search are written down.
KEPT_TRIALS = 20


class RankingSampler(BaseSampler):
    """Propose the rows of a Ranking in a given order, as values of the plan's fields."""

    def __init__(self, rows: Sequence[dict[str, Any]], seed: int) -> None:
        self._rows = rows
        self._independent = optuna.samplers.RandomSampler(seed=seed)
        self._space = {
            name: CategoricalDistribution(tuple(dict.fromkeys(row[name] for row in rows)))
            for name in PLAN_FIELDS
            if len({row[name] for row in rows}) > 1
        }

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the fields in which the proposed plans differ."""
        return dict(self._space)

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        """Return the next row of the ranking."""
        row = self._rows[min(trial.number, len(self._rows) - 1)]
        return {name: row[name] for name in search_space}

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        """Return a random value: only reached for a parameter that the ranking does not hold."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)


def run_study(ranking: Ranking, rows: Sequence[int], seed: int) -> tuple[Study, int | None]:
    """Run the proposed ``rows`` as trials of an in-memory study; returns it and the row of its best feasible trial.

    The objective prices nothing again: it looks the proposed parameters up in the table that was priced. Constraint values are
    those of ``Ranking.constraints`` (at most 0 is kept).
    """
    optuna.logging.set_verbosity(logging.ERROR)
    plans = [ranking.plans.plan(row).to_dict() for row in rows[:MAX_TRIALS]]
    row_of = {_key(plan): row for plan, row in zip(plans, rows, strict=False)}
    study = optuna.create_study(direction="minimize", sampler=RankingSampler(plans, seed))
    if not plans:
        return study, None
    constant = {name: plans[0][name] for name in PLAN_FIELDS if len({plan[name] for plan in plans}) == 1}
    choices = {name: list(dict.fromkeys(plan[name] for plan in plans)) for name in PLAN_FIELDS if name not in constant}

    def objective(trial: Trial) -> float:
        proposed = {**constant, **{name: trial.suggest_categorical(name, values) for name, values in choices.items()}}
        row = row_of[_key(proposed)]
        trial.set_user_attr("row", int(row))
        trial.set_user_attr("plan", {name: proposed[name] for name in PLAN_FIELDS})
        priced = ranking.priced
        trial.set_user_attr("time_parts_s", {name: float(values[row]) for name, values in priced.time_parts.items()})
        trial.set_user_attr("memory_parts_bytes", {name: float(values[row]) for name, values in priced.memory_parts.items()})
        trial.set_user_attr("constraints", {name: float(values[row]) for name, values in ranking.constraints.items()})
        for name, values in ranking.constraints.items():
            trial.set_constraint(name, float(values[row]))
        return float(ranking.score[row])

    study.optimize(objective, n_trials=len(plans))
    feasible = [t for t in study.trials if bool(ranking.feasible[t.user_attrs["row"]])]
    # The score decides; where the ranking prefers a plan that is as good (simpler, or verified), its order does.
    place = {int(row): index for index, row in enumerate(ranking.order[:MAX_TRIALS])}
    best = min(feasible, key=lambda t: (place.get(t.user_attrs["row"], MAX_TRIALS), t.value, t.number), default=None)
    return study, None if best is None else int(best.user_attrs["row"])


def _key(plan: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(plan[name] for name in PLAN_FIELDS)
