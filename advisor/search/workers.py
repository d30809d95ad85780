"""Workers of a measured search: any number of processes, on any hosts, measure the plans of one Optuna study and learn from each other.

Before each turn a worker reads what the others finished or hold. A trial that was cut short (its process killed, its host gone) is
marked as failed, at once where its process was on this host, else when its heartbeat is stale; its plan is free again, once.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from advisor.plan.records import PLAN_FIELDS, Plan
from advisor.plan.table import NAME_COLUMNS
from advisor.search.measured import CONFIRM_SHARE, Contender, MeasuredSearch

#: A plan whose worker died is measured again, but not for ever: it may be what killed it.
MOST_DEATHS = 2
#: Widest range of a whole-numbered field: studies that are continued must agree on it, whatever plans are in them.
_WIDEST = 1 << 30
FINISHED = "finished_at"
#: Trials after which a search stops whatever it may still gain; the runs of the leaders come on top.
MOST_TRIALS = 54


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run of a plan reports: seconds of one batch, or None with the reason; ``record`` is kept with the trial, as JSON holds it."""

    seconds: float | None
    reason: str | None = None
    record: Mapping[str, Any] = field(default_factory=dict)


Measure = Callable[[int, float], Outcome]
Taken = Callable[[int, FrozenTrial], None]


class PlanFailed(Exception):
    """A plan ran and gave no number; its trial is marked as failed, with the reason."""


def space_of(plans: Sequence[Plan]) -> dict[str, BaseDistribution]:
    """Return the fields in which ``plans`` differ, with the values any plan may have there, so that later plans go into the same study."""
    from advisor.search.space import known_values

    space: dict[str, BaseDistribution] = {}
    for name in PLAN_FIELDS:
        if len({getattr(plan, name) for plan in plans}) < 2:
            continue
        if name in NAME_COLUMNS:
            space[name] = CategoricalDistribution(known_values(name))
        elif name == "sequence_parallel":
            space[name] = CategoricalDistribution((False, True))
        else:
            space[name] = IntDistribution(0, _WIDEST)
    return space


class ProposalSampler(BaseSampler):
    """Hand the search's proposal to Optuna as the values of the plan's fields."""

    def __init__(self, plans: Sequence[Plan], seed: int) -> None:
        self.next_plan: Plan | None = plans[0] if plans else None
        self.space = space_of(plans)
        self._independent = optuna.samplers.RandomSampler(seed=seed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the fields in which the plans differ."""
        return dict(self.space)

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        """Return the fields of the plan that is proposed next."""
        return {name: getattr(self.next_plan, name) for name in search_space}

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution) -> Any:
        """Return a random value: only reached for a field in which the plans do not differ."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)


def open_study(database_url: str | None, name: str, sampler: BaseSampler | None = None) -> Study:
    """Return the study called ``name``, new or to be continued; in memory without a database. One that is finished is left as it is.

    Later searches of the same question are called ``name #2`` and so on.
    """
    optuna.logging.set_verbosity(logging.ERROR)
    if database_url is None:
        return optuna.create_study(direction="minimize", sampler=sampler)
    from advisor.search.storage import open_storage

    storage = open_storage(database_url)
    known = set(optuna.study.get_all_study_names(storage))
    number, chosen = 1, name
    while chosen in known and FINISHED in optuna.load_study(study_name=chosen, storage=storage).user_attrs:
        number += 1
        chosen = f"{name} #{number}"
    return optuna.create_study(study_name=chosen, storage=storage, direction="minimize", sampler=sampler, load_if_exists=True)


@dataclass(slots=True)
class Worker:
    """One process that measures the plans of a study. ``measure(row, seconds)`` runs contender ``row`` within about that time."""

    study: Study
    search: MeasuredSearch
    measure: Measure
    sampler: ProposalSampler
    taken: Taken = lambda row, trial: None
    """Told of every trial that another worker, or this search before it was cut short, finished."""
    _rows: dict[Plan, int] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        study: Study,
        contenders: Sequence[Contender],
        *,
        latency: bool,
        seed: int,
        measure: Measure,
        taken: Taken = lambda row, trial: None,
    ) -> Worker:
        """Return a worker of ``study`` for ``contenders``."""
        sampler = ProposalSampler([c.plan for c in contenders], seed)
        study.sampler = sampler
        worker = cls(study, MeasuredSearch(contenders, latency), measure, sampler, taken)
        worker._rows = {c.plan: row for row, c in enumerate(contenders)}
        return worker

    def row_of(self, trial: FrozenTrial) -> int | None:
        """Return the contender that a stored trial ran, or None where it is none of ours."""
        plan = trial.user_attrs.get("plan")
        return self._rows.get(Plan(**plan)) if plan is not None else None

    def read(self) -> None:
        """Take in what the other workers did, those that died among them."""
        _fail_dead(self.study)
        trials = self.study.get_trials(deepcopy=False)
        deaths: dict[int, int] = {}
        held: set[int] = set()
        for trial in trials:
            row = self.row_of(trial)
            if row is None:
                continue
            if not trial.state.is_finished():
                held.add(row)
            elif "outcome" not in trial.user_attrs:
                deaths[row] = deaths.get(row, 0) + (trial.state == TrialState.FAIL)
            elif trial.number not in self._seen:
                self._seen.add(trial.number)
                self.search.tell(row, trial.user_attrs["seconds"])
                self.taken(row, trial)
        measured = {row for t in trials if "outcome" in t.user_attrs and (row := self.row_of(t)) is not None}
        given_up = {row for row, count in deaths.items() if count >= MOST_DEATHS}
        self.search.tried = measured | held | given_up

    def run(self, row: int, seconds_left: float) -> None:
        """Measure contender ``row`` as one trial of the study."""
        self.sampler.next_plan = self.search.contenders[row].plan
        # ``optimize`` and not ask and tell: it keeps the heartbeat going while the plan runs.
        # Where this process was held up so long that others took it for dead, its trial is closed and the result is kept here alone.
        with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
            self.study.optimize(lambda trial: self._objective(trial, row, seconds_left), n_trials=1, catch=(PlanFailed,))

    def _objective(self, trial: Trial, row: int, seconds_left: float) -> float:
        contender = self.search.contenders[row]
        for name, distribution in self.sampler.space.items():
            _suggest(trial, name, distribution)
        trial.set_user_attr("plan", contender.plan.to_dict())
        trial.set_user_attr("worker", {"host": socket.gethostname(), "pid": os.getpid(), "started": _started(os.getpid())})
        trial.set_user_attr("predicted_s", contender.predicted_s)
        if self._taken(trial, row):
            raise optuna.TrialPruned
        outcome = self.measure(row, seconds_left)
        self._seen.add(trial.number)
        self.search.tell(row, outcome.seconds)
        trial.set_user_attr("record", dict(outcome.record))
        trial.set_user_attr("seconds", outcome.seconds)
        trial.set_user_attr("outcome", "measured" if outcome.seconds is not None else str(outcome.reason))
        if outcome.seconds is None:
            raise PlanFailed(outcome.reason or "no number")
        return math.exp(contender.score(outcome.seconds, latency=self.search.latency))

    def _taken(self, trial: Trial, row: int) -> bool:
        """Tell whether another worker took the same plan a moment ago: the earlier trial keeps it."""
        running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return any(t.number < trial.number and self.row_of(t) == row for t in running)


def run_measured(worker: Worker, *, budget_s: float, clock: Callable[[], float] = time.perf_counter) -> None:
    """Measure until the gain no longer pays or ``budget_s`` is spent (a part is kept back for the leaders).

    What is already in the study is not measured again.
    """
    start = clock()
    while True:
        worker.read()
        left = budget_s * (1 - CONFIRM_SHARE if worker.search.seconds else 1.0) - (clock() - start)
        row = worker.search.propose(left) if len(worker.search.tried) < MOST_TRIALS else None
        if row is None:
            return
        worker.run(row, left)


def finish(study: Study) -> None:
    """Mark a study as answered: the next search of the same question begins a new one."""
    study.set_user_attr(FINISHED, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _fail_dead(study: Study) -> None:
    """Mark the trials of workers that are gone as failed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)
    host = socket.gethostname()
    for trial in _running(study):
        worker = trial.user_attrs.get("worker") or {}
        if worker.get("host") == host and _started(int(worker["pid"])) != worker.get("started"):
            study.tell(trial.number, state=TrialState.FAIL)


def _suggest(trial: Trial, name: str, distribution: BaseDistribution) -> None:
    """Take the sampler's value of one field into the trial."""
    if isinstance(distribution, CategoricalDistribution):
        trial.suggest_categorical(name, distribution.choices)
    elif isinstance(distribution, IntDistribution):
        trial.suggest_int(name, distribution.low, distribution.high)


def _running(study: Study) -> Iterator[FrozenTrial]:
    yield from study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def _started(pid: int) -> float | None:
    """Return when process ``pid`` of this host was started, or None if there is none: a process id alone is used again."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return None
