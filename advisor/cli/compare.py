"""``advisor compare``."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli._question import question_options, request_from
from advisor.cli.output import emit, json_option


@click.command("compare")
@question_options
@click.option(
    "--hardware", "--gpus", "--device", "hardware", multiple=True, required=True, metavar="SPEC", help="Give it once for each kind."
)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool, hardware: tuple[str, ...], **options: Any) -> int:
    """One question on several kinds of hardware, ranked.

    \b
    Example:
      advisor compare --model llama-2-7b --task infer --hardware 1xa100-sxm4-80gb --hardware 1xh100-sxm5-80gb

    Exits 1 when it fits none of them.
    """
    from advisor.report.estimate import render_comparison
    from advisor.usecases.compare import compare

    document = compare(request_from(options, hardware[0]), hardware, database_url=ctx.obj.database_url)
    emit(document, as_json, render_comparison)
    return 0 if document["feasible"] else 1
