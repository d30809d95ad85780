"""The accuracy of predictions as tables for people."""

from __future__ import annotations

from typing import Any

from advisor.report.console import console

Document = dict[str, Any]


def render_validation(document: Document) -> None:
    """Print validate's document."""
    if "kinds" in document:
        for part in document["kinds"].values():
            render_validation(part)
        return
    from rich.table import Table

    out = console()
    overall = document["overall"]
    verdict = (
        f"median error {_percent(overall['median_abs_pct_error'])} over {overall['n']:,} rows" if overall["n"] else "no row could be scored"
    )
    out.print(f"[bold]{document['kind']}[/bold]: {verdict}; {document['scored']:,} of {document['rows']:,} rows scored")
    table = Table(box=None, pad_edge=False)
    table.add_column("stratum")
    for title in ("rows", "median", "bias", "p90", "in 80 % interval"):
        table.add_column(title, justify="right")
    for name, line in [*document["by"].items(), ("all", overall), ("layout assumed", document["assumed"])]:
        if line["n"]:
            table.add_row(name, *_line(line))
    out.print(table)
    _memory(out, document)
    _ranking(out, document)
    for reason, count in document["skipped"].items():
        out.print(f"  skipped {count:5,}: {reason}")
    out.print()


def _line(line: Document) -> tuple[str, ...]:
    coverage = line.get("coverage_80")
    return (
        f"{line['n']:,}",
        _percent(line["median_abs_pct_error"]),
        f"{line['median_pct_error']:+.1f} %",
        _percent(line["p90_abs_pct_error"]),
        "-" if coverage is None else f"{100 * coverage:.0f} %",
    )


def _memory(out: Any, document: Document) -> None:
    memory, oom = document["memory"], document["oom"]
    if memory["overall"]["n"]:
        kinds = ", ".join(f"{kind} {_percent(line['median_abs_pct_error'])} of {line['n']}" for kind, line in memory["by"].items())
        out.print(
            f"memory: median error {_percent(memory['overall']['median_abs_pct_error'])} over {memory['overall']['n']} rows ({kinds})"
        )
    if oom["true_oom"]:
        out.print(
            f"out of memory: {oom['caught']} of {oom['true_oom']} caught, {oom['false_alarms']} false alarms in {oom['fits']:,} that ran"
        )


def _ranking(out: Any, document: Document) -> None:
    ranking = document["ranking"]
    for name, line in ranking["by"].items():
        if line["families"]:
            out.print(
                f"ranking {name}: {line['families']} families, Kendall tau {line['kendall_tau_median']:.2f}, "
                f"regret of the first choice {100 * line['top1_regret_mean']:.1f} % mean, {100 * line['top1_regret_p90']:.1f} % p90"
            )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} %"


def render_calibration(document: Document) -> None:
    """Print what a calibration found: each parameter's value and spread, then the scores."""
    from rich.table import Table

    out = console()
    table = Table(box=None, pad_edge=False)
    for title, side in (("parameter", "left"), ("prior", "right"), ("value", "right"), ("spread", "right"), ("unit", "left")):
        table.add_column(title, justify=side)  # type: ignore[arg-type]
    for name, line in document.get("parameters", {}).items():
        spread = line.get("spread")
        table.add_row(
            name, f"{line['prior']:.4g}", f"{line['value']:.4g}", "-" if spread is None else f"{100 * spread:.0f} %", line["unit"]
        )
    if table.row_count:
        out.print(table)
    if document.get("written"):
        out.print(f"written to {document['written']}")
    if "overall" in document or "kinds" in document:
        render_validation(document)
