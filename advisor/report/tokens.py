"""Tokens for people."""

from __future__ import annotations

from typing import Any

from advisor.report.console import console


def render_created(document: dict[str, Any]) -> None:
    """Print a new token with its secret."""
    out = console()
    out.print(f"Token of {document['name']} ({', '.join(document['scopes'])}), shown this once:", markup=False)
    out.print(document["secret"], markup=False)
    out.print(
        f"expires {document['expires_at']}" if document["expires_at"] else "never expires; `advisor token revoke` ends it", markup=False
    )


def render_tokens(document: dict[str, Any]) -> None:
    """Print the table of tokens."""
    from rich.markup import escape
    from rich.table import Table

    out = console()
    if not document["tokens"]:
        out.print("no tokens; `advisor token create NAME` makes one")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("id", "name", "scopes", "state", "created", "expires", "batches", "last"):
        table.add_column(name, justify="right" if name == "batches" else "left")
    for row in document["tokens"]:
        last = row["last_submission_at"]
        table.add_row(
            row["id"],
            escape(row["name"]),
            ", ".join(row["scopes"]),
            row["state"],
            row["created_at"][:10],
            row["expires_at"][:10] if row["expires_at"] else "never",
            str(row["submissions"]),
            last[:16].replace("T", " ") if last else "-",
        )
    out.print(table)


def render_revoked(document: dict[str, Any]) -> None:
    """Print what was revoked."""
    what = "revoked" if document["revoked"] else "was revoked before"
    console().print(f"token of {document['name']} ({document['id']}) {what}", markup=False)
