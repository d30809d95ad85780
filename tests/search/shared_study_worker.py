"""A worker of a shared study, for the tests that kill it and run several: URL, log file, seconds a measurement takes."""

from __future__ import annotations

import os
import sys
import time

from advisor.plan.records import Plan
from advisor.search.measured import Contender
from advisor.search.workers import Outcome, Worker, finish, open_study, run_measured


def contenders() -> list[Contender]:
    """Return twelve plans, the best of which is predicted worst."""
    plans = []
    for index in range(12):
        plan = Plan(framework="torch", execution="eager", precision="fp32", micro_batch=1 + index, global_batch=1 + index)
        plans.append(Contender(plan=plan, predicted_s=0.1 + 0.01 * index, sigma=0.5, samples=1, cost_s=1e-3))
    return plans


def main(url: str, log: str, takes_s: float, number: int) -> None:
    plans = contenders()

    def measure(row: int, left: float) -> Outcome:
        with open(log, "a") as file:
            file.write(f"start {row} {os.getpid()}\n")
        time.sleep(takes_s)
        with open(log, "a") as file:
            file.write(f"end {row} {os.getpid()}\n")
        return Outcome(seconds=0.2 - 0.01 * row, record={"line": {"value": 0.2 - 0.01 * row}})

    others: list[int] = []
    study = open_study(url, "shared")
    worker = Worker.of(study, plans, latency=True, seed=number, measure=measure, taken=lambda row, trial: others.append(row))
    run_measured(worker, budget_s=60.0)
    finish(worker.study)
    with open(log, "a") as file:
        file.write(f"others {len(others)} {os.getpid()}\n")
        file.write(f"best {worker.search.best()} {os.getpid()}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
