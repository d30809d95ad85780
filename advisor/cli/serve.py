"""``advisor serve``."""

from __future__ import annotations

import click


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, metavar="N", help="Port; 0 takes a free one.")
@click.option("--allow-host", "allowed", multiple=True, metavar="NAME", help="A name clients reach this server by; repeatable.")
@click.option("--keep-host-names", is_flag=True, help="Store host and user names that submissions carry.")
@click.option(
    "--submissions-per-minute", type=click.FloatRange(min=1), default=6000, show_default=True, metavar="N", help="Limit of one token."
)
@click.option(
    "--questions-per-minute", type=click.FloatRange(min=1), default=60, show_default=True, metavar="N", help="Limit of one address."
)
@click.pass_context
def command(
    ctx: click.Context,
    host: str,
    port: int,
    allowed: tuple[str, ...],
    keep_host_names: bool,
    submissions_per_minute: float,
    questions_per_minute: float,
) -> None:
    """Serve the results database: pages with JSON twins, an API to read, and one to submit for those who have a token.

    \b
    Examples:
      advisor serve
      advisor --db postgresql+psycopg://advisor@db/results serve --host 0.0.0.0 --allow-host results.lab.example
    """
    from advisor.usecases.serve import ServeOptions, require_packages

    require_packages()
    from advisor.web.server import run

    run(
        ServeOptions(
            database_url=ctx.obj.database_url,
            host=host,
            port=port,
            allowed_hosts=allowed,
            keep_host_names=keep_host_names,
            submissions_per_minute=submissions_per_minute,
            questions_per_minute=questions_per_minute,
        ),
        verbose=ctx.obj.verbose,
        say=lambda text: click.echo(text, err=True),
    )
