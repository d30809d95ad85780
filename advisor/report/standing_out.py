"""Outliers and regressions as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.report.results import print_lines, render_table, value_text, what


def render_standing_out(document: Mapping[str, Any]) -> None:
    """Print what stands out, the worst first."""
    rows = document["rows"]
    if not rows:
        print_lines(document["hint"])
        return
    are_outliers = "robust_z" in document["columns"]
    many = "" if len(rows) == 1 else "s"
    if are_outliers:
        print_lines(f"{len(rows)} outlier{many} against the median of the same product doing the same, the farthest first")
    else:
        print_lines(f"{len(rows)} regression{many} of a version against the one before it, the worst first")
    last = ("value", "median", "of", "robust z") if are_outliers else ("versions", "before", "after", "more time")
    head = ("device", "machine", "benchmark", "backend", "dtype", "what", *last, "measurement")
    render_table(head, [(*_common(row), *(_outlier(row) if are_outliers else _regression(row)), row["id"][:13]) for row in rows])
    if document["truncated"]:
        print_lines("(there are more: raise --limit)")


def _common(row: Mapping[str, Any]) -> tuple[str, ...]:
    same = (row["device"], (row["machine"] or "")[:12], row["benchmark"], row["backend"], row["dtype"])
    return (*same, what(row["params"]))


def _outlier(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (value_text(row["value"], row), value_text(row["median"], row), str(row["count"]), f"{row['robust_z']:+.1f}")


def _regression(row: Mapping[str, Any]) -> tuple[str, ...]:
    versions = f"{row['from_version']} to {row['to_version']}"
    return (versions, value_text(row["before"], row), value_text(row["after"], row), f"{row['worse_pct']:.1f} %")
