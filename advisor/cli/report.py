"""``advisor report``."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli.output import emit, json_option


@click.command("report")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.html", help="Write one self-contained page.")
@click.option("--machine", "subject", flag_value="machine", help="This machine only.")
@click.option("--answer", "subject", flag_value="recommendation", help="The last recommendation only.")
@click.option("--plan", "plan_id", metavar="PLAN_ID", help="The recommendation that has this plan.")
@json_option
@click.pass_context
def command(ctx: click.Context, out: Path | None, subject: str | None, plan_id: str | None, as_json: bool) -> None:
    """One page about the last recommendation and this machine, pictures included, that can be mailed.

    \b
    Examples:
      advisor report
      advisor report --machine --out machine.html
      advisor report --plan 29a42e91acd6 --out answer.html
    """
    from advisor.report.page import render_report
    from advisor.usecases import report

    document = report.report(ctx.obj.database_url, subject or ("recommendation" if plan_id else "auto"), plan_id)
    if out is not None:
        from advisor.report.html import report_page

        document |= {"file": str(out), "size_bytes": report.write_file(out, report_page(document))}
    emit(document, as_json, render_report)
