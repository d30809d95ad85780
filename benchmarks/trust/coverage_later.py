"""Do the stated 95 % intervals hold what later runs find? One run of the product, then ten more.

For each measurement of the first run: does [low, high] contain the median of the ten later values (bar: 90 % of the measurements), and
is it no wider than 15 % either side (bar: 90 %)?
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from common import median_of, present, run, say, short, verdict

from advisor.bench.records import BenchSpec

RUN_S = 180.0
BENCHMARKS = ("gemm", "attention", "bandwidth", "launch")
WIDTH_BAR, SHARE_BAR = 0.15, 0.90


def measure(scale: float = 1.0, backends: Sequence[str] | None = None, runs: int = 10) -> dict[str, Any]:
    """Return the share of intervals that hold, and of those narrow enough."""
    spec = BenchSpec(benchmarks=BENCHMARKS, backends=present(backends), quick=True, rounds=3, budget_s=max(6.0, RUN_S * scale))
    first = run(spec, "the run that states intervals")
    later = [run(spec, f"later run {number + 1} of {runs}") for number in range(runs)]
    rows = []
    for name, m in first.items():
        values = [r[name].value for r in later if name in r and r[name].status == "ok" and r[name].value]
        if m.status != "ok" or not m.value or not m.low or not m.high or len(values) < max(1, runs // 2):
            continue
        middle = statistics.median(v for v in values if v)
        width = (m.high - m.low) / 2 / m.value
        row = {"case": short(m), "value": m.value, "low": m.low, "high": m.high, "later": values}
        rows.append({**row, "holds": m.low <= middle <= m.high, "width": width, "off": middle / m.value - 1})
    if not rows:
        return {"met": False, "lines": ["no measurement was good in the first run and half of the later ones"], "rows": []}
    for row in sorted((r for r in rows if not r["holds"]), key=lambda r: -abs(r["off"]))[:10]:
        say(f"missed: {row['case']}: later median {row['off']:+.1%}, interval {row['width']:.1%}")
    held, first_line = verdict("intervals that hold the later median", statistics.fmean(row["holds"] for row in rows), SHARE_BAR)
    narrow, second_line = verdict(
        f"intervals within {WIDTH_BAR:.0%} either side", statistics.fmean(row["width"] <= WIDTH_BAR for row in rows), SHARE_BAR
    )
    rest = f"{len(rows)} measurements of {len(first)}; median width {median_of(r['width'] for r in rows):.1%}"
    return {"met": held and narrow, "lines": [first_line, second_line, rest], "rows": rows}
