"""What was exported, checked, or could be, as people read it."""

from __future__ import annotations

from typing import Any

from advisor.report.console import console


def render_export(document: dict[str, Any]) -> None:
    """Print the document of ``advisor export``."""
    from rich.markup import escape

    out = console()
    for row in document.get("formats", []):
        out.print(f"  {row['name']:<16} {escape(row['title'])} [dim]({escape(row['targets'])})[/]")
    for row in document.get("exported", []):
        out.print(f"[bold]{row['format']}[/], for {escape(row['targets'])}")
        for name in row["files"]:
            out.print(f"  {escape(name)}")
        out.print(f"  [dim]checked with {escape(', '.join(row['validators']))}[/]")
    for row in document.get("checked", []):
        verdict = "[green]ok[/]" if not row["problems"] else "[bold red]wrong[/]"
        out.print(f"{verdict} {row['format']} in {escape(row['folder'])} [dim](checked with {escape(', '.join(row['validators']))})[/]")
        for problem in row["problems"]:
            out.print(f"  ✗ {escape(problem)}")
