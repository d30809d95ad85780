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

#: Longest message that is shown whole; of a longer one (a name of thousands of letters) the two ends are shown.
_LONGEST = 1000


def error_line(code: str, message: str, hint: str | None = None) -> str:
    """Return ``error[CODE]: message; hint`` on one line that a terminal can show: line breaks of foreign messages folded, control
    characters written as escapes, what is too long shortened in the middle."""
    parts = [_shown(part) for part in (message, hint) if part is not None]
    return f"error[{code}]: {'; '.join(parts)}"


def _shown(text: str) -> str:
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in " ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


class AdvisorError(Exception):
    """An expected failure: a stable code, one sentence, and what to do about it."""

    exit_status = 2

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def line(self) -> str:
        """Return the one line a user sees."""
        return error_line(self.code, self.message, self.hint)


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
