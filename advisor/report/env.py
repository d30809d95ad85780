"""Managed environments for people."""

from __future__ import annotations

import sys
from typing import Any

from advisor.report.console import console, printable
from advisor.units import format_bytes

#: Distributions shown before others: what the environment is for, not what that pulls in.
_SHOWN = 4


class ProgressLine:
    """What is being done, on standard error: one line that is rewritten on a terminal, a line a step elsewhere."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Show a step."""
        text = printable(text)
        sys.stderr.write(f"\r\x1b[K{text[:100]}" if self.terminal else f"{text}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the line clean."""
        if self.terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _versions(row: dict[str, Any]) -> str:
    """Return the versions of what was asked for: ``tensorflow-cpu 2.21.0``."""
    names = [requirement.partition(";")[0].strip() for requirement in row["requirements"]]
    have = row["packages"]
    found = [f"{name} {have[name.lower()]}" for name in names if name.lower() in have]
    return ", ".join(found[:_SHOWN]) or f"{len(have)} packages"


def render_created(document: dict[str, Any]) -> None:
    """Print what was made."""
    for row in document["environments"]:
        size = f", {format_bytes(row['size_bytes'])}" if row["size_bytes"] else ""
        console().print(f"{row['name']} is {row['state']}: {_versions(row)}; python {row['python_version']}{size}", markup=False)


def render_removed(document: dict[str, Any]) -> None:
    """Print what was removed."""
    console().print(f"{document['removed']} removed", markup=False)


def render_list(document: dict[str, Any]) -> None:
    """Print the table of environments, those that are there first."""
    from rich.markup import escape
    from rich.table import Table

    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("name", "state", "size", "python", "holds", "backends"):
        table.add_column(name, justify="right" if name == "size" else "left")
    rows = sorted(document["environments"], key=lambda row: (row["state"] in ("absent", "impossible"), row["name"]))
    for row in rows:
        there = row["state"] not in ("absent", "impossible", "building", "interrupted")
        table.add_row(
            row["name"],
            row["state"],
            format_bytes(row["size_bytes"]) if row["size_bytes"] else "-",
            row["python_version"] or "-",
            escape(_versions(row) if there else ", ".join(row["requirements"])),
            ", ".join(row["backends"]) or "-",
        )
    out.print(table)
    for row in rows:
        if row["state"] in ("broken", "outdated", "interrupted"):
            out.print(f"{row['name']}: {row['reason']}; `{row['command']} --again` builds it anew", markup=False)
        elif row["state"] == "impossible":
            out.print(f"{row['name']}: {row['reason']}", markup=False)
    out.print(f"`advisor env create NAME` makes one in {document['folder']}", markup=False)
