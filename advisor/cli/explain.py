"""``advisor explain``."""

from __future__ import annotations

import click

from advisor.cli.output import emit, json_option


@click.command("explain")
@click.argument("plan_id")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, plan_id: str) -> int:
    """An earlier answer again, with the formulas and the numbers that went into them.

    \b
    Example:
      advisor explain 3f9c02a1b7de
    """
    from advisor.report.explain import render_explanation
    from advisor.usecases.explain import explain

    emit(explain(plan_id, ctx.obj.database_url), as_json, render_explanation)
    return 0
