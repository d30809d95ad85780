"""The service behind ``advisor serve``: what lives as long as the server does, without anything of HTTP."""

from __future__ import annotations

import importlib.util
import re
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from advisor.errors import EnvironmentLacks, UsageError
from advisor.results.store import Store
from advisor.usecases.ask import Answers
from advisor.usecases.memory import Memory
from advisor.usecases.published_accuracy import PublishedAccuracy
from advisor.usecases.submit import Policy

#: A name or address as a Host header has it, without scheme, port or path.
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+")
#: What the server needs beyond the base install.
PACKAGES = ("fastapi", "jinja2", "uvicorn")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How the server behaves. Limits are per token (submissions) or per address (questions and failed tokens)."""

    database_url: str
    host: str = "127.0.0.1"
    port: int = 8000
    allowed_hosts: tuple[str, ...] = ()
    """Names this server answers to besides its own address; ``*`` for any."""
    keep_host_names: bool = False
    max_body_bytes: int = 8 << 20
    max_decompressed_bytes: int = 32 << 20
    submissions_per_minute: float = 6_000.0
    questions_per_minute: float = 60.0
    failures_per_minute: float = 30.0
    body_timeout_s: float = 30.0


class Service:
    """An open database with what is remembered between requests."""

    def __init__(self, options: ServeOptions) -> None:
        self.options = options
        self.store = Store.open(options.database_url)
        self.answers = Answers(options.database_url)
        self.accuracy = PublishedAccuracy()
        self.memory = Memory()
        self.policy = Policy(keep_host_names=options.keep_host_names)
        self.started = time.time()
        # SQLite has one writer at a time, and those who poll for its lock do not queue: here they do. PostgreSQL needs no turn.
        self.turn: AbstractContextManager[Any] = nullcontext() if self.store.address.path is None else threading.Lock()

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def health(self) -> dict[str, Any]:
        """Return that the database answers; DatabaseError where it does not."""
        import sqlalchemy as sa

        with self.store.reading() as connection:
            connection.execute(sa.select(1))
        return {"schema_version": 1, "status": "ok", "uptime_s": round(time.time() - self.started, 1)}


def check_names(options: ServeOptions) -> None:
    """Raise UsageError for an address or a name that no client could ever use."""
    if not options.host.strip():
        raise UsageError("--host is empty", "127.0.0.1 for this machine alone, 0.0.0.0 for all")
    for name in options.allowed_hosts:
        if name != "*" and not _NAME.fullmatch(name):
            raise UsageError(f"--allow-host {name!r} is no name of a host", "a name or an address alone, as in results.lab.example")


def require_packages() -> None:
    """Raise EnvironmentLacks, with the command that mends it, where the server's packages are not installed."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise EnvironmentLacks("NO-SERVER-PACKAGES", f"serving needs {', '.join(missing)}", "pip install 'hw-advisor[serve]'")


def claims_known() -> bool:
    """Tell whether this install has the claims."""
    return importlib.util.find_spec("advisor.usecases.claims") is not None
