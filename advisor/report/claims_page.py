"""Verdicts on one page for somebody who was not there: HTML that can be mailed, or Markdown for a repository."""

from __future__ import annotations

from typing import Any

from advisor.report.claims import claimed_text, found_text
from advisor.report.markup import Markup, h, join, table
from advisor.report.svg import STATIC
from advisor.units import format_bytes

Document = dict[str, Any]
TITLE = "Claims, put to the test"
#: In the order in which a reader asks for them.
WORDS = {
    "confirmed": "holds here",
    "refuted": "does not hold here",
    "depends": "holds in some settings",
    "inconclusive": "too close to tell",
    "not_testable": "cannot be tested",
    "ill_posed": "cannot be right as worded",
}
BASES = {
    "measured": "both sides ran on this machine, in turns",
    "published": "measurements that others published, cited",
    "predicted": "the cost model or a simulation",
    "none": "nothing could be asked",
}
HEADERS = ["claim", "claimed", "found (95 % interval)", "verdict", "by", "what it means"]


def headline(document: Document) -> str:
    """Return the one sentence that a reader takes away."""
    verdicts = document["counts"]["verdict"]
    parts = [f"{verdicts[name]} {name.replace('_', ' ')}" for name in WORDS if verdicts[name]]
    measured = document["counts"]["basis"]["measured"]
    return f"{len(document['results'])} claims: {', '.join(parts) or 'none answered'}; {measured} of them measured on this machine."


def machine_text(document: Document) -> str:
    """Return the machine in a line."""
    machine = document["machine"]
    memory = f", {format_bytes(machine['memory_bytes'])}" if machine["memory_bytes"] else ""
    others = [d["name"] for d in machine["devices"] if not d["target"].startswith("cpu") and d["state"] == "usable"]
    return f"{machine['cpu'] or 'a CPU'}, {machine['usable_cpus'] or '?'} CPUs{memory}{''.join(f', {name}' for name in others)}"


def _rows(document: Document) -> list[dict[str, Any]]:
    order = list(WORDS)
    return sorted(document["results"], key=lambda result: order.index(result["verdict"]))


def claims_html(document: Document) -> str:
    """Return the page as HTML: style inside, nothing loaded from anywhere, no script."""
    rows = [
        [
            join(h("strong", r["claim"]["statement"]), h("br"), h("small", f"{r['id']} · {r['reason']}")),
            claimed_text(r["claim"]),
            found_text(r, r["claim"]["unit"]),
            h("strong", r["verdict"].replace("_", " ")),
            r["basis"],
            r["meaning"],
        ]
        for r in _rows(document)
    ]
    legend = table(["word", "meaning"], [[name.replace("_", " "), text] for name, text in (*WORDS.items(), *BASES.items())])
    missing = h("p", f"Not run yet: {', '.join(document['not_run'])}.") if document["not_run"] else None
    body = h(
        "body",
        h(
            "main",
            h("h1", TITLE),
            h("p", headline(document), class_="verdict"),
            h("p", machine_text(document)),
            table(HEADERS, rows, caption="Claims by verdict"),
            missing,
            h("h2", "How to read it"),
            h("p", HOW),
            legend,
        ),
        h("footer", h("p", _made(document))),
    )
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        h("title", f"{TITLE} · advisor"),
        h("style", Markup((STATIC / "page.css").read_text(encoding="utf-8"))),
    )
    return f"<!doctype html>\n{h('html', head, body, lang='en')}\n"


HOW = (
    "Each claim is a statement of an article with a number. Where this machine can test it, both sides ran here in fresh processes, in "
    "turns, and the number found is the ratio of the two with its 95 % interval; otherwise published measurements or the cost model "
    "answer. A claim is confirmed where the number found holds it within the tolerance, and refuted where no number of the interval does."
)


def claims_markdown(document: Document) -> str:
    """Return the page as Markdown."""
    lines = [
        f"# {TITLE}",
        "",
        headline(document),
        "",
        machine_text(document),
        "",
        f"| {' | '.join(HEADERS)} |",
        "|---" * len(HEADERS) + "|",
    ]
    for r in _rows(document):
        cells = (
            f"**{_cell(r['claim']['statement'])}** `{r['id']}` {_cell(r['reason'])}",
            claimed_text(r["claim"]),
            found_text(r, r["claim"]["unit"]),
            r["verdict"].replace("_", " "),
            r["basis"],
            _cell(r["meaning"]),
        )
        lines.append(f"| {' | '.join(cells)} |")
    if document["not_run"]:
        lines += ["", f"Not run yet: {', '.join(document['not_run'])}."]
    return "\n".join([*lines, "", HOW, "", _made(document), ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _made(document: Document) -> str:
    when = document["created_at"][:16].replace("T", " ")
    return f"Made by advisor {document['version']} at {when} UTC on the machine {document['machine']['fingerprint']}."
