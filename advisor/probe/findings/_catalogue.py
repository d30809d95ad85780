"""Every finding that the probe can make, read from the source, for the reference page.

python -m advisor.probe.findings._catalogue > docs/reference/findings.md
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

PACKAGES = ("advisor.probe.findings", "advisor.probe.accelerators")
_ORDER = {"error": 0, "warning": 1, "info": 2}
_FIX_INSIDE = "the finding names the command"
_HEAD = """# Findings

What `advisor probe` may say about a machine, made from the source by `python -m advisor.probe.findings._catalogue`.
Words in braces are filled in. A finding of severity *error* means that something cannot be used or gives wrong results, *warning* that it
is slower or smaller than it could be, *info* that it is worth knowing. `advisor probe --check` exits with 1 if there is an error.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One code: its severity (two where it depends), what it says, how to mend it, and the topic it belongs to."""

    code: str
    severity: str
    message: str
    fix: str
    topic: str


def catalogue() -> tuple[Entry, ...]:
    """Return all codes, one entry each, the gravest first."""
    found: dict[str, Entry] = {}
    for package in PACKAGES:
        for item in sorted(files(package).iterdir(), key=lambda item: item.name):
            if not item.name.endswith(".py") or item.name == "_catalogue.py":
                continue
            topic = (
                "accelerators"
                if package.endswith("accelerators")
                else item.name.removesuffix(".py").replace("__init__", "the probe itself")
            )
            for entry in (*_calls(ast.parse(item.read_text(encoding="utf-8")), topic), *(_tables(topic) if package == PACKAGES[0] else ())):
                known = found.setdefault(entry.code, entry)
                if entry.severity not in known.severity:
                    found[entry.code] = Entry(entry.code, f"{known.severity} or {entry.severity}", known.message, known.fix, known.topic)
    return tuple(sorted(found.values(), key=lambda entry: (min(_ORDER[word] for word in entry.severity.split(" or ")), entry.code)))


def _tables(topic: str) -> Iterator[Entry]:
    """Yield the codes that stand in tables beside the finders."""
    if topic == "accelerators":
        from advisor.probe.findings.accelerators import _STATES

        for code, severity, meaning in _STATES.values():
            yield Entry(code, severity, f"{{devices}}: {meaning}.", _FIX_INSIDE, topic)
    if topic == "environment":
        from advisor.probe.findings.environment import _SWITCHES

        for name, _, severity, effect in _SWITCHES:
            yield Entry(name, severity, f"{name} is set: {effect}.", f"unset {name}", topic)


def _calls(tree: ast.Module, topic: str) -> Iterator[Entry]:
    """Yield an entry for each ``Finding(...)``; one whose code is a variable yields the constants that its function gives it."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        codes = [name for node in ast.walk(function) if isinstance(node, ast.Assign) for name in _assigned(node)]
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Finding":
                given = {word.arg: word.value for word in call.keywords if word.arg}
                message, fix = _text(given.get("message")), _text(given.get("fix"))
                severities = sorted(set(_constants(given.get("severity"))) & set(_ORDER), key=lambda word: _ORDER[word]) or ["warning"]
                named = _constants(given.get("code"))
                for code in named or codes:
                    yield Entry(code, " or ".join(severities), message, fix or _FIX_INSIDE, topic)


def _assigned(node: ast.Assign) -> list[str]:
    """Return the codes that an assignment gives to a variable ``code``."""
    names = {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return [text for text in _constants(node.value) if "code" in names and re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", text)]


def _constants(node: ast.expr | None) -> list[str]:
    """Return the texts an expression may be: those of a constant, a tuple, or both branches of a choice (not those it compares)."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*_constants(node.body), *_constants(node.orelse)]
    return [text for item in node.elts for text in _constants(item)] if isinstance(node, ast.Tuple) else []


def _text(node: ast.expr | None) -> str:
    """Return an expression as a sentence with what is filled in in braces."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else _hole(part) for part in node.values)
    if isinstance(node, ast.IfExp):
        return " / ".join(dict.fromkeys(text for text in (_text(node.body), _text(node.orelse)) if len(text) > 1))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.JoinedStr):
        return _text(node.value)
    return ""


def _hole(part: ast.expr) -> str:
    """Name what is filled in: the last word of the expression that is a name."""
    value = part.value if isinstance(part, ast.FormattedValue) else part
    if isinstance(value, ast.IfExp):
        return _text(value) or "{…}"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "names":
        return "{devices}"
    words = [
        node.id if isinstance(node, ast.Name) else node.attr for node in ast.walk(value) if isinstance(node, (ast.Name, ast.Attribute))
    ]
    return (
        f"{{{words[0]}}}"
        if words and len(words) == 1
        else f"{{{words[-1] if isinstance(value, ast.Name) else words[0]}}}"
        if words
        else "{…}"
    )


def page() -> str:
    """Return the reference page as Markdown."""
    entries = catalogue()
    lines = [_HEAD, f"{len(entries)} codes.\n", "| Code | Severity | Topic | What it says | How to mend it |", "|---|---|---|---|---|"]
    for entry in entries:
        cells = (f"`{entry.code}`", entry.severity, entry.topic.replace("_", " "), entry.message, entry.fix)
        lines.append("| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
