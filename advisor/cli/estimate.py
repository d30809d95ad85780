"""``advisor estimate``."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli._question import hardware_option, question_options, request_from
from advisor.cli.output import emit, json_option


@click.command("estimate")
@question_options
@hardware_option
@click.option("--plan", "plan_text", metavar="KEY=VALUE,…|FILE", help="The plan; fields left out are chosen as recommend would.")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, plan_text: str | None, **options: Any) -> int:
    """Time, memory, throughput and cost of one plan.

    \b
    Example:
      advisor estimate --model gpt-13b --hardware 64xa100-sxm4-80gb --global-batch 512 --plan tp=2,pp=4,micro_batch=2

    Exits 1 when the plan does not fit.
    """
    from advisor.report.estimate import render_estimate
    from advisor.usecases.estimate import estimate, read_plan

    request = request_from(options)
    result = estimate(request, read_plan(plan_text) if plan_text else None, database_url=ctx.obj.database_url)
    emit(result.to_dict(), as_json, render_estimate)
    return 0 if result.estimate.fits else 1
