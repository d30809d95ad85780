"""Estimates, sweeps and comparisons as people read them."""

from __future__ import annotations

from typing import Any

from advisor.report.console import console
from advisor.report.recommend import interval_text, plan_text, print_parts, print_reasons
from advisor.units import GIB, format_bytes, format_rate, format_seconds


def _time(estimate: dict[str, Any]) -> dict[str, float] | None:
    value: dict[str, float] | None = estimate["step_time_s"] or estimate["latency_s"]
    return value


def render_estimate(document: dict[str, Any]) -> None:
    """Print one plan's estimate."""
    from rich.markup import escape

    out = console()
    estimate = document["estimate"]
    memory = estimate["memory_bytes_per_device"]
    verdict = "fits" if estimate["fits"] else "does not fit"
    need = f"{format_bytes(memory['value'])} per device" if memory else "memory unknown"
    style = "bold green" if estimate["fits"] else "bold red"
    limit = document["hardware"].get("memory_bytes")
    of = f" of {format_bytes(limit)}" if limit else ""
    out.print(f"[{style}]{escape(document['model']['name'])} {verdict} {escape(document['hardware']['name'])}: {need}{of}[/]")
    out.print(f"  {'plan':<11} {escape(plan_text(document['plan']))}")
    out.print(f"  {'time':<11} {interval_text(_time(estimate), format_seconds)}")
    if estimate["throughput"] is not None:
        out.print(f"  {'throughput':<11} {interval_text(estimate['throughput'], lambda v: format_rate(v, estimate['throughput_unit']))}")
    if estimate["mfu"] is not None:
        out.print(f"  {'MFU':<11} {100 * estimate['mfu']['value']:.1f} % of the dense peak")
    print_parts(out, "time", estimate["time_parts_s"], format_seconds)
    print_parts(out, "memory", estimate["memory_parts_bytes"], format_bytes)
    print_reasons(out, document["why"])
    if document["assumed"]:
        out.print(f"[dim]assumed: {escape(', '.join(f'{k} {v}' for k, v in document['assumed'].items()))}[/]")
    for note in document["notes"]:
        out.print(f"note: {escape(note)}")


def _table(title: str, *columns: str) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", title=title, title_justify="left", title_style="bold")
    for name in columns:
        table.add_column(name, justify="left" if name in ("plan", "hardware", "") else "right", overflow="fold")
    return table


def _row(estimate: dict[str, Any]) -> tuple[str, str, str]:
    time, memory, rate = _time(estimate), estimate["memory_bytes_per_device"], estimate["throughput"]
    return (
        format_seconds(time["value"]) if time else "?",
        format_rate(rate["value"], estimate["throughput_unit"]) if rate else "?",
        f"{memory['value'] / GIB:.1f}" if memory else "?",
    )


def render_sweep(document: dict[str, Any]) -> None:
    """Print one knob over its range."""
    out = console()
    param, best = document["param"], document["best"]
    head = f"best {param}: {best}" if best is not None else f"no value of {param} fits"
    out.print(f"[bold]{head}[/] for {document['model']['name']} on {document['hardware']['name']}")
    table = _table("", param, "time", "throughput", "GiB/device", "", "plan")
    for point in document["points"]:
        mark = "best" if point["value"] == best else "" if point["estimate"]["fits"] else "does not fit"
        table.add_row(str(point["value"]), *_row(point["estimate"]), mark, plan_text(point["plan"]))
    out.print(table)


def render_comparison(document: dict[str, Any]) -> None:
    """Print several kinds of hardware side by side."""
    out = console()
    best = document["best"]
    out.print(f"[bold]{'best by ' + document['objective'] + ': ' + best if best else 'it fits none of them'}[/]")
    table = _table("", "hardware", "time", "throughput", "GiB/device", "against the best", "bound by", "USD/M", "plan")
    for row in document["ranking"]:
        if not row["feasible"]:
            table.add_row(row["hardware"], "", "", "", "does not fit", "", "", "")
            continue
        ratio = row["ratio"]
        table.add_row(
            row["hardware"],
            *_row(row["estimate"]),
            "" if ratio is None or ratio <= 1 else f"{100 * (ratio - 1):+.0f} %",
            row["bound"].replace("_", " "),
            "" if row["usd_per_unit"] is None else f"{row['usd_per_unit']:.3g}" + (" *" if row["pareto"] else ""),
            plan_text(row["plan"]),
        )
    out.print(table)
    if any(row.get("usd_per_unit") is not None for row in document["ranking"]):
        out.print("[dim]USD/M: price of a million units of throughput; * nothing else is both faster and cheaper[/]")
    out.print(f"[dim]{document['note']}[/]")


def render_fit(document: dict[str, Any]) -> None:
    """Print the smallest hardware that does it."""
    out = console()
    smallest = document["smallest"]
    task, name = document["task"], document["model"]["name"]
    out.print(f"[bold]{f'smallest for {task} {name}: {smallest}' if smallest else f'nothing in the list does {task} of {name}'}[/]")
    table = _table("", "hardware", "time", "throughput", "GiB/device", "plan")
    for row in document["nearest"]:
        table.add_row(row["hardware"], *_row(row["estimate"]), plan_text(row["plan"]))
    out.print(table)
    if document["refused"]:
        out.print(f"not with any count: {', '.join(document['refused'])}")
