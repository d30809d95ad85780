"""advisor results: query, export, import, merge and withdraw measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.cli._filters import GROUP_KEYS, MOST, filter_options
from advisor.cli.output import emit, json_option, json_text, jsonable
from advisor.errors import UsageError
from advisor.resources import written_whole
from advisor.settings import Settings


@click.group("results")
def command() -> None:
    """Query, export, import and merge measurements: this machine's, your team's and published ones.

    \b
    Example:
      advisor db seed
      advisor results query --benchmark gemm --dtype bf16 --group-by device
      advisor results export team.jsonl.gz --origin local
    """


@command.command("list")
@click.option("--limit", type=click.IntRange(1, MOST), default=20, show_default=True, help="How many runs.")
@json_option
@click.pass_obj
def list_command(settings: Settings, limit: int, as_json: bool) -> None:
    """Say what the database holds, and its newest runs.

    \b
    Example:
      advisor results list --limit 5
    """
    from advisor.report.results import render_list
    from advisor.usecases.results import list_results

    emit(list_results(settings.database_url, limit=limit), as_json, render_list)


@command.command("show")
@click.argument("identifier", metavar="ID")
@json_option
@click.pass_obj
def show_command(settings: Settings, identifier: str, as_json: bool) -> None:
    """Show one measurement, trial, run, machine or recommendation whole, by its id or the beginning of it.

    \b
    Example:
      advisor results show 5df9ec97
    """
    from advisor.report.results import render_record
    from advisor.usecases.results import show

    emit(show(settings.database_url, identifier), as_json, render_record)


@command.command("query")
@filter_options
@click.option("--latest", is_flag=True, help="Only the newest measurement of each series.")
@click.option("--retracted", is_flag=True, help="Withdrawn measurements too.")
@click.option("--samples", is_flag=True, help="With every sample (json, csv, parquet).")
@click.option("--group-by", metavar="KEY,…", help=GROUP_KEYS)
@click.option("--outliers", "standing_out", flag_value="outliers", help="Only what is far from the median of the same product (robust z).")
@click.option("--regressions", "standing_out", flag_value="regressions", help="Where a later framework version is slower.")
@click.option("--sql", metavar="SELECT", help="A reading SQL statement instead of filters; `advisor db status` shows the tables.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0.001, 3600), default=10.0, metavar="SECONDS", help="For --sql (10).")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST),
    help="Most rows (default: 100 for a table, 50 for what stands out, 10000 for --sql).",
)
@click.option("--format", "form", type=click.Choice(["table", "json", "csv", "parquet"]), default="table", show_default=True)
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write there (needed for parquet).")
@json_option
@click.pass_obj
def query_command(
    settings: Settings,
    /,
    latest: bool,
    retracted: bool,
    samples: bool,
    group_by: str | None,
    standing_out: str | None,
    sql: str | None,
    timeout_s: float,
    limit: int | None,
    form: str,
    out: Path | None,
    as_json: bool,
    **chosen: str | None,
) -> None:
    """Find measurements by filters or SQL, by group if wanted; withdrawn ones are left out.

    \b
    Example:
      advisor results query --benchmark gemm --dtype bf16 --group-by device
      advisor results query --benchmark training --model resnet-50 --device V100 --group-by backend,dtype
      advisor results query --benchmark gemm --regressions
      advisor results query --device a100 --since 30d --format csv -o a100.csv
      advisor results query --sql 'SELECT backend, count(*) FROM measurements GROUP BY backend'
    """
    from advisor.usecases import results
    from advisor.usecases.results import make_filters

    form = "json" if as_json else form
    if sql is not None:
        given = [name for name, value in {**chosen, "group_by": group_by, standing_out or "": standing_out}.items() if value is not None]
        if given:
            raise click.UsageError(f"--sql stands alone: leave out --{given[0].replace('_', '-')}")
        document = results.query_sql(settings.database_url, sql, limit=limit or 10_000, timeout_s=timeout_s)
    else:
        most = limit
        if limit is None and standing_out is not None:
            most = 50
        elif limit is None and group_by is None and form == "table":
            most = 100
        filters = make_filters(chosen, latest=latest, retracted=retracted, samples=samples, limit=most)
        if standing_out is not None:
            document = results.query_standing_out(settings.database_url, filters, standing_out)
        elif group_by is not None:
            by = [key.strip() for key in group_by.split(",") if key.strip()]
            document = results.query_groups(settings.database_url, filters, by)
        else:
            document = results.query(settings.database_url, filters)
    _print(document, form, out, "standing_out" if standing_out else "grouped" if group_by else None)


def _print(document: dict[str, Any], form: str, out: Path | None, kind: str | None) -> None:
    from advisor.report import results as report
    from advisor.usecases.results import write_parquet_table

    if form == "parquet":
        if out is None:
            raise click.UsageError("--format parquet needs --out FILE")
        click.echo(f"wrote {write_parquet_table(document, out)} rows to {out}", err=True)
        return
    if form == "table" and out is None:
        from advisor.report.standing_out import render_standing_out

        renders = {"standing_out": render_standing_out, "grouped": report.render_groups, None: report.render_rows}
        render = report.render_measurements if "measurements" in document else renders[kind]
        render(document)
        return
    text = report.to_csv(jsonable(document)) if form != "json" else json_text(document)
    if document.get("hint"):
        click.echo(document["hint"], err=True)
    if out is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    try:
        with written_whole(out) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write {out}: {error.strerror}") from error
    click.echo(f"wrote {out}", err=True)


@command.command("export")
@click.argument("file", default="-")
@filter_options
@click.option("--format", "form", type=click.Choice(["jsonl", "parquet"]), help="Default: by the file's name, else JSON lines.")
@json_option
@click.pass_obj
def export_command(settings: Settings, /, file: str, form: str | None, as_json: bool, **chosen: str | None) -> None:
    """Write measurements, with all they refer to, as JSON lines (compressed if FILE ends in .gz) or Parquet.

    Without filters everything is written, also trials and answers (JSON lines). FILE - is standard output.

    \b
    Example:
      advisor results export all.jsonl.gz
      advisor results export mine.parquet --origin local --since 30d
    """
    from advisor.report.results import render_export
    from advisor.usecases.results import export, make_filters

    parquet = form == "parquet" or (form is None and file.endswith(".parquet"))
    if file == "-" and (parquet or as_json):
        raise click.UsageError("name a FILE: standard output holds one thing only")
    document = export(settings.database_url, file, make_filters(chosen), parquet=parquet)
    emit(document, as_json, render_export)


@command.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@json_option
@click.pass_obj
def import_command(settings: Settings, files: tuple[str, ...], as_json: bool) -> int:
    """Take in what `results export` or `bench --json` wrote; FILE - is standard input. Doing it again changes nothing.

    Exits with 1 if a measurement is here with other content under the same id; the one here is kept.

    \b
    Example:
      advisor results import team.jsonl.gz node7.parquet
      ssh node7 advisor bench gemm --quick --json | advisor results import -
    """
    from advisor.report.results import render_import
    from advisor.usecases.results import import_files

    document = import_files(settings.database_url, files)
    emit(document, as_json, render_import)
    return 1 if document["conflicts"] else 0


@command.command("merge")
@click.argument("source", metavar="URL|FILE")
@json_option
@click.pass_obj
def merge_command(settings: Settings, source: str, as_json: bool) -> int:
    """Take everything of another database into this one: measurements, trials, answers, withdrawals. Doing it again changes nothing.

    \b
    Example:
      advisor results merge /mnt/usb/advisor.db
      advisor --db postgresql+psycopg://team@db/results results merge sqlite:////home/me/advisor.db
    """
    from advisor.report.results import render_import
    from advisor.usecases.results import merge

    document = merge(settings.database_url, source)
    emit(document, as_json, render_import)
    return 1 if document["conflicts"] else 0


@command.command("retract")
@click.argument("identifier", metavar="ID")
@click.option("--reason", required=True, metavar="TEXT", help="Why it is not to be trusted.")
@json_option
@click.pass_obj
def retract_command(settings: Settings, identifier: str, reason: str, as_json: bool) -> None:
    """Withdraw a measurement, a trial or a whole run from all answers. Nothing is deleted; merging carries the mark.

    \b
    Example:
      advisor results retract 01a22e8b --reason "another job was running"
    """
    from advisor.report.results import render_retracted
    from advisor.usecases.results import retract

    emit(retract(settings.database_url, identifier, reason), as_json, render_retracted)


@command.command("push")
@click.argument("target", required=False, envvar="ADVISOR_PUSH_TO", metavar="[URL]")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Holds a server's token; default: $ADVISOR_TOKEN.",
)
@json_option
@click.pass_obj
def push_command(settings: Settings, target: str | None, token_file: Path | None, as_json: bool) -> int:
    """Send what was measured here to a shared database or server, and what was withdrawn since.

    Measure into the local database, which works without a network, and push when there is one: what cannot be sent stays queued, and
    sending again changes nothing. URL is a database (postgresql+psycopg://…) or a server (http://…); default: $ADVISOR_PUSH_TO.
    Exits with 1 if the other side refuses a record.

    \b
    Example:
      advisor results push postgresql+psycopg://team@db/results
      ADVISOR_TOKEN=adv_… advisor results push http://results.lab.example:8000
    """
    import os

    from advisor.report.results import render_pushed
    from advisor.usecases.push import push

    if target is None:
        raise UsageError("no server is configured to push to", "name a database or a server, or set ADVISOR_PUSH_TO", "NO-SERVER")
    token = token_file.read_text(encoding="utf-8").strip() if token_file is not None else os.environ.get("ADVISOR_TOKEN")
    document = push(settings.database_url, target, token=token, say=lambda text: click.echo(text, err=True))
    emit(document, as_json, render_pushed)
    return 1 if document["refused"] else 0
