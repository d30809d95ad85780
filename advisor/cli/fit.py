"""``advisor fit``."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli._question import question_options, request_from
from advisor.cli.output import emit, json_option


@click.command("fit")
@question_options
@click.option(
    "--hardware",
    "--gpus",
    "--device",
    "products",
    multiple=True,
    metavar="PROFILE",
    help="Products to choose from.  [default: the usual ones of each vendor]",
)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, products: tuple[str, ...], **options: Any) -> int:
    """The smallest hardware that does it: for each product, the fewest devices.

    \b
    Example:
      advisor fit --model llama-2-70b --task infer
      advisor fit --model gpt-13b --hardware a100-sxm4-80gb --hardware mi300x

    Exits 1 when none does.
    """
    from advisor.report.estimate import render_fit
    from advisor.usecases.fit import fit

    document = fit(request_from(options, "local"), products or None, database_url=ctx.obj.database_url)
    emit(document, as_json, render_fit)
    return 0 if document["feasible"] else 1
