"""An open results database: connections that read, transactions that write, and what is repeated when the server went away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from advisor.errors import DatabaseError
from advisor.results import engine as engines
from advisor.results.address import Address, parse_url, prepare_file

#: How often a write is repeated after the server went away, or another writer was in its way; every write is idempotent.
RETRIES = 5
#: PostgreSQL's states after which the same transaction may succeed: a deadlock, and a row that another writer stored meanwhile
#: (https://www.postgresql.org/docs/current/errcodes-appendix.html).
_RETRIED_STATES = frozenset({"40P01", "40001", "23505"})

T = TypeVar("T")


class Database:
    """An open database; use it as a context manager. May be shared between threads."""

    def __init__(self, address: Address, engine: Engine, *, read_only: bool) -> None:
        self.address = address
        self.engine = engine
        self.read_only = read_only
        # An SQLite transaction always sees one picture; PostgreSQL's does where it is told to.
        self._reads: dict[str, Any] = {"isolation_level": "REPEATABLE READ"} if address.dialect == "postgresql" else {}

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Self:
        """Open the database at ``url``, creating it (and its folder) if it is not there and ``create`` says so.

        Cheap when the schema is up to date: one query, no migration code is loaded.
        Raises DatabaseError (exit status 4) with one line: wrong URL, unreachable, not a database, schema too old or too new.
        """
        address = parse_url(url)
        read_only = address.path is not None and not prepare_file(address.path, create=create)
        engine = engines.make_engine(address, read_only=read_only)
        opened = cls(address, engine, read_only=read_only)
        try:
            with engines.translated(address):
                with engine.connect() as connection:
                    found = engines.read_revision(connection)
                if found is None and create and not read_only:
                    with opened.writing() as connection:
                        engines.create_schema(connection, address)
                else:
                    engines.check_revision(found, address)
        except BaseException:
            engine.dispose()
            raise
        return opened

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a connection in one write transaction: committed at the end, rolled back on any exception."""
        if self.read_only:
            raise DatabaseError("DB-READONLY", f"{self.address.shown} is read-only", "name another with --db sqlite:///FILE")
        with engines.translated(self.address), self.engine.execution_options(writes=True).begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection in a read transaction: one consistent picture."""
        with engines.translated(self.address), self.engine.execution_options(**self._reads).connect() as connection:
            yield connection

    def write(self, change: Callable[[Connection], T]) -> T:
        """Return what ``change`` returns, done in one write transaction, and again from its start where that may help.

        ``change`` must be able to run twice: of a transaction that failed nothing is left.
        """
        for attempt in range(RETRIES + 1):
            try:
                with self.writing() as connection:
                    return change(connection)
            except DatabaseError as error:
                if attempt == RETRIES or not _may_succeed(error.__cause__):
                    raise
        raise AssertionError("unreachable")


def _may_succeed(cause: BaseException | None) -> bool:
    if not isinstance(cause, DBAPIError):
        return False
    return cause.connection_invalidated or getattr(cause.orig, "sqlstate", None) in _RETRIED_STATES
