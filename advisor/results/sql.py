"""A reader's own SQL. That it only reads is enforced by the database: SQLite's authorizer and read-only mode, PostgreSQL's
read-only transaction; a time limit and a row limit keep one question from taking the database down."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from advisor.errors import DatabaseError, UsageError
from advisor.results.address import Address
from advisor.results.engine import CONNECT_TIMEOUT_S, connect_sqlite, translated

#: SQLite: what the compiler of a statement may ask for. All else (writing, ATTACH, PRAGMA, transactions) is refused.
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
#: Longest text or blob one value may have, so that a single function call cannot eat the memory.
_MAX_VALUE_BYTES = 64 << 20
#: How many steps of SQLite's virtual machine between two looks at the clock.
_STEPS = 10_000
_READS = ("select", "with", "values", "explain", "table")


def query(address: Address, engine: Engine, sql: str, *, limit: int, timeout_s: float) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return (column names, at most ``limit`` rows) of one reading statement; see ``Store.query``."""
    statement = sql.strip().rstrip(";").strip()
    if not statement:
        raise UsageError("the SQL is empty", "try --sql 'SELECT count(*) FROM measurements'")
    if "\x00" in statement:
        raise UsageError("the SQL has a NUL character")
    with translated(address):
        if address.path is not None:
            return _sqlite(address.path, statement, limit, timeout_s)
        return _postgresql(address, engine, statement, limit, timeout_s)


def _too_slow(timeout_s: float) -> UsageError:
    return UsageError(f"the SQL took longer than {timeout_s:g} s", "narrow it with WHERE or LIMIT, or give --timeout", code="SQL-TIME")


def _wrong(error: Exception) -> UsageError:
    return UsageError(f"the SQL was not understood: {str(error).splitlines()[0]}", "tables: `advisor db status`", code="SQL")


_REFUSED = "only reading SQL is allowed here (one SELECT)"


def _sqlite(path: Path, statement: str, limit: int, timeout_s: float) -> tuple[list[str], list[tuple[Any, ...]]]:
    deadline = time.monotonic() + timeout_s
    connection = connect_sqlite(path, read_only=True)
    alarm = threading.Timer(timeout_s, connection.interrupt)
    alarm.daemon = True
    try:
        connection.execute("PRAGMA query_only=ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        # Few steps can take long (a function over a long text): a clock of its own interrupts between any two of them.
        alarm.start()
        cursor = connection.execute(statement)
        rows = cursor.fetchmany(limit)
        return [column[0] for column in cursor.description or ()], rows
    except (sqlite3.Error, sqlite3.Warning) as error:
        text = str(error)
        if text == "interrupted":
            raise _too_slow(timeout_s) from error
        if text in ("not authorized", "attempt to write a readonly database") or "denied" in text or "may not be modified" in text:
            raise UsageError(_REFUSED, code="SQL-WRITE") from error
        if "one statement at a time" in text:
            raise UsageError(_REFUSED, code="SQL-WRITE") from error
        if isinstance(error, sqlite3.OperationalError | sqlite3.DataError) and "disk image is malformed" not in text and "disk" not in text:
            raise _wrong(error) from error
        raise
    finally:
        alarm.cancel()
        if alarm.ident is not None:
            alarm.join()
        connection.close()


def _postgresql(address: Address, engine: Engine, statement: str, limit: int, timeout_s: float) -> tuple[list[str], list[tuple[Any, ...]]]:
    import psycopg

    # The server's read-only transaction refuses writes to tables; what it lets through (COPY … TO PROGRAM, SET) is no SELECT.
    first = re.match(r"\w+", re.sub(r"\A(\s|--[^\n]*\n|/\*.*?\*/|\()*", "", statement, flags=re.DOTALL))
    if first is None or first[0].lower() not in _READS:
        raise UsageError(_REFUSED, code="SQL-WRITE")
    # A connection of its own: what a statement does to its session dies with it.
    arguments, options = engine.dialect.create_connect_args(engine.url)
    raw: Any = psycopg.connect(*arguments, **{"connect_timeout": CONNECT_TIMEOUT_S, **options})
    try:
        raw.read_only = True
        raw.execute("SELECT set_config('statement_timeout', %s, true)", [str(max(1, int(timeout_s * 1000)))])
        rows: list[tuple[Any, ...]] = []
        with raw.cursor() as cursor:
            # Row by row through the extended protocol: memory stays bounded, and several statements in one text are refused.
            stream = cursor.stream(statement.replace("%", "%%"), [])
            for row in stream:
                rows.append(row)
                if len(rows) >= limit:
                    raw.cancel()
                    break
            if not rows:
                # A stream without rows does not say its columns; the extended protocol again, for the same reason.
                cursor.execute(statement.replace("%", "%%"), [], prepare=True)
            columns = [column.name for column in cursor.description or ()]
        return columns, rows
    except psycopg.errors.QueryCanceled as error:
        raise _too_slow(timeout_s) from error
    except (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege) as error:
        raise UsageError(_REFUSED, code="SQL-WRITE") from error
    except psycopg.OperationalError as error:
        raise DatabaseError("DB-FAILED", f"{address.shown}: {str(error).splitlines()[0]}") from error
    except psycopg.Error as error:
        if "multiple commands" in str(error):
            raise UsageError(_REFUSED, code="SQL-WRITE") from error
        raise _wrong(error) from error
    finally:
        raw.close()
