"""advisor claims."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from advisor.cli.output import emit, json_option
from advisor.settings import Settings

file_option = click.option("--file", "file", type=click.Path(path_type=Path), metavar="FILE", help="Claims of your own, in YAML.")


@click.group("claims")
def command() -> None:
    """Put what articles claim to the test on this machine.

    Each claim has an experiment: both sides measured here in turns, or published measurements, or the cost model. The verdict is
    confirmed, refuted, depends, inconclusive, not_testable or ill_posed.

    \b
    Example:
      advisor claims list
      advisor claims show dynamic-quant-cpu
      advisor claims run dynamic-quant-cpu lmdb-10x
      advisor claims run --all --budget 2400
    """


@command.command("list")
@file_option
@json_option
@click.pass_obj
def list_command(settings: Settings, file: Path | None, as_json: bool) -> int:
    """Every claim, with the verdict on this machine where it was run.

    \b
    Example:
      advisor claims list --file mine.yaml
    """
    from advisor.report import claims as report
    from advisor.usecases import claims as usecase

    emit(usecase.list_claims(file=file, database_url=settings.database_url), as_json, report.render_list)
    return 0


@command.command("show")
@click.argument("name", metavar="ID")
@file_option
@json_option
@click.pass_obj
def show_command(settings: Settings, name: str, file: Path | None, as_json: bool) -> int:
    """One claim: what it says, how it is tested, what came out here.

    \b
    Example:
      advisor claims show mp-above-10b
    """
    from advisor.report import claims as report
    from advisor.usecases import claims as usecase

    emit(usecase.show_claim(name, file=file, database_url=settings.database_url), as_json, report.render_show)
    return 0


@command.command("prepare")
@json_option
def prepare_command(as_json: bool) -> int:
    """What the experiments can use that is not installed, and what would bring it.

    \b
    Example:
      advisor claims prepare
    """
    from advisor.report import claims as report
    from advisor.usecases import claims as usecase

    emit(usecase.prepare(), as_json, report.render_prepare)
    return 0


@command.command("run")
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Every claim, the cheapest first.")
@click.option("--budget", type=float, metavar="SECONDS", help="How long everything may take; the next run goes on where it ended.")
@click.option("--rounds", type=int, default=3, show_default=True, metavar="N", help="Rounds of fresh processes a side.")
@click.option("--again", is_flag=True, help="Run those too that are answered on this machine with this software.")
@click.option("--no-save", is_flag=True, help="Do not store the results.")
@file_option
@json_option
@click.pass_obj
def run_command(
    settings: Settings,
    names: tuple[str, ...],
    everything: bool,
    budget: float | None,
    rounds: int,
    again: bool,
    no_save: bool,
    file: Path | None,
    as_json: bool,
) -> int:
    """Test claims here; each result is stored as soon as it is there.

    Both sides run in turns in fresh processes, so that a busy machine hits both alike. Where this machine cannot test a claim, published
    measurements may, else the cost model.

    \b
    Example:
      advisor claims run dynamic-quant-cpu
      advisor claims run --all --budget 2400
    """
    from advisor.report import claims as report
    from advisor.usecases import claims as usecase

    document = usecase.run_claims(
        names,
        everything=everything,
        file=file,
        budget_s=budget,
        rounds=rounds,
        again=again,
        save=not no_save,
        database_url=settings.database_url,
        command=" ".join(["advisor", *sys.argv[1:]]),
        say=report.say,
        on_result=report.say_result,
    )
    emit(document, as_json, report.render_run)
    return 0
