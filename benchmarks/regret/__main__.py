"""How far is the recommended plan from the best one that can be measured here? An exhaustive measured table is the judge.

    python benchmarks/regret                           all five tasks, four hours on two cores
    python benchmarks/regret --task bert-base-latency  one of them
    python benchmarks/regret --tiny                    two tasks of a few minutes, to try the benchmark itself

First `advisor bench --quick` fills a database of its own. For each task: the table (framework x execution x precision x batch x threads),
the recommendation from bench data alone, the one with `--measure` in a tenth of the table's time, and each against the table's best in nine
interleaved pairs of fresh processes. Killed, it goes on where it ended (``--folder``). Frameworks are those of this environment and of
`advisor env` (ADVISOR_HOME); with fewer than six it says so. Exits 1 where a bar is missed. The machine must be quiet.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

# So that `python benchmarks/regret` finds its own package beside the product.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from advisor.plan.records import Plan
from advisor.usecases.bench import bench
from advisor.usecases.measure import recommend_measured
from advisor.usecases.recommend import recommend
from benchmarks.regret.pairs import PAIRS, Ratio, compared
from benchmarks.regret.table import measured_table
from benchmarks.regret.tasks import BATCHES, Task, tasks, tiny

ROOT = Path(__file__).resolve().parent.parent.parent
#: Median and lower bound with trials, median from bench data alone, share of the table's time, trials, frameworks.
MEASURED, MEASURED_LOW, PREDICTED, SHARE, TRIALS, FRAMEWORKS = 1.10, 1.05, 1.20, 0.10, 60, 6


def say(text: str) -> None:
    """Tell progress."""
    print(text, file=sys.stderr, flush=True)


def kept(path: Path, make: Any) -> dict[str, Any]:
    """Return the document at ``path``, made by ``make`` where it is not there yet."""
    if not path.exists():
        document = make()
        path.write_text(json.dumps(document))
    return dict(json.loads(path.read_text()))


def judged(task: Task, folder: Path, batches: tuple[int, ...], pairs: int) -> dict[str, Any]:
    """Measure one task and return its row of the result."""
    url = f"sqlite:///{folder / 'regret.db'}"
    predicted = kept(folder / f"{task.name}.predicted.json", lambda: _answer(recommend(task.request, database_url=url, save=False)))
    table = measured_table(task, folder / f"{task.name}.table.jsonl", batches, say)
    table_s = sum(row["spent_s"] for row in table)
    budget = SHARE * table_s
    measured = kept(
        folder / f"{task.name}.measured.json",
        lambda: _answer(recommend_measured(task.request, database_url=url, budget_s=budget, progress=say)),
    )
    best = Plan(**table[0]["plan"])
    found = {
        kind: compared(task, Plan(**answer["plan"]), best, folder / f"{task.name}.pairs.jsonl", say, pairs)
        for kind, answer in (("measured", measured), ("predicted", predicted))
    }
    return {
        "task": task.name,
        "plans": len(table),
        "failed": sum(row["seconds"] is None for row in table),
        "frameworks": len({row["plan"]["framework"] for row in table if row["seconds"]}),
        "table_s": table_s,
        "share": measured["seconds"] / table_s,
        "trials": measured["trials"],
        "best": table[0]["key"],
        "measured": found["measured"],
        "predicted": found["predicted"],
    }


def _answer(answer: Any) -> dict[str, Any]:
    return {
        "plan": answer.recommendation.plan.to_dict(),
        "seconds": answer.search.seconds,
        "trials": answer.search.details.get("runs", 0),
    }


def missed(row: dict[str, Any]) -> list[str]:
    """Return the bars that a row misses."""
    measured, predicted = row["measured"], row["predicted"]
    bars = {
        f"measured median {measured.median:.3f} > {MEASURED}": measured.median > MEASURED,
        f"measured lower bound {measured.low:.3f} > {MEASURED_LOW}": measured.low > MEASURED_LOW,
        f"predicted median {predicted.median:.3f} > {PREDICTED}": predicted.median > PREDICTED,
        f"{100 * row['share']:.0f} % of the table's time": row["share"] > 1.1 * SHARE,
        f"{row['trials']} trials": row["trials"] > TRIALS,
        # A training step runs in fewer frameworks than a forward pass does.
        f"{row['frameworks']} frameworks only": row["frameworks"] < FRAMEWORKS and not row["task"].endswith("train"),
    }
    return [text for text, broken in bars.items() if broken]


def line(row: dict[str, Any]) -> str:
    """Return one row of the printed table."""

    def told(ratio: Ratio) -> str:
        return f"{ratio.median:6.3f} [{ratio.low:.3f}]"

    return (
        f"{row['task']:<22} {row['plans']:>5} {row['frameworks']:>4} {row['table_s'] / 60:>6.1f} {100 * row['share']:>6.1f} "
        f"{row['trials']:>6} {told(row['measured']):>15} {told(row['predicted']):>15}  {' '.join(map(str, row['best']))}"
    )


def main() -> int:
    """Run what was asked for; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "regret", help="where everything measured is kept")
    parser.add_argument("--task", action="append", help="one of the tasks (may be repeated)")
    parser.add_argument("--tiny", action="store_true", help="two tasks of a few minutes")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of fresh processes  [default: {PAIRS}]")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = (tiny if options.tiny else tasks)(options.folder)
    chosen = [task for task in chosen if options.task is None or task.name in options.task]
    database = options.folder / "regret.db"
    kept(options.folder / "bench.json", lambda: _bench(f"sqlite:///{database}", 60.0 if options.tiny else 600.0))
    print(
        f"{'task':<22} {'plans':>5} {'fw':>4} {'min':>6} {'% time':>6} {'trials':>6} {'measured':>15} {'predicted':>15}  best of the table"
    )
    bad = 0
    for task in chosen:
        row = judged(task, options.folder, (1, 8) if options.tiny else BATCHES, options.pairs)
        print(line(row), flush=True)
        for text in missed(row):
            bad += 1
            print(f"    missed: {text}")
    return 1 if bad else 0


def _bench(url: str, budget_s: float) -> dict[str, Any]:
    found = bench(["gemm", "attention", "bandwidth"], quick=True, budget_s=budget_s, database_url=url)
    return {"measurements": len(found)}


if __name__ == "__main__":
    sys.exit(main())
