"""advisor claims."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--only", multiple=True, metavar="ENVIRONMENT", help="Build this environment alone; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Build nothing; say what is there.")
@file_option
@json_option
@click.pass_obj
def prepare_command(
    settings: Settings, names: tuple[str, ...], only: tuple[str, ...], dry_run: bool, file: Path | None, as_json: bool
) -> int:
    """Build once what the experiments need: environments, exports, tunings. It downloads packages and takes minutes.

    \b
    Example:
      advisor claims prepare --dry-run
      advisor claims prepare
      advisor claims prepare --only data
    """
    from advisor.report import claims as report
    from advisor.usecases.claims_prepare import prepare_claims

    document = prepare_claims(names, only=only, dry_run=dry_run, file=file, database_url=settings.database_url, say=report.say)
    emit(document, as_json, report.render_prepare)
    return 3 if any(row["state"] == "failed" for row in document["environments"]) else 0


@command.command("report")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="A page: .html, or .md for Markdown.")
@file_option
@json_option
@click.pass_obj
def report_command(settings: Settings, out: Path | None, file: Path | None, as_json: bool) -> int:
    """The stored verdicts of this machine on one page that can be mailed.

    \b
    Example:
      advisor claims report --out claims.html
    """
    from advisor.report import claims as report
    from advisor.usecases.claims_page import claims_page

    document = claims_page(file=file, database_url=settings.database_url)
    if out is not None:
        document |= {"file": str(out), "size_bytes": _write_page(out, document)}
    emit(document, as_json, report.render_page)
    return 0


def _write_page(path: Path, document: dict[str, Any]) -> int:
    from advisor.report.claims_page import claims_html, claims_markdown
    from advisor.usecases.report import write_file

    return write_file(path, claims_markdown(document) if path.suffix.lower() in (".md", ".markdown") else claims_html(document))


@command.command("run")
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Every claim, the cheapest first.")
@click.option("--budget", type=float, metavar="SECONDS", help="How long everything may take; the next run goes on where it ended.")
@click.option("--rounds", type=int, default=3, show_default=True, metavar="N", help="Rounds of fresh processes a side.")
@click.option("--again", is_flag=True, help="Run those too that are answered on this machine with this software.")
@click.option("--no-save", is_flag=True, help="Do not store the results.")
@click.option(
    "--report", "page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where the page goes (.html or .md)."
)
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
    page: Path | None,
    file: Path | None,
    as_json: bool,
) -> int:
    """Test claims here; each result is stored as soon as it is there, and at the end all stored verdicts are left on one page.

    Both sides run in turns in fresh processes, so that a busy machine hits both alike. Where this machine cannot test a claim, published
    measurements may, else the cost model.

    \b
    Example:
      advisor claims run dynamic-quant-cpu
      advisor claims run --all --budget 2400
    """
    from advisor.report import claims as report
    from advisor.usecases.claims_page import claims_page, default_page
    from advisor.usecases.claims_run import run_claims

    document = run_claims(
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
    if not no_save:
        where = page or default_page()
        _write_page(where, claims_page(file=file, database_url=settings.database_url))
        document |= {"page": str(where)}
    emit(document, as_json, report.render_run)
    return 0
