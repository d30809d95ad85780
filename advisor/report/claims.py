"""Claims and verdicts for people: a verdict first, the measured number beside the claimed one, what it means."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from advisor.units import format_quantity

Row = Mapping[str, Any]
STYLES = {"confirmed": "green", "refuted": "red", "depends": "yellow", "inconclusive": "yellow", "not_testable": "dim", "ill_posed": "dim"}
_SIGN = {"at_least": "at least", "at_most": "at most", "about": "about"}


def claimed_text(claim: Row) -> str:
    """Return the claimed number: ``2.00x to 3.00x``."""
    low, high = format_quantity(claim["low"], claim["unit"]), format_quantity(claim["high"], claim["unit"])
    return low if low == high else f"{low} to {high}"


def found_text(result: Row, unit: str) -> str:
    """Return the number found with its interval."""
    if result.get("value") is None:
        return "-"
    low, high = result["interval"] if result.get("interval") else (result["low"], result["high"])
    return f"{format_quantity(result['value'], unit)} ({format_quantity(low, unit)} to {format_quantity(high, unit)})"


def say(text: str) -> None:
    """Show on standard error where the run stands."""
    terminal = sys.stderr.isatty()
    sys.stderr.write(f"\r\x1b[K{text}" if terminal else f"{text}\n")
    sys.stderr.flush()


def say_result(result: Row) -> None:
    """Leave a line for a claim that is answered."""
    terminal = sys.stderr.isatty()
    line = f"{result['id']}: {result['verdict']} ({result['basis']}), {found_text(result, result['claim']['unit'])}"
    sys.stderr.write(f"\r\x1b[K{line}\n" if terminal else f"{line}\n")
    sys.stderr.flush()


def render_list(document: dict[str, Any]) -> None:
    """Print the document of ``advisor claims list``."""
    from advisor.report.console import console

    out = console()
    rows = document["claims"]
    answered = sum(row["verdict"] is not None for row in rows)
    out.print(f"{len(rows)} claims, {answered} answered on this machine", style="bold", markup=False)
    width = max(len(row["id"]) for row in rows)
    for row in rows:
        verdict = row["verdict"] or "not run"
        basis = f" ({row['basis']})" if row["basis"] not in (None, "none") else ""
        numbers = f"claimed {claimed_text(row)}" + (f", found {found_text(row, row['unit'])}" if row["value"] is not None else "")
        out.print(f"{row['id']:{width}}  {verdict + basis:24} {numbers}", style=STYLES.get(verdict, ""), markup=False)
        out.print(f"{'':{width}}  {row['statement']}", style="dim", markup=False)


def render_show(document: dict[str, Any]) -> None:
    """Print the document of ``advisor claims show``."""
    from advisor.report.console import console

    out = console()
    claim, result = document["claim"], document["result"]
    if result is not None:
        _result(out, result)
    else:
        out.print("not run on this machine yet", style="bold", markup=False)
    out.print(f"\n{claim['statement']}", markup=False)
    out.print(
        f"  claimed    {claim['metric']} {_SIGN[claim['holds']]} {claimed_text(claim)}, tolerance {claim['tolerance']:.0%}", markup=False
    )
    for name in ("conditions", "source", "premise", "why", "needs"):
        if claim[name]:
            out.print(f"  {name:10} {claim[name]}", markup=False)
    for test in claim["tests"]:
        differs = f"; {test['differs']}" if test["differs"] else ""
        out.print(f"  test       {test['experiment']}{differs}", markup=False)
    if result is None:
        out.print(f"\nadvisor claims run {claim['id']}", markup=False)


def render_run(document: dict[str, Any]) -> None:
    """Print the document of ``advisor claims run``: one page that somebody else can read."""
    from advisor.report.console import console

    out = console()
    results = document["results"]
    counts = [f"{count} {name}" for name, count in document["counts"]["verdict"].items() if count]
    bases = [f"{count} {name}" for name, count in document["counts"]["basis"].items() if count and name != "none"]
    out.print(f"{len(results)} claims: {', '.join(counts) or 'none answered'}", style="bold", markup=False)
    if bases:
        out.print(f"by what: {', '.join(bases)}; {document['seconds']:.0f} s", markup=False)
    for result in results:
        out.print("", markup=False)
        _result(out, result)
    if document["left"]:
        out.print(f"\nleft for the next run (the budget ended): {', '.join(document['left'])}", markup=False)
    if document.get("page"):
        out.print(f"\none page for others: {document['page']}", markup=False)


def _result(out: Any, result: Row) -> None:
    claim = result["claim"]
    basis = f", {result['basis']}" if result["basis"] != "none" else ""
    out.print(f"{result['verdict']}{basis}  {claim['id']}", style=STYLES.get(result["verdict"], ""), markup=False)
    out.print(f"  {claim['statement']}", markup=False)
    out.print(f"  claimed {claimed_text(claim)}, found {found_text(result, claim['unit'])}", markup=False)
    out.print(f"  {result['reason']}", markup=False)
    for finding in result["findings"]:
        if finding["settings"] and finding["basis"] != result["basis"]:
            middle = sorted(finding["settings"], key=lambda s: s["value"])[(len(finding["settings"]) - 1) // 2]
            out.print(
                f"  also {finding['basis']}: {finding['verdict']}, {middle['label']} {found_text(middle, claim['unit'])}", markup=False
            )
        cited = [name for setting in finding["settings"] for name in setting["evidence"]] if finding["basis"] == "published" else []
        if cited:
            out.print(f"  rows {', '.join(cited[:6])}{f' and {len(cited) - 6} more' if len(cited) > 6 else ''}", style="dim", markup=False)
    out.print(f"  {result['meaning']}", markup=False)


def render_prepare(document: dict[str, Any]) -> None:
    """Print the document of ``advisor claims prepare``."""
    from advisor.report.console import console

    out = console()
    rows = document["environments"]
    there = sum(row["state"] in ("ready", "here") for row in rows)
    out.print(f"{there} of {len(rows)} environments are there; {document['seconds']:.0f} s", style="bold", markup=False)
    for row in rows:
        style = "" if row["state"] in ("ready", "here") else "yellow"
        out.print(f"  {row['name']:12} {row['state']:8} {row['seconds']:5.0f} s  {row['for']}", style=style, markup=False)
        if row["state"] not in ("ready", "here"):
            out.print(f"  {'':12} pip install {' '.join(row['packages'])}", style="dim", markup=False)
        if row["reason"]:
            out.print(f"  {'':12} {row['reason']}", style=style, markup=False)
    for row in document["kept"]:
        text = f"lacks: {row['lacks']}" if row["lacks"] else "exports and tunings are kept"
        out.print(f"  {row['claim']}: {text} ({row['seconds']:.0f} s)", markup=False)


def render_page(document: dict[str, Any]) -> None:
    """Print the document of ``advisor claims report``: where the page was written, or the page in Markdown."""
    from advisor.report.claims_page import claims_markdown, headline
    from advisor.report.console import console

    if document.get("file"):
        console().print(f"{headline(document)}\n{document['file']}: {document['size_bytes'] / 1024:.0f} KiB", markup=False)
    else:
        print(claims_markdown(document))
