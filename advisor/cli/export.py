"""``advisor export``."""

from __future__ import annotations

import click

from advisor.cli.output import emit, json_option


@click.command("export")
@click.argument("plan_id", required=False)
@click.option("--last", is_flag=True, help="The plan of the latest recommendation.")
@click.option("--format", "formats", metavar="NAME,…", help="What to write; --list shows the formats.")
@click.option("--out", type=click.Path(file_okay=False), metavar="DIR", help="Where to write.")
@click.option("--check", is_flag=True, help="Check the files in --out instead of writing them.")
@click.option("--list", "listing", is_flag=True, help="Show the formats.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, plan_id: str | None, last: bool, formats: str | None, out: str | None, check: bool, listing: bool, as_json: bool
) -> int:
    """Write an answer as launch files for the tool that runs it.

    \b
    Examples:
      advisor export --last --format torchrun --out launch
      advisor export 3f9c02a1b7de --format megatron --out launch
      advisor export --last --format deepspeed --out launch --check
    """
    from advisor.errors import UsageError
    from advisor.report.export import render_export
    from advisor.usecases.export import export_stored, list_formats

    if listing:
        emit(list_formats(), as_json, render_export)
        return 0
    if (plan_id is None) == (not last):
        raise UsageError("give a plan id or --last", "`advisor recommend` prints the id", code="NO-PLAN")
    if not formats or not out:
        raise UsageError("give --format NAME and --out DIR", "`advisor export --list` shows the formats", code="NO-FORMAT")
    document = export_stored(plan_id, formats.split(","), out, ctx.obj.database_url, check_only=check)
    emit(document, as_json, render_export)
    return 0 if document.get("ok", True) else 1
