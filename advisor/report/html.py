"""One self-contained page that can be mailed: style and pictures inside, nothing loaded from anywhere, no script."""

from __future__ import annotations

from typing import Any

from advisor.report.html_answer import answer_block
from advisor.report.html_machine import machine_block
from advisor.report.markup import Markup, h
from advisor.report.svg import STATIC, chart_style

Document = dict[str, Any]


def report_page(document: Document) -> str:
    """Return the HTML of a report's document (``usecases.report``): a recommendation, a machine, or both."""
    answer, machine = document["recommendation"], document["machine"]
    title = f"{answer['model']['name']} on {answer['hardware']['name']}" if answer is not None else "This machine"
    parts: list[Any] = []
    if answer is not None:
        parts += [h("h1", title), answer_block(answer)]
    if machine is not None:
        heading = "h1" if answer is None else "h2"
        parts += [
            h(heading, "This machine"),
            h("p", machine["verdict"], class_="verdict"),
            machine_block(machine["document"], machine["rooflines"]),
        ]
    made = f"Made by advisor {document['version']} on {document['created_at'][:16].replace('T', ' ')} UTC."
    body = h("body", h("main", *parts), h("footer", h("p", made)))
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        h("title", f"{title} · advisor"),
        h("style", Markup((STATIC / "page.css").read_text(encoding="utf-8") + chart_style())),
    )
    return f"<!doctype html>\n{h('html', head, body, lang='en')}\n"
