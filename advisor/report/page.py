"""A report for the terminal: the answer and the machine in short."""

from __future__ import annotations

from typing import Any

from advisor.report.console import console
from advisor.report.probe import render_machine
from advisor.report.recommend import render_recommendation


def render_report(document: dict[str, Any]) -> None:
    """Print a report's document, or where it was written."""
    if document.get("file"):
        console().print(f"{document['file']}: {document['size_bytes'] / 1024:.0f} KiB, one page, pictures included", markup=False)
        return
    if document["recommendation"] is not None:
        render_recommendation(document["recommendation"])
    if document["machine"] is not None:
        if document["recommendation"] is not None:
            console().print()
        render_machine(document["machine"]["document"])
