"""``advisor sweep``."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli._question import hardware_option, question_options, request_from
from advisor.cli.output import emit, json_option


@click.command("sweep")
@question_options
@hardware_option
@click.option("--param", required=True, metavar="FIELD", help="The field of the plan to vary, as in micro_batch.")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, param: str, **options: Any) -> int:
    """One knob of the plan over its range, the others chosen anew for each value.

    \b
    Example:
      advisor sweep --model gpt-13b --hardware 64xa100-sxm4-80gb --global-batch 512 --param tp

    Exits 1 when no value fits.
    """
    from advisor.report.estimate import render_sweep
    from advisor.usecases.fit import sweep

    document = sweep(request_from(options), param, database_url=ctx.obj.database_url)
    emit(document, as_json, render_sweep)
    return 0 if document["feasible"] else 1
