"""An explanation as people read it: the answer, then the arithmetic with its numbers."""

from __future__ import annotations

from typing import Any

from advisor.report.console import console
from advisor.report.recommend import interval_text, plan_text, print_formulas, print_parts, print_reasons
from advisor.units import format_bytes, format_seconds


def render_explanation(document: dict[str, Any]) -> None:
    """Print the document of ``advisor explain``."""
    from rich.markup import escape

    out = console()
    estimate = document["estimate"]
    model, hardware = escape(document["model"]["name"]), escape(document["hardware"]["name"])
    out.print(f"[bold]{escape(document['plan_id'])}[/]: {escape(document['task'])} {model} on {hardware}")
    out.print(f"  {'plan':<8} {escape(plan_text(document['plan']))}")
    out.print(f"  {'time':<8} {interval_text(estimate['step_time_s'] or estimate['latency_s'], format_seconds)}")
    out.print(f"  {'memory':<8} {interval_text(estimate['memory_bytes_per_device'], format_bytes)} per device")
    print_parts(out, "time", estimate["time_parts_s"], format_seconds)
    print_parts(out, "memory", estimate["memory_parts_bytes"], format_bytes)
    if document["loses"]:
        out.print(f"  not the answer: {escape(document['loses'])}")
    for line in document["counterfactuals"]:
        out.print(f"  {'what if':<8} {escape(line)}")
    if document["counterfactuals_reason"]:
        out.print(f"  {'what if':<8} {escape(document['counterfactuals_reason'])}")
    print_reasons(out, [reason for reason in document["why"] if reason["code"] != "COUNTERFACTUAL"])
    print_formulas(out, document["formulas"])
