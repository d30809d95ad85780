"""``advisor token``."""

from __future__ import annotations

import click

from advisor.cli.output import emit, json_option


@click.group("token")
def command() -> None:
    """Tokens that let others store measurements through `advisor serve`.

    \b
    Example:
      advisor token create lab-3
      advisor token list
      advisor token revoke lab-3
    """


@command.command("create")
@click.argument("name")
@click.option(
    "--scope", "scopes", multiple=True, default=("submit",), metavar="NAME", help="submit or retract; repeatable.  [default: submit]"
)
@click.option("--expires", metavar="SPAN", help="When it stops working: 12h, 90d, 52w.  [default: never]")
@json_option
@click.pass_context
def create(ctx: click.Context, name: str, scopes: tuple[str, ...], expires: str | None, as_json: bool) -> None:
    """Make a token for NAME and print it: it is shown this once.

    \b
    Example:
      advisor token create lab-3 --scope submit --scope retract --expires 90d
    """
    from advisor.report.tokens import render_created
    from advisor.usecases import tokens

    emit(tokens.create(ctx.obj.database_url, name, scopes, expires), as_json, render_created)


@command.command("list")
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """Show the tokens, without their secrets.

    \b
    Example:
      advisor token list --json
    """
    from advisor.report.tokens import render_tokens
    from advisor.usecases import tokens

    emit(tokens.list_tokens(ctx.obj.database_url), as_json, render_tokens)


@command.command("revoke")
@click.argument("token")
@json_option
@click.pass_context
def revoke(ctx: click.Context, token: str, as_json: bool) -> None:
    """Revoke a token by its name or id; it stops working at once.

    \b
    Example:
      advisor token revoke lab-3
    """
    from advisor.report.tokens import render_revoked
    from advisor.usecases import tokens

    emit(tokens.revoke(ctx.obj.database_url, token), as_json, render_revoked)
