"""Errors a user can meet, and the exit status each ends with.

    AdvisorError            2   wrong usage or bad input
    +-- UsageError          2
    +-- UnknownName         2   a name nobody knows, with near ones
    +-- EnvironmentLacks    3   a library, a device or a permission is missing
    +-- DatabaseError       4

An answer of "no" (does not fit, nothing feasible) is not an error: it is a document, and exit status 1.
Every error is printed as one line: ``error[CODE]: what, where; how to mend it``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AdvisorError(Exception):
    """An expected failure: a stable code, one sentence, and what to do about it."""

    exit_status = 2

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def line(self) -> str:
        """Return the one line a user sees; line breaks from foreign messages are folded."""
        text = self.message if self.hint is None else f"{self.message}; {self.hint}"
        return f"error[{self.code}]: {' '.join(text.split())}"


class UsageError(AdvisorError):
    """Wrong usage or bad input."""

    def __init__(self, message: str, hint: str | None = None, code: str = "USAGE") -> None:
        super().__init__(code, message, hint)


class UnknownName(AdvisorError):
    """A name that is not known; suggests near ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], listing: str | None = None) -> None:
        near = difflib.get_close_matches(name.lower(), sorted(set(known)), n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else (f"`{listing}` shows them" if listing else None)
        super().__init__(f"UNKNOWN-{kind.upper().replace(' ', '-')}", f"unknown {kind} {name!r}", hint)


class EnvironmentLacks(AdvisorError):
    """Something this machine lacks; the hint is the command that mends it."""

    exit_status = 3


class DatabaseError(AdvisorError):
    """The results database cannot be opened, read or written."""

    exit_status = 4
