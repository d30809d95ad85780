"""A Plan written for the tools that run it: one file a format, each with its validator.

Each module binds ``EXPORTER``; third parties register theirs in the entry-point group ``advisor.export``.
"""

from __future__ import annotations

from advisor.errors import UnknownName
from advisor.export._spec import Answer, Checked, Exporter, Files
from advisor.plugins import discover

__all__ = ["Answer", "Checked", "Exporter", "Files", "all_exporters", "exporter"]


def all_exporters() -> tuple[Exporter, ...]:
    """Return every known exporter, built-in and third-party, in order of name."""
    found: tuple[Exporter, ...] = discover("advisor.export", "EXPORTER")
    return found


def exporter(name: str) -> Exporter:
    """Return the exporter called ``name``; UnknownName with near ones if there is none."""
    known = {e.name: e for e in all_exporters()}
    if name not in known:
        raise UnknownName("format", name, known, "advisor export --list")
    return known[name]
