"""advisor validate."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli.output import emit, json_option

KINDS = ("training", "inference", "classic", "microbench")


@click.command("validate")
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FILE.csv]")
@click.option("--kind", type=click.Choice(KINDS), help="Kind of measurements (default: from the columns, or all shipped kinds).")
@click.option("--by", type=click.Choice(("group", "hardware")), default="group", show_default=True, help="What the strata are.")
@click.option("--rows", is_flag=True, help="Also print every prediction.")
@json_option
def command(file: Path | None, kind: str | None, by: str, rows: bool, as_json: bool) -> None:
    """Score the predictions against published measurements.

    Every row of a table is predicted (by default the published rows that ship with the product); rows that do not say enough are
    skipped, and the reasons counted. Errors are percent of the step time or latency.

    \b
    Example:
      advisor validate --kind training
      advisor validate my_runs.csv --rows --json
    """
    from advisor.report.accuracy import render_validation
    from advisor.usecases.validate import validate

    document = validate(file, kind, by, rows=rows, progress=lambda text: click.echo(text, err=True))
    emit(document, as_json, render_validation)
