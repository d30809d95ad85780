"""advisor db: keep the results database."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli.output import emit, json_option
from advisor.settings import Settings


@click.group("db")
def command() -> None:
    """Create, upgrade, seed and back up the results database.

    \b
    Example:
      advisor db status
      advisor db seed
      advisor --db postgresql+psycopg://team@db/results db upgrade
    """


@command.command("status")
@json_option
@click.pass_obj
def status_command(settings: Settings, as_json: bool) -> int:
    """Say where the database is, its schema, and what it holds; changes nothing. Exits with 1 unless it is ready.

    \b
    Example:
      advisor db status
    """
    from advisor.report.results import render_status
    from advisor.usecases.database import status

    document = status(settings.database_url)
    emit(document, as_json, render_status)
    return 0 if document["state"] == "ready" else 1


@command.command("upgrade")
@json_option
@click.pass_obj
def upgrade_command(settings: Settings, as_json: bool) -> None:
    """Create the database, or bring its schema up to date, in one transaction.

    \b
    Example:
      advisor db upgrade
    """
    from advisor.report.results import render_upgraded
    from advisor.usecases.database import upgrade

    emit(upgrade(settings.database_url), as_json, render_upgraded)


@command.command("seed")
@json_option
@click.pass_obj
def seed_command(settings: Settings, as_json: bool) -> None:
    """Load the published measurements and data sheets that ship with the product; doing it again changes nothing.

    \b
    Example:
      advisor db seed
      advisor results query --origin published --benchmark gemm --dtype bf16 --group-by device
    """
    from advisor.report.results import render_seeded
    from advisor.usecases.database import seed

    emit(seed(settings.database_url), as_json, render_seeded)


@command.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def backup_command(settings: Settings, file: Path, as_json: bool) -> None:
    """Write a consistent copy while others may write: an SQLite file, or a pg_dump archive for pg_restore.

    \b
    Example:
      advisor db backup results-2026-01-31.db
    """
    from advisor.report.results import render_backup
    from advisor.usecases.database import backup

    emit(backup(settings.database_url, file), as_json, render_backup)
