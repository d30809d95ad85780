"""Failures as HTTP answers: a status, and the error's one line as JSON or as a page."""

from __future__ import annotations

from typing import Any

from advisor.errors import AdvisorError, DatabaseError, EnvironmentLacks, UnknownName
from advisor.usecases.ask import BusyError
from advisor.usecases.submit import RefusedError

#: Refusals by code; the others are conflicts.
_FORBIDDEN = frozenset({"NOT-YOURS"})


class HttpError(AdvisorError):
    """A failure that has a status of its own, and headers that go with it."""

    def __init__(self, status: int, code: str, message: str, hint: str | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(code, message, hint)
        self.status = status
        self.headers = headers or {}


def status_of(error: AdvisorError, *, in_path: bool = False) -> int:
    """Return the status for an expected failure; ``in_path``: the address itself names something, which is not found where it is unknown.

    A database that cannot be reached is the only failure that is the server's own.
    """
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, BusyError):
        return 429
    if isinstance(error, RefusedError):
        return 403 if error.code in _FORBIDDEN else 409
    if isinstance(error, DatabaseError):
        return 400 if error.code == "DB-NEWER" else 503
    if isinstance(error, UnknownName):
        return 404 if in_path or error.code == "UNKNOWN-RECORD" else 400
    if isinstance(error, EnvironmentLacks):
        return 422
    return 400


def headers_of(error: AdvisorError) -> dict[str, str]:
    """Return the headers of an error's answer."""
    if isinstance(error, HttpError):
        return error.headers
    return {"retry-after": "5"} if isinstance(error, BusyError) else {}


def document_of(error: AdvisorError) -> dict[str, Any]:
    """Return the JSON body; what a database driver said stays out of it."""
    message = "the database does not answer" if isinstance(error, DatabaseError) and error.code != "DB-NEWER" else error.message
    hint = None if isinstance(error, DatabaseError) and error.code != "DB-NEWER" else error.hint
    return {"error": {"code": error.code, "message": message, "hint": hint}}
