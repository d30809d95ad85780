"""Keep the results database: create, upgrade, seed, back up. One function a subcommand of ``advisor db``."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.errors import DatabaseError, EnvironmentLacks, UsageError
from advisor.results import engine as engines
from advisor.results.address import Address, file_system, is_network_file_system, parse_url, prepare_file
from advisor.results.overview import by_origin, columns, counts
from advisor.results.schema import KNOWN_REVISIONS, SCHEMA_REVISION
from advisor.results.store import Store

SCHEMA_VERSION = 1


def status(url: str) -> dict[str, Any]:
    """Return where the database is, its schema and what it holds; nothing is created or changed."""
    address = parse_url(url)
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "database": address.shown,
        "dialect": address.dialect,
        "state": "missing",
        "revision": None,
        "expected_revision": SCHEMA_REVISION,
        "hint": f"`{address.upgrade}` creates it",
    }
    if address.path is not None and not address.path.exists():
        return document
    writable = prepare_file(address.path, create=False) if address.path is not None else True
    engine = engines.make_engine(address, read_only=not writable)
    try:
        with engines.translated(address), engine.connect() as connection:
            found = engines.read_revision(connection)
            document |= engines.server_facts(connection) | {"revision": found, "writable": writable} | _place(address)
            document |= dict(zip(("state", "hint"), _state(found, address), strict=True))
            if found == SCHEMA_REVISION:
                document |= {"counts": counts(connection), "measurements_by_origin": by_origin(connection), "tables": columns()}
    finally:
        engine.dispose()
    return document


def _state(found: str | None, address: Address) -> tuple[str, str | None]:
    if found is None:
        return "empty", f"`{address.upgrade}` creates the tables"
    if found == SCHEMA_REVISION:
        return "ready", None
    if found in KNOWN_REVISIONS:
        return "old", f"`{address.upgrade}` brings it up to date"
    return "newer", "run `pip install --upgrade hw-advisor`"


def _place(address: Address) -> dict[str, Any]:
    if address.path is None:
        return {"size_bytes": None, "file_system": None, "network_file_system": None}
    kind = file_system(address.path)
    return {"size_bytes": address.path.stat().st_size, "file_system": kind, "network_file_system": is_network_file_system(kind)}


def upgrade(url: str) -> dict[str, Any]:
    """Create the database, or bring its schema up to date in one transaction; does nothing where it is."""
    address = parse_url(url)
    if address.path is not None and not prepare_file(address.path, create=True):
        raise DatabaseError("DB-READONLY", f"{address.shown} is read-only", "name another with --db sqlite:///FILE")
    engine = engines.make_engine(address)
    try:
        with engines.translated(address), engine.execution_options(writes=True).begin() as connection:
            engines.lock_schema(connection)
            before = engines.read_revision(connection)
            if before is None:
                engines.create_schema(connection, address)
            elif before != SCHEMA_REVISION:
                if before not in KNOWN_REVISIONS:
                    engines.check_revision(before, address)
                from advisor.results.migrate import upgrade as migrate

                migrate(connection)
    finally:
        engine.dispose()
    return {"schema_version": SCHEMA_VERSION, "database": address.shown, "from_revision": before, "revision": SCHEMA_REVISION}


def seed(url: str) -> dict[str, Any]:
    """Load the published rows; a table that was loaded before is passed over."""
    from advisor.results.seed import seed as load

    with Store.open(url) as store:
        return {"schema_version": SCHEMA_VERSION, "database": store.address.shown, "tables": load(store)}


def backup(url: str, target: Path) -> dict[str, Any]:
    """Write a consistent copy to ``target`` while others may write: an SQLite file, or a pg_dump archive for pg_restore.

    Raises UsageError where the target exists: a backup is never overwritten.
    """
    if target.exists():
        raise UsageError(f"{target} exists already", "name a new file")
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with Store.open(url, create=False) as store:
            if store.address.path is not None:
                _copy_sqlite(store, part)
            else:
                _dump_postgresql(store, part)
        os.replace(part, target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}", "name a file in a folder that can be written") from error
    finally:
        part.unlink(missing_ok=True)
    return {"schema_version": SCHEMA_VERSION, "database": store.address.shown, "file": str(target), "size_bytes": target.stat().st_size}


def _copy_sqlite(store: Store, target: Path) -> None:
    with engines.translated(store.address):
        # Where the source is read-only, so is this connection; the copy is SQLite's own online backup, and checked.
        source = engines.connect_sqlite(Path(store.address.shown), read_only=store.read_only)
        copy = sqlite3.connect(target)
        try:
            # A copy that fails leaves nothing behind, so it needs no journal beside it.
            copy.execute("PRAGMA journal_mode=MEMORY")
            with engines.translated(replace(store.address, shown=str(target))):
                source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
            verdict = copy.execute("PRAGMA quick_check").fetchone()[0]
        finally:
            copy.close()
            source.close()
    if verdict != "ok":
        raise DatabaseError("DB-CORRUPT", f"{store.address.shown} is damaged: {verdict}")


def _dump_postgresql(store: Store, target: Path) -> None:
    url = store.engine.url.set(drivername="postgresql")
    environment = dict(os.environ)
    if url.password is not None:
        # Not on the command line, where every user of the machine could read it.
        environment["PGPASSWORD"] = str(url.password)
        url = url._replace(password=None)
    command = ["pg_dump", "--format=custom", "--no-owner", f"--file={target}", f"--dbname={url.render_as_string(hide_password=False)}"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EnvironmentLacks("NO-PG-DUMP", "backing up PostgreSQL needs pg_dump", "install PostgreSQL's client programs") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise DatabaseError("DB-BACKUP", f"pg_dump failed: {said[-1]}")
