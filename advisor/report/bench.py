"""Measurements for people: aligned tables, the best of each dtype first, the roof they make."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from advisor.units import format_rate, format_seconds

Row = Mapping[str, Any]
_HIDDEN = ("threads", "network")
_METRIC = {"FLOP/s": "flops_per_s", "B/s": "bytes_per_s", "s": "seconds", "samples/s": "samples_per_s"}


class ProgressLine:
    """One line on standard error that is rewritten on a terminal, a line a step elsewhere."""

    def __init__(self) -> None:
        self.measured = 0
        self.terminal = sys.stderr.isatty()

    def show(self, progress: Any) -> None:
        """Show where the bench stands."""
        text = f"{progress.done}/{progress.total} {progress.label}; {self.measured} stored, {format_seconds(progress.seconds_left)} left"
        sys.stderr.write(f"\r\x1b[K{text}" if self.terminal else f"{text}\n")
        sys.stderr.flush()

    def count(self, measurement: Any) -> None:
        """Count a measurement that is done."""
        self.measured += 1

    def close(self) -> None:
        """Leave the line clean."""
        if self.terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def value_text(row: Row) -> str:
    """Return a value in the unit people use."""
    if row["value"] is None:
        return "-"
    return format_seconds(row["value"]) if row["metric"] == "seconds" else format_rate(row["value"], row["metric"])


def interval_text(row: Row) -> str:
    """Return the interval of a later run as percent of the value: ``-9 +10 %``."""
    if row["value"] is None or row["low"] is None or row["high"] is None:
        return ""
    return f"{100 * (row['low'] / row['value'] - 1):+.0f} {100 * (row['high'] / row['value'] - 1):+.0f} %"


def shape_text(row: Row) -> str:
    """Return the sizes of a case, short: ``512x4096x4096 constant``, ``triad memory``."""
    p = row["params"]
    if row["benchmark"] == "gemm":
        return f"{p['m']}x{p['n']}x{p['k']} {p.get('weight', '')}".strip()
    if row["benchmark"] == "attention":
        heads = f"{p['heads']}/{p['kv_heads']}" if p["heads"] != p["kv_heads"] else f"{p['heads']}"
        causal = " causal" if p["causal"] else ""
        return f"b{p['batch']} h{heads} q{p['query']} k{p['keys']} d{p['head_dim']}{causal} {p.get('kernel', '')}".strip()
    words = [str(value) for name, value in p.items() if name not in (*_HIDDEN, "bytes") and value != "none"]
    if "network" in p:
        network = p["network"]
        words.insert(0, f"{network['kind']}-{sum(network['blocks']) if 'blocks' in network else network['layers']}")
    return " ".join(words)


def best(rows: Iterable[Row], benchmark: str, **params: Any) -> dict[str, Row]:
    """Return the best measurement of a benchmark by dtype."""
    found: dict[str, Row] = {}
    for row in rows:
        wanted = all(row["params"].get(name) == value for name, value in params.items())
        good = row["benchmark"] == benchmark and row["status"] == "ok" and row["value"] and wanted
        if good and (row["dtype"] not in found or row["value"] > found[row["dtype"]]["value"]):
            found[row["dtype"]] = row
    return found


def roof_lines(rows: Sequence[Row]) -> list[str]:
    """Return the measured roof: best GEMM of each dtype, best bandwidth of each level, and where they meet."""
    lines = []
    gemm = best(rows, "gemm")
    for dtype, row in sorted(gemm.items(), key=lambda item: -item[1]["value"]):
        lines.append(f"  {dtype:5} {value_text(row):>16}  {row['backend']}, {shape_text(row)}")
    memory: Row | None = None
    for level in ("L2", "L3", "memory", "link", "disk"):
        found = best(rows, "bandwidth", level=level)
        if found:
            row = max(found.values(), key=lambda item: item["value"])
            memory = row if level == "memory" else memory
            lines.append(f"  {level:6}{value_text(row):>15}  {row['backend']}, {row['params']['operation']}, {_threads(row)}")
    if memory is not None and "fp32" in gemm:
        ridge = gemm["fp32"]["value"] / memory["value"]
        lines.append(f"  fp32 work under {ridge:.1f} FLOP/byte is bound by memory, above it by arithmetic")
    return lines


def _threads(row: Row) -> str:
    count = row["params"].get("threads", 1)
    return f"{count} thread{'s' if count != 1 else ''}"


def render_measurements(document: dict[str, Any]) -> None:
    """Print the document of ``advisor bench``."""
    from advisor.report.console import console

    out = console()
    rows: list[Row] = document["measurements"]
    ok = [row for row in rows if row["status"] == "ok"]
    out.print(f"{len(ok)} of {len(rows)} measurements are good", style="bold", markup=False)
    for line in others_lines(rows):
        out.print(line, markup=False)
    roof = roof_lines(rows)
    if roof:
        out.print("\nBest of this machine (the roof)", markup=False)
        for line in roof:
            out.print(line, markup=False)
    for benchmark in dict.fromkeys(row["benchmark"] for row in ok):
        out.print(f"\n{benchmark}", style="bold", markup=False)
        for line in table_lines([row for row in ok if row["benchmark"] == benchmark]):
            out.print(line, markup=False)
    for line in trouble_lines(row for row in rows if row["status"] != "ok"):
        out.print(line, markup=False)


def table_lines(rows: Sequence[Row]) -> list[str]:
    """Return aligned lines of measurements, those of one case together, the fastest first."""
    cells = [("case", "dtype", "backend", "threads", "median", "later run")]
    order = {key: i for i, key in enumerate(dict.fromkeys(_case(row) for row in rows))}

    def rank(row: Row) -> tuple[int, float]:
        return order[_case(row)], row["value"] if row["metric"] == "seconds" else -row["value"]

    for row in sorted(rows, key=rank):
        name = (shape_text(row), row["dtype"], row["backend"], str(row["params"].get("threads", "")), value_text(row), interval_text(row))
        cells.append(name)
    return aligned(cells, right=(3, 4))


def aligned(cells: Sequence[Sequence[str]], right: Sequence[int]) -> list[str]:
    """Return lines whose columns are as wide as their widest cell; those numbered in ``right`` end flush."""
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return [
        "  " + "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in cells
    ]


def _case(row: Row) -> tuple[Any, ...]:
    params = {name: value for name, value in row["params"].items() if name not in ("weight", "kernel", "execution", "quantization")}
    return row["dtype"] if row["benchmark"] != "model" else "", repr(sorted(params.items(), key=lambda item: item[0]))


#: Share of the CPUs that others may use before people are told; some per cent are noise of the counter.
_NOTICED = 0.1


def others_lines(rows: Iterable[Row]) -> list[str]:
    """Return a line that says how much others used the CPUs while we measured, none where it was little or is not known."""
    shares = sorted(share for row in rows if (share := (row.get("conditions") or {}).get("foreign_share")) is not None)
    if not shares or shares[len(shares) // 2] < _NOTICED:
        return []
    middle, most = shares[len(shares) // 2], shares[-1]
    return [f"Others used {middle:.0%} of the CPUs meanwhile (at most {most:.0%}): a quiet machine gives narrower intervals."]


def trouble_lines(rows: Iterable[Row]) -> list[str]:
    """Return one line for each backend, status and reason of what was not measured, with how many it concerns."""
    groups: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = (row["backend"], row["status"], row["reason"] or "")
        groups[key] = groups.get(key, 0) + 1
    lines = [f"  {backend}: {status} x{count}: {reason}" for (backend, status, reason), count in groups.items()]
    return ["", "Not measured", *lines] if lines else []


def render_catalogue(document: dict[str, Any]) -> None:
    """Print the document of ``advisor bench --list``."""
    from advisor.report.console import console

    out = console()
    out.print("Benchmarks", style="bold", markup=False)
    for name, item in document["benchmarks"].items():
        out.print(f"  {name:11} {item['unit']:7} {item['title']}", markup=False)
    out.print("\nBackends", style="bold", markup=False)
    for name, item in document["backends"].items():
        state = "installed" if item["present"] else f"in environment {item['managed']}" if item["managed"] else item["missing"]
        kinds = ", ".join(dict.fromkeys(dtype for dtypes in item["dtypes"].values() for dtype in dtypes))
        out.print(f"  {name:14} {kinds:28} {state}", markup=False)


def render_comparison(document: dict[str, Any]) -> None:
    """Print the document of ``advisor bench compare``."""
    from advisor.report.console import console

    out = console()
    counts = document["verdicts"]
    rows = document["comparisons"]
    alone = document["left_out"]
    rest = f"Good in A alone: {alone['a']} cases; in B alone: {alone['b']}."
    if not rows:
        out.print(f"No case was measured well in both. {rest}", style="bold", markup=False)
        return
    out.print(
        f"B is faster in {counts['faster']}, slower in {counts['slower']}, the same in {counts['same']} of {len(rows)} cases",
        style="bold",
        markup=False,
    )
    out.print(f"A: {document['a']}   B: {document['b']}   {rest}", markup=False)
    for line in comparison_lines(rows):
        out.print(line, markup=False)


def comparison_lines(rows: Sequence[Row]) -> list[str]:
    """Return aligned lines, what differs first and furthest apart on top: case, both values, speed of B over A, its interval, verdict."""
    cells = [("case", "dtype", "backend", "threads", "A", "B", "B over A", "95 %", "")]

    def rank(row: Row) -> tuple[bool, float]:
        return row["verdict"] == "same", -abs(math.log(row["ratio"]))

    for row in sorted(rows, key=rank):
        ends = [value_text({**row, "value": row[side], "metric": _METRIC[row["unit"]]}) for side in "ab"]
        case = f"{row['benchmark']} {shape_text(row)}"
        threads = str(row["params"].get("threads", ""))
        spread = f"{row['low']:.2f} to {row['high']:.2f}"
        cells.append((case, row["dtype"], row["backend"], threads, *ends, f"{row['ratio']:.2f}x", spread, row["verdict"]))
    return aligned(cells, right=(3, 4, 5, 6))
