"""Run a BenchSpec: children in interleaved rounds within a budget, each case combined when its last round is in."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from advisor.bench.children import plan, run_round
from advisor.bench.combine import combine
from advisor.bench.records import BenchSpec, Progress
from microbench.protocol import Case, Measurement, Request

#: Starting a child and importing its framework, in units of one case: what a child costs beside its cases.
START_WEIGHT = 4.0
#: The first round finds out what is slow and compiles: it gets this much more of the time than a later one.
FIRST_ROUND_WEIGHT = 1.5
LEAST_CHILD_S = 2.0
OUT_OF_TIME = "the time budget ended before its turn"

OnMeasurement = Callable[[Measurement], None]
OnProgress = Callable[[Progress], None]


@dataclass(slots=True)
class Job:
    """One backend with one thread setting: its cases, and what each round reported of them."""

    request: Request
    lines: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    seconds: float | None = None

    def key(self, case: Case) -> str:
        return json.dumps([case.benchmark, case.dtype, case.params], sort_keys=True)

    def pending(self) -> list[Case]:
        """Return the cases another round can add to; those not reached so far come first."""
        late, again = [], []
        for case in self.request.cases:
            lines = self.lines.get(self.key(case), [])
            if not lines or all(line.get("reason") == OUT_OF_TIME for line in lines):
                late.append(case)
            elif any(line["status"] in ("ok", "contended", "throttled") for line in lines):
                again.append(case)
        return late + again

    def weight(self, first: bool) -> float:
        """Return its claim on the time: measured where it has run, by its number of cases before."""
        return FIRST_ROUND_WEIGHT * (START_WEIGHT + len(self.request.cases)) if first else START_WEIGHT + len(self.pending())


#: Runs the cases of a job within a number of seconds, in a round, and adds what came of them to ``job.lines``.
RunOne = Callable[[BenchSpec, Job, list[Case], float, int], None]


def run_bench(spec: BenchSpec, on_measurement: OnMeasurement | None = None, on_progress: OnProgress | None = None) -> list[Measurement]:
    """Measure and return a Measurement for every case, in order of backends and cases.

    ``on_measurement`` is called with each as soon as its last round is in. The rounds are interleaved: every backend runs once before
    any runs again, in an order drawn anew each round (``spec.seed``), so that drift of the machine hits them alike. An interrupt
    ends the run; what was measured so far is combined and reported before it goes on up.
    """
    jobs = [Job(request) for request in plan(spec.plan_document())]
    out: dict[tuple[int, str], Measurement] = {}

    def finish(job: Job) -> None:
        for case in job.request.cases:
            key = (id(job), job.key(case))
            if key not in out and job.lines.get(key[1]):
                out[key] = combine(job.lines[key[1]], spec.device_id, spec.driver)
                if on_measurement is not None:
                    on_measurement(out[key])

    try:
        run_rounds(spec, jobs, finish, on_progress, _run_one)
    finally:
        for job in jobs:
            finish(job)
    return [out[id(job), job.key(case)] for job in jobs for case in job.request.cases if (id(job), job.key(case)) in out]


def run_rounds(
    spec: BenchSpec,
    jobs: list[Job],
    finish: Callable[[Job], None],
    on_progress: OnProgress | None,
    run_one: RunOne,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Run every job once in each round by ``run_one``, dealing out what is left of ``spec.total_s`` by the jobs' weights.

    A child that took longer than its share is paid for by all that come after it. In the first round each has LEAST_CHILD_S at
    least, so that no backend goes without a word; later rounds end with the budget. ``now`` is the clock.
    """
    rng = random.Random(spec.seed)  # noqa: S311 - an order, not a secret
    end = now() + spec.total_s
    total = spec.round_count * len(jobs)
    done = 0
    for number in range(spec.round_count):
        order = list(jobs)
        rng.shuffle(order)
        for position, job in enumerate(order):
            cases = job.pending()
            left = end - now()
            if on_progress is not None:
                label = f"{job.request.backend}, {job.request.threads} thread{'s' * (job.request.threads > 1)}, round {number + 1}"
                on_progress(Progress(label=label, done=done, total=total, seconds_left=max(0.0, left)))
            done += 1
            last = number == spec.round_count - 1
            if cases and (left > 1.0 or number == 0):
                waiting = sum(j.weight(number == 0) for j in order[position + 1 :])
                later = sum(j.weight(False) for j in jobs) * (spec.round_count - 1 - number)
                own = job.weight(number == 0)
                run_one(spec, job, cases, max(LEAST_CHILD_S, left * own / (own + waiting + later)), number)
            if last:
                finish(job)


def _run_one(spec: BenchSpec, job: Job, cases: list[Case], budget_s: float, number: int) -> None:
    # A seed of its own for each round: the check sees fresh inputs each time.
    request = replace(job.request, cases=tuple(cases), budget_s=budget_s, seed=(spec.seed or 0) * 1000 + number)

    python = spec.interpreters.get(request.backend)
    known: dict[int, int] = {}

    def keep(index: int, line: Mapping[str, Any]) -> None:
        if python is not None:
            # The folder of a managed environment is its name; a path would tell whose machine it is.
            line = {**line, "conditions": {**(line.get("conditions") or {}), "managed_environment": Path(python).parent.parent.name}}
        lines = job.lines.setdefault(job.key(cases[index]), [])
        # A case that comes again in one round has more samples than before.
        where = known.setdefault(index, len(lines))
        lines[where : where + 1] = [line]

    run_round(
        request,
        python=python,
        memory_limit_bytes=spec.memory_limit_bytes,
        on_result=keep,
    )
