"""``advisor recommend``."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli._question import hardware_option, question_options, request_from
from advisor.cli.output import emit, json_option


@click.command("recommend")
@question_options
@hardware_option
@click.option("--top", type=click.IntRange(1, 100), metavar="N", help="How many runners-up to show.  [default: 6]")
@click.option("--exhaustive", is_flag=True, help="Check the optimum against the whole enumerated space.")
@click.option("--measure", is_flag=True, help="Really run the promising plans on this machine and let the measured one win.")
@click.option("--budget", type=click.FloatRange(min=1), default=120.0, metavar="SECONDS", help="Time for --measure.  [default: 120]")
@click.option("--explain", "explained", is_flag=True, help="Print the formulas with their numbers, too.")
@click.option("--export", "formats", metavar="FORMAT,…", help="Write launch files for the answer.")
@click.option("--out", type=click.Path(file_okay=False), metavar="DIR", help="Where --export writes.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, as_json: bool, top: int | None, exhaustive: bool, measure: bool, budget: float, explained: bool, **options: Any
) -> int:
    """The best framework, precision, batch size and parallelism for a model, with reasons and runners-up.

    \b
    Examples:
      advisor recommend --model gpt-13b
      advisor recommend --model gpt-13b --hardware 64xa100-sxm4-80gb --seq 2048 --global-batch 512
      advisor recommend --model bert-base --task infer --measure --budget 60

    Exits 1 when nothing fits.
    """
    from advisor.report.recommend import render_recommendation

    formats, out = options.pop("formats"), options.pop("out")
    request = request_from(options)
    if measure:
        from advisor.usecases.measure import recommend_measured

        answer = recommend_measured(
            request, database_url=ctx.obj.database_url, budget_s=budget, top=top, progress=lambda text: click.echo(text, err=True)
        )
    else:
        from advisor.usecases.recommend import recommend

        answer = recommend(request, database_url=ctx.obj.database_url, top=top, exhaustive=exhaustive)
    document = answer.to_dict()
    if explained and answer.recommendation is not None:
        from advisor.usecases.explain import formulas

        document["formulas"] = formulas(document, document["recommendation"]["plan"], document["recommendation"]["estimate"])
    if not as_json:
        render_recommendation(document)  # before the export, whose failure must not cost the answer
    if formats and answer.feasible:
        from advisor.usecases.export import export_answer

        document["exported"] = export_answer(answer, formats.split(","), out or "out")
    if as_json:
        emit(document, True, render_recommendation)
    elif "exported" in document:
        from advisor.report.export import render_export

        render_export({"exported": document["exported"]})
    return 0 if answer.feasible else 1
