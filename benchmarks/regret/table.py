"""The judge: every plan of a table really run, one process each; a table that was cut short goes on where it ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from advisor.plan.records import Plan
from advisor.trial.run import run_once, trial_of
from advisor.usecases.question import Question, resolve
from benchmarks.regret.tasks import Task, key, plans

#: Seconds of measuring for a plan, once its network is ready.
BUDGET_S = 6.0


def read(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a file of JSON lines; what a kill cut short is left out."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def append(path: Path, document: dict[str, Any]) -> None:
    """Add one line."""
    with path.open("a") as file:
        file.write(json.dumps(document) + "\n")


def measured_table(task: Task, path: Path, batches: tuple[int, ...], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measure what is not yet in the table at ``path``, and return all of it, best first (failed plans last)."""
    question, done = resolve(task.request), {tuple(row["key"]) for row in read(path)}
    todo = [plan for plan in plans(task, batches) if key(plan) not in done]
    for number, plan in enumerate(todo, 1):
        row = measure(question, plan)
        append(path, row)
        told = f"{row['seconds']:.4g} s" if row["seconds"] else f"{row['status']}: {row['reason']}"
        say(f"{task.name} {number}/{len(todo)} {' '.join(map(str, key(plan)))}: {told}")
    return sorted(read(path), key=lambda row: score(task, row))


def measure(question: Question, plan: Plan, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """Run ``plan`` in one fresh process and return a row of the table."""
    start = time.monotonic()
    line = run_once(question.model, question.workload, plan, budget_s=budget_s)
    spent = time.monotonic() - start
    trial = trial_of(plan, "", [line], "cpu0", spent)
    return {
        "key": list(key(plan)), "plan": plan.to_dict(), "status": trial.status, "reason": trial.reason,
        "seconds": trial.seconds, "spent_s": spent,
    }  # fmt: skip


def score(task: Task, row: dict[str, Any]) -> float:
    """Return what is minimised: seconds of a batch or of a sample; infinite for a plan that gave none."""
    if not row["seconds"]:
        return float("inf")
    return float(row["seconds"]) if task.latency else float(row["seconds"]) / row["plan"]["global_batch"]
