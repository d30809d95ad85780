"""Findings about the machine: one file a topic, each binding ``FINDERS``, functions from a Context to Findings.

A file added here, or an entry point in the group ``advisor.probe.findings``, is asked like the others.
"""

from __future__ import annotations

from advisor.plugins import discover
from advisor.probe.findings._context import Context, Finder
from advisor.probe.records import Finding

__all__ = ["Context", "Finder", "find_all"]


def find_all(context: Context) -> tuple[Finding, ...]:
    """Return what every finder has to say. One that fails costs its own answer only."""
    found: list[Finding] = []
    for finders in discover("advisor.probe.findings", "FINDERS"):
        for finder in finders:
            try:
                found.extend(finder(context))
            except Exception as error:  # noqa: BLE001 - a finder, perhaps a third party's, must not take the probe down
                found.append(
                    Finding(
                        code="FINDER_FAILED",
                        severity="info",
                        message=f"The check {getattr(finder, '__name__', finder)} could not be made.",
                        evidence=f"{type(error).__name__}: {error}"[:200],
                        fix="Report this with the folder that `advisor probe --record DIR` writes.",
                    )
                )
    return tuple(found)
