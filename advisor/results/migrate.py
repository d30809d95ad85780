"""Change the schema of a database from one released revision to another with Alembic. Loaded only when there is something to change."""

from __future__ import annotations

import logging
from collections.abc import Callable

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from advisor.resources import data_dir
from advisor.results import columns
from advisor.results.engine import lock_schema
from advisor.results.schema import ColumnChunk


def alembic_config(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration, built in code so that it works from a wheel; the environment uses ``connection``."""
    config = Config()
    config.set_main_option("script_location", str(data_dir("db") / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the schema up to ``revision`` inside the caller's write transaction; on a failure nothing has changed."""
    _run(connection, command.upgrade, revision)
    if sa.inspect(connection).has_table(ColumnChunk.__tablename__) and not columns.are_whole(connection):
        # What follows from the rows is made by the program that reads it, not by the migration that makes room for it.
        columns.rebuild(connection)


def downgrade(connection: Connection, revision: str) -> None:
    """Take the schema back to ``revision`` (``base`` removes it) inside the caller's write transaction."""
    _run(connection, command.downgrade, revision)


def _run(connection: Connection, step: Callable[[Config, str], None], revision: str) -> None:
    # Two hosts must not do this at once.
    lock_schema(connection)
    logger = logging.getLogger("alembic")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        step(alembic_config(connection), revision)
    finally:
        logger.setLevel(level)


def shipped_revisions() -> list[str]:
    """Return the revisions in ``db/migrations/versions``, oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()][::-1]
