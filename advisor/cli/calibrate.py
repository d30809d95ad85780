"""advisor calibrate."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli.output import emit, json_option

KINDS = ("training", "inference", "classic", "microbench")


@click.command("calibrate")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE.csv]...")
@click.option("--kind", type=click.Choice(KINDS), help="Kind of measurements (default: from the columns, else training).")
@click.option("--leave-out", type=click.Choice(("group", "device", "shape")), help="Score strata that the fit never saw; writes nothing.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where to write (default: your data folder).")
@click.option("--dry-run", is_flag=True, help="Fit and print, write nothing.")
@json_option
def command(files: tuple[Path, ...], kind: str | None, leave_out: str | None, out: Path | None, dry_run: bool, as_json: bool) -> None:
    """Fit the cost model's parameters to measurements.

    Fits them to the published rows that ship with the product, or to FILEs of the same columns, and stores them for later answers.
    Needs scipy.

    \b
    Example:
      advisor calibrate
      advisor calibrate --kind microbench
      advisor calibrate --leave-out group
    """
    from advisor.report.accuracy import render_calibration
    from advisor.resources import user_data_dir
    from advisor.usecases.calibrate import calibrate

    target = None if dry_run or leave_out else out or user_data_dir() / "calibration"
    document = calibrate(files, kind=kind, leave_out=leave_out, out=target, progress=lambda text: click.echo(text, err=True))
    emit(document, as_json, render_calibration)
