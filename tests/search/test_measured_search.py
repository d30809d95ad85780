"""The measured search on synthetic machines whose truth is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from optuna.study import Study

from advisor.plan.records import Plan
from advisor.search.measured import Contender, MeasuredSearch
from advisor.search.residual import Residuals, expected_gain
from advisor.search.workers import Outcome, Worker, open_study, run_measured


def contenders(seed: int) -> tuple[list[Contender], list[float]]:
    """Return 60 plans with predictions, and the true seconds: a bias per framework, per arm, and noise of their own."""
    rng = random.Random(seed)
    plans, truth = [], []
    for framework in ("torch", "jax", "onnxruntime"):
        for execution in ("eager", "graph"):
            bias = rng.gauss(0, 0.25) + rng.gauss(0, 0.25)
            for batch in (1, 2, 4, 8, 16):
                for threads in (1, 2):
                    predicted = 0.05 * batch**0.9 / threads**0.8
                    plan = Plan(
                        framework=framework, execution=execution, precision="fp32", micro_batch=batch, global_batch=batch, threads=threads
                    )
                    plans.append(Contender(plan=plan, predicted_s=predicted, sigma=0.4, samples=batch, cost_s=3 + 5 * predicted))
                    truth.append(predicted * math.exp(bias + rng.gauss(0, 0.05)))
    return plans, truth


def searched(
    plans: list[Contender], measure: Callable[[int, float], float | None], *, latency: bool, budget_s: float, clock: Callable[[], float]
) -> tuple[Study, MeasuredSearch]:
    """Run one worker on a study of its own in memory."""
    worker = Worker.of(
        open_study(None, "test"), plans, latency=latency, seed=0, measure=lambda row, left: Outcome(seconds=measure(row, left), reason="no")
    )
    run_measured(worker, budget_s=budget_s, clock=clock)
    return worker.study, worker.search


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("latency", [False, True])
def test_it_finds_a_plan_within_ten_per_cent_in_a_quarter_of_the_trials(seed: int, latency: bool) -> None:
    plans, truth = contenders(seed)
    now = [0.0]

    def run(row: int, left: float) -> float:
        now[0] += plans[row].cost_s
        return truth[row]

    study, search = searched(plans, run, latency=latency, budget_s=150.0, clock=lambda: now[0])
    best = search.best()
    assert best is not None
    optimum = min(c.score(t, latency=latency) for c, t in zip(plans, truth, strict=True))
    assert plans[best].score(truth[best], latency=latency) <= optimum + math.log(1.10)
    assert len(study.trials) <= len(plans) / 2
    assert now[0] <= 150.0


def test_a_failing_plan_is_not_tried_again_and_costs_only_itself() -> None:
    plans, truth = contenders(3)
    tried: list[int] = []

    def run(row: int, left: float) -> float | None:
        tried.append(row)
        return None if plans[row].plan.framework == "jax" else truth[row]

    study, search = searched(plans, run, latency=False, budget_s=1e9, clock=lambda: 0.0)
    assert len(tried) == len(set(tried))
    assert search.best() is not None
    assert {t.state.name for t in study.trials} <= {"COMPLETE", "FAIL"}


def test_without_time_nothing_is_measured() -> None:
    plans, _ = contenders(1)
    study, search = searched(plans, lambda row, left: 1.0, latency=False, budget_s=0.5, clock=lambda: 0.0)
    assert not study.trials
    assert search.best() is None


def test_a_measurement_teaches_its_arm_most() -> None:
    plans, _ = contenders(0)
    residuals = Residuals([c.plan for c in plans], np.array([c.sigma for c in plans]))
    residuals.observe(0, 0.5)
    mean, deviation = residuals.posterior()
    same_arm, same_framework, other = mean[1], mean[10], mean[20]
    assert mean[0] > same_arm > same_framework > other > 0
    assert deviation[0] < deviation[1] < deviation[20] < 0.4


def test_expected_gain_grows_with_spread_and_is_never_negative() -> None:
    gain = expected_gain(0.0, np.array([0.5, 0.5, -0.5]), np.array([0.1, 1.0, 0.1]))
    assert (gain >= 0).all()
    assert gain[1] > gain[0]
    assert gain[2] == pytest.approx(0.5, abs=0.01)
