"""Open a database: connect, set SQLite's pragmas, check the schema's version, and put database failures into one line."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool, QueuePool

from advisor.errors import DatabaseError, EnvironmentLacks
from advisor.results.address import Address, file_system, is_network_file_system
from advisor.results.hash import to_json
from advisor.results.schema import KNOWN_REVISIONS, SCHEMA_REVISION, VERSION_TABLE, Base

#: How long a writer waits for another one before it gives up.
BUSY_TIMEOUT_S = 30.0
#: How long to wait for a PostgreSQL server that does not answer.
CONNECT_TIMEOUT_S = 4
#: Key of the PostgreSQL advisory lock under which the schema is created and changed.
SCHEMA_LOCK = 0x6164_7669_736F_72

log = logging.getLogger("advisor.results")


def make_engine(address: Address, *, read_only: bool = False) -> Engine:
    """Return an engine for ``address``; connects to nothing yet."""
    if address.path is not None:
        return _sqlite_engine(address.path, read_only=read_only)
    try:
        return sa.create_engine(
            str(address.url),
            pool_pre_ping=True,
            json_serializer=to_json,
            connect_args={"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "advisor"},
        )
    except ModuleNotFoundError as error:
        raise EnvironmentLacks("NO-PSYCOPG", "PostgreSQL needs the package psycopg", "pip install 'hw-advisor[postgres]'") from error
    except (sa.exc.ArgumentError, NoSuchModuleError, ValueError) as error:
        raise DatabaseError("DB-URL", f"not a database URL: {address.shown!r}", "write postgresql+psycopg://USER@HOST/NAME") from error


def _sqlite_engine(path: Path, *, read_only: bool) -> Engine:
    on_network = is_network_file_system(file_system(path))
    if on_network and not read_only:
        log.warning(
            "%s is on a network file system: SQLite works without its write-ahead log there; prefer PostgreSQL for many hosts", path
        )

    def connect() -> sqlite3.Connection:
        return connect_sqlite(path, read_only=read_only, on_network=on_network)

    # A file on a network file system is not kept open: locks are held for as short as possible.
    pool = NullPool if on_network else QueuePool
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=pool, json_serializer=to_json)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that starts reading and then writes can fail at once, whatever the timeout; writers say so at the start.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")

    return engine


def connect_sqlite(path: Path, *, read_only: bool, on_network: bool = False) -> sqlite3.Connection:
    """Return a connection to the file with the project's pragmas, in autocommit mode (transactions are begun by hand)."""
    options = "mode=rwc"
    if read_only:
        # Without a log to replay and without the right to create its index, the file itself is the whole database.
        alone = not path.with_name(path.name + "-wal").exists()
        options = "mode=ro&immutable=1" if alone and not _can_write_beside(path) else "mode=ro"
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?{options}", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA synchronous={'FULL' if on_network else 'NORMAL'}")
        if not read_only:
            _set_journal_mode(connection, "delete" if on_network else "wal")
    except BaseException:
        connection.close()
        raise
    return connection


def _can_write_beside(path: Path) -> bool:
    return os.access(path.parent, os.W_OK)


def _set_journal_mode(connection: sqlite3.Connection, wanted: str) -> None:
    """Switch the journal mode, which persists in the file; SQLite's own busy timeout does not cover this step."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != wanted:
                connection.execute(f"PRAGMA journal_mode={wanted}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Turn what the database or its driver raises inside into a DatabaseError of one line, without passwords."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise EnvironmentLacks("NO-PSYCOPG", "PostgreSQL needs the package psycopg", "pip install 'hw-advisor[postgres]'") from error
    except (DBAPIError, PoolTimeout, sqlite3.Error) as error:
        raise database_error(error, address) from error
    except ValueError as error:
        # A column that holds neither JSON nor an instant: the row was written by something else, or damaged.
        if not isinstance(error, json.JSONDecodeError) and "isoformat" not in str(error):
            raise
        raise DatabaseError(
            "DB-CORRUPT", f"{address.shown} holds a value that cannot be read: {error}", "restore a copy made by `advisor db backup`"
        ) from error


def database_error(error: Exception, address: Address) -> DatabaseError:
    """Return the DatabaseError for what the driver said."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = str(original).strip()
    where = address.shown
    for fragment, code, message, hint in _KNOWN_FAILURES:
        if fragment in text:
            return DatabaseError(code, message.format(where=where), hint)
    if address.dialect == "postgresql" and type(original).__name__ == "OperationalError":
        return DatabaseError(
            "DB-UNREACHABLE", f"cannot reach {where}: {text.splitlines()[0] if text else 'no answer'}", "is the server running?"
        )
    return DatabaseError("DB-FAILED", f"{where}: {text}")


_KNOWN_FAILURES: tuple[tuple[str, str, str, str | None], ...] = (
    ("database is locked", "DB-BUSY", f"{{where}} has been busy with another writer for {BUSY_TIMEOUT_S:.0f} s", "try again"),
    ("readonly database", "DB-READONLY", "{where} is read-only", "name another with --db sqlite:///FILE"),
    ("disk is full", "DB-FULL", "no space left for {where}", "free some and repeat; everything reported as stored is still there"),
    ("disk I/O error", "DB-IO", "the disk failed, or its quota is used up, while writing {where}", "free some space and repeat"),
    ("not a database", "DB-FORMAT", "{where} is not an SQLite database", "name another with --db sqlite:///FILE"),
    ("malformed", "DB-CORRUPT", "{where} is damaged", "restore a copy made by `advisor db backup`"),
    ("unable to open database file", "DB-FILE", "cannot open {where}", "name another with --db sqlite:///FILE"),
    ("password authentication failed", "DB-AUTH", "{where} refused the user or password", "correct the URL, or set PGPASSWORD"),
    ("no password supplied", "DB-AUTH", "{where} asks for a password", "set PGPASSWORD or use ~/.pgpass"),
    ("permission denied", "DB-PERMISSION", "{where}: permission denied for this user", "ask its owner for the right to read and write"),
    ("No space left on device", "DB-FULL", "the server of {where} has no space left", "everything reported as stored is still there"),
)


def read_revision(connection: Connection) -> str | None:
    """Return the schema revision of the database, or None where our tables are not there."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()  # noqa: S608 - a constant


def check_revision(found: str | None, address: Address) -> None:
    """Raise DatabaseError unless the database has the schema that this program reads and writes."""
    if found == SCHEMA_REVISION:
        return
    if found is None:
        raise DatabaseError("DB-EMPTY", f"{address.shown} holds no results database", f"`{address.upgrade}` creates it there")
    if found in KNOWN_REVISIONS:
        raise DatabaseError(
            "DB-OLD", f"{address.shown} has schema {found}, this program works with {SCHEMA_REVISION}", f"run `{address.upgrade}`"
        )
    raise DatabaseError(
        "DB-NEWER",
        f"{address.shown} was written by a newer advisor (schema {found}; this one knows up to {SCHEMA_REVISION})",
        "run `pip install --upgrade hw-advisor`, or name another database with --db",
    )


def create_schema(connection: Connection, address: Address) -> None:
    """Create all tables in an empty database, inside the caller's write transaction, unless another process just did."""
    lock_schema(connection)
    inspector = sa.inspect(connection)
    if inspector.has_table(VERSION_TABLE):
        return
    taken = sorted(set(inspector.get_table_names()) & set(Base.metadata.tables))
    if taken:
        raise DatabaseError(
            "DB-FOREIGN", f"{address.shown} belongs to another program: it has a table {taken[0]!r}", "name another with --db"
        )
    Base.metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(
        f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY)"
    )
    connection.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('{SCHEMA_REVISION}')")  # noqa: S608


def lock_schema(connection: Connection) -> None:
    """Keep other hosts from changing the schema until this transaction ends (SQLite's write lock does that by itself)."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(SCHEMA_LOCK)))


def server_facts(connection: Connection) -> dict[str, Any]:
    """Return what kind of database this is: its product, version, and SQLite's journal mode."""
    if connection.dialect.name == "sqlite":
        return {
            "product": "SQLite",
            "version": sqlite3.sqlite_version,
            "journal_mode": connection.exec_driver_sql("PRAGMA journal_mode").scalar(),
        }
    return {"product": "PostgreSQL", "version": connection.exec_driver_sql("SHOW server_version").scalar(), "journal_mode": None}
