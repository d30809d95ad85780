"""Predict every measured network from the kernels in the same database alone, and score the predictions."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from advisor.cost.price import price
from advisor.plan.records import Plan, Workload
from advisor.plan.table import PlanTable
from advisor.results.store import Store
from advisor.usecases.calibration import load_calibration
from advisor.usecases.platforms import local_hardware
from benchmarks.cpu_truth.cases import described
from benchmarks.cpu_truth.measure import url_of

#: Pairs whose measured times differ by less are no test of a ranking.
APART = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One network: seconds measured and predicted, and the parts of the prediction."""

    model: str
    mode: str
    framework: str
    execution: str
    quantization: str
    batch: int
    seq: int
    measured_s: float
    predicted_s: float
    parts: Mapping[str, float]

    @property
    def error(self) -> float:
        """Relative error of the predicted time."""
        return self.predicted_s / self.measured_s - 1.0


def compared(database: Path) -> list[Compared]:
    """Return every network of the newest run beside its prediction."""
    platform = local_hardware(url_of(database)).platform
    calibration = load_calibration()
    with Store.open(url_of(database)) as store:
        rows = store.measurements(benchmark="model", status="ok", latest=True, limit=10_000)
    return [_compare(row, platform, calibration) for row in rows]


def _compare(row: Mapping[str, Any], platform: Any, calibration: Any) -> Compared:
    params = row["params"]
    network = described(params["network"])
    training = params["mode"] == "train"
    seq = int(params.get("seq") or network.default_seq)
    batch = int(params["batch"])
    workload = Workload(task="train" if training else "infer", seq_len=seq, global_batch=batch)
    plan = Plan(
        framework=row["backend"],
        execution=params.get("execution") or "eager",
        precision=row["dtype"],
        quantization=params.get("quantization", "none"),
        micro_batch=batch,
        global_batch=batch,
        optimizer="adamw" if training else "none",
        recompute="none",
        threads=int(params["threads"]),
    )
    table = price(network, workload, platform, PlanTable.of([plan]), calibration)
    return Compared(
        model=network.name,
        mode=params["mode"],
        framework=row["backend"],
        execution=plan.execution,
        quantization=plan.quantization,
        batch=batch,
        seq=seq,
        measured_s=float(row["value"]),
        predicted_s=float(table.time_s[0]),
        parts={name: float(seconds[0]) for name, seconds in table.time_parts.items()},
    )


def pairs_right(rows: Sequence[Compared]) -> tuple[int, int]:
    """Return how many pairs that answer one question (same network, mode and length) are told apart rightly, and how many there are.

    The measure is seconds a sample, as a choice of framework, execution and batch would be made.
    """
    groups: dict[tuple[str, str, int], list[Compared]] = defaultdict(list)
    for row in rows:
        groups[row.model, row.mode, row.seq].append(row)
    right = total = 0
    for members in groups.values():
        for a, b in combinations(members, 2):
            measured = (a.measured_s / a.batch) / (b.measured_s / b.batch)
            predicted = (a.predicted_s / a.batch) / (b.predicted_s / b.batch)
            if max(measured, 1.0 / measured) > APART:
                total += 1
                right += (measured > 1.0) == (predicted > 1.0)
    return right, total


def lines(rows: Sequence[Compared], *, every: bool = False) -> Iterator[str]:
    """Yield the table of errors by framework, network and mode, and the two numbers that count."""
    groups: dict[tuple[str, ...], list[Compared]] = defaultdict(list)
    for row in rows:
        groups[row.framework, row.execution, row.model, row.mode, row.quantization].append(row)
    yield "| framework | execution | network | mode | quantization | n | median error | bias |"
    yield "|---|---|---|---|---|---:|---:|---:|"
    for key, members in sorted(groups.items()):
        errors = [100.0 * m.error for m in members]
        yield f"| {' | '.join(key)} | {len(members)} | {_middle(abs(e) for e in errors):.0f} % | {_middle(errors):+.0f} % |"
        if every:
            for m in sorted(members, key=lambda m: (m.seq, m.batch)):
                parts = ", ".join(f"{name} {1e3 * s:.2f}" for name, s in m.parts.items() if s > 0)
                yield f"    batch {m.batch} x {m.seq}: {1e3 * m.measured_s:.2f} ms, predicted {1e3 * m.predicted_s:.2f} ({parts})"
    right, total = pairs_right(rows)
    yield ""
    yield f"networks: {len(rows)}, median error {_middle(abs(100.0 * r.error) for r in rows):.1f} % (bar 15)"
    share = 100 * right / max(total, 1)
    yield f"pairs that differ by more than {100 * (APART - 1):.0f} %: {right} of {total} ranked right, {share:.0f} % (bar 90)"


def _middle(values: Any) -> float:
    found = list(values)
    return statistics.median(found) if found else float("nan")
