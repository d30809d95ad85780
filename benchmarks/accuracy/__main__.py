"""The accuracy of training predictions per group, before and after a change to the cost model.

    python benchmarks/accuracy                 print the table beside the stored one
    python benchmarks/accuracy --save          store this table as the one to compare with
    python benchmarks/accuracy --docs          also write docs/explanation/accuracy.md and parameters.md

"fitted": every row predicted with the shipped parameters; "left out": each group predicted from a fit that never saw it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from advisor.usecases.calibrate import calibrate
from advisor.usecases.calibration import load_calibration
from advisor.usecases.validate import validate

HERE = Path(__file__).resolve().parent
STORED = HERE / "stored.json"
DOCS = HERE.parent.parent / "docs" / "explanation"


def measure() -> dict[str, Any]:
    """Return {fitted, left_out}: validate's documents."""
    return {"fitted": validate(None, "training"), "left_out": calibrate(leave_out="group")}


def summary(document: dict[str, Any]) -> dict[str, float]:
    """Return the numbers that the project's bars are about."""
    overall, by = document["overall"], document["by"]
    return {
        "median": overall["median_abs_pct_error"],
        "median of group medians": statistics.median(line["median_abs_pct_error"] for line in by.values()),
        "p90": overall["p90_abs_pct_error"],
        "80 % interval holds": 100 * overall["coverage_80"],
        "memory median": document["memory"]["overall"]["median_abs_pct_error"],
    }


def table(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Return the lines of a Markdown table, one a group; values before the change in brackets."""
    lines = ["| group | rows | fitted | left out | bias left out | p90 left out |", "|---|---:|---:|---:|---:|---:|"]
    for name, line in now["fitted"]["by"].items():
        unseen = now["left_out"]["by"].get(name, line)
        old = {kind: before.get(kind, {}).get("by", {}).get(name) for kind in ("fitted", "left_out")}
        cells = [
            name,
            str(line["n"]),
            _cell(line["median_abs_pct_error"], old["fitted"], "median_abs_pct_error"),
            _cell(unseen["median_abs_pct_error"], old["left_out"], "median_abs_pct_error"),
            f"{unseen['median_pct_error']:+.1f} %",
            _cell(unseen["p90_abs_pct_error"], old["left_out"], "p90_abs_pct_error"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cell(value: float, old: dict[str, Any] | None, key: str) -> str:
    return f"{value:.1f} %" + (f" ({old[key]:.1f})" if old else "")


def _sums(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    lines = []
    for kind in ("fitted", "left_out"):
        old = summary(before[kind]) if kind in before else {}
        words = [f"{name} {value:.1f} %" + (f" ({old[name]:.1f})" if name in old else "") for name, value in summary(now[kind]).items()]
        lines.append(f"{kind.replace('_', ' ')}: " + ", ".join(words))
    for name, line in now["fitted"]["ranking"]["by"].items():
        lines.append(f"ranking {name}: tau {line['kendall_tau_median']:.2f}, regret {100 * line['top1_regret_mean']:.1f} % mean")
    oom = now["fitted"]["oom"]
    lines.append(f"out of memory: {oom['caught']} of {oom['true_oom']} caught, {oom['false_alarms']} false alarms in {oom['fits']}")
    return lines


def parameters_page() -> list[str]:
    """Return docs/explanation/parameters.md."""
    lines = [
        "# Parameters of the training model",
        "",
        "Written by `python benchmarks/accuracy --docs`; values from `db/calibration/training.json`.",
        "",
    ]
    lines += ["| parameter | meaning | unit | prior | value | spread |", "|---|---|---|---:|---:|---:|"]
    for name, p in sorted(load_calibration().parameters.items()):
        spread = "-" if p.spread is None else f"{100 * p.spread:.0f} %"
        lines.append(f"| `{name}` | {p.meaning} ({p.source}) | {p.unit} | {p.prior:.3g} | {p.value:.3g} | {spread} |")
    return [*lines, ""]


def main() -> None:
    """Print, and store or document if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="store this table as the one to compare with")
    parser.add_argument("--docs", action="store_true", help="write docs/explanation/accuracy.md and parameters.md")
    options = parser.parse_args()
    before = json.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else {}
    now = measure()
    print("\n".join([*table(now, before), "", *_sums(now, before)]))
    if options.save:
        kept = {kind: {key: document[key] for key in ("overall", "by", "memory")} for kind, document in now.items()}
        STORED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if options.docs:
        page = [
            "# Accuracy of training predictions",
            "",
            "Written by `python benchmarks/accuracy --docs`. Errors are percent of the step time.",
            "",
        ]
        (DOCS / "accuracy.md").write_text(
            "\n".join([*page, *table(now, {}), "", *[f"* {s}" for s in _sums(now, {})], ""]), encoding="utf-8"
        )
        (DOCS / "parameters.md").write_text("\n".join(parameters_page()), encoding="utf-8")


if __name__ == "__main__":
    main()
