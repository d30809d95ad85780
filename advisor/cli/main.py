"""The command line: a lazy group of commands, and the one place where errors become a line and an exit status."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import warnings
from typing import Any

import click

from advisor.errors import AdvisorError, error_line

#: Command, module under advisor.cli, and the line ``advisor --help`` shows; modules load only when their command runs.
COMMANDS: dict[str, tuple[str, str]] = {
    "probe": ("probe", "What is in this machine, what can be used, and how to mend the rest."),
    "bench": ("bench", "Measure GEMM, attention and bandwidth through each framework."),
    "env": ("env", "Environments of their own for the frameworks that bench measures."),
    "recommend": ("recommend", "The best framework, precision, batch and parallelism for a model."),
    "estimate": ("estimate", "Time, memory and cost of one plan."),
    "compare": ("compare", "One question on several kinds of hardware."),
    "fit": ("fit", "The smallest hardware that does it."),
    "sweep": ("sweep", "One knob of the plan, over its range."),
    "explain": ("explain", "An earlier answer, with its formulas and numbers."),
    "hardware": ("hardware", "The sheets of devices and systems."),
    "models": ("models", "The models known by name."),
    "results": ("results", "Query, export, import and merge measurements."),
    "db": ("db", "Create, upgrade, seed and back up the results database."),
    "validate": ("validate", "Score the predictions against published measurements."),
    "calibrate": ("calibrate", "Fit the cost model to measurements."),
    "export": ("export", "Write an answer as launch files."),
    "claims": ("claims", "Put what articles claim to the test on this machine."),
    "report": ("report", "One page about this machine or an answer."),
    "serve": ("serve", "Serve the results database over HTTP, with pages."),
    "token": ("token", "Tokens that let others store measurements through the server."),
    "fleet": ("fleet", "Probe or measure every node of a cluster."),
}


class LazyGroup(click.Group):
    """A group that imports a command's module only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"advisor.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from advisor.errors import UnknownName

            raise UnknownName("command", args[0], COMMANDS, "advisor --help")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--db", "db", metavar="URL", help="Results database (default: $ADVISOR_DB, else a SQLite file in your data folder).")
@click.option("-v", "--verbose", is_flag=True, help="Say more on standard error.")
@click.version_option(package_name="hw-advisor", prog_name="advisor")
@click.pass_context
def cli(ctx: click.Context, db: str | None, verbose: bool) -> None:
    """Which framework, precision, batch size and parallelism for a model on this hardware, and why to believe it.

    \b
    Example:
      advisor probe
      advisor recommend --model gpt-13b --hardware 64xa100-sxm4-80gb
    """
    from advisor.settings import load_settings

    ctx.obj = load_settings(db, verbose=verbose)


def main(args: list[str] | None = None) -> None:
    """Run the command line; exits with the contract's statuses and never shows a traceback for an expected failure."""
    _fill_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter is no reason to fail
    sys.exit(run(args))


def _fill_closed_streams() -> None:
    """Put the null device where the caller closed a standard stream (``>&-``): else the next file opened, the database say, is it."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - open for as long as the process


def run(args: list[str] | None = None) -> int:
    """Run one command and return its exit status (0 to 4, 130 on an interrupt)."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = _show_warning
        return _run(args)


def _show_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Print a warning of ours as one line for people, and nothing of what libraries warn developers of."""
    if issubclass(category, UserWarning) or category is RuntimeWarning:
        click.echo(f"warning: {' '.join(str(message).split())}", err=True)


def _run(args: list[str] | None) -> int:
    try:
        result: Any = cli.main(args=args, prog_name="advisor", standalone_mode=False)
        sys.stdout.flush()
    except AdvisorError as error:
        _say(error.line())
        return error.exit_status
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        hint = f"see `{error.ctx.command_path} --help`" if isinstance(error, click.UsageError) and error.ctx else None
        _say(error_line("USAGE", error.format_message().rstrip().rstrip("."), hint))
        return 2
    except (click.exceptions.Abort, KeyboardInterrupt):
        _say("interrupted")
        return 130
    except SystemExit as error:
        # Click turns a broken pipe into SystemExit(1) and wraps the stream. The reader (head, less) went away: it had what it wanted.
        if isinstance(sys.stdout, click.utils.PacifyFlushWrapper):
            return 0
        return error.code if isinstance(error.code, int) else 1
    except BrokenPipeError:
        # The same, met by the console or while flushing.
        _discard(sys.stdout)
        return 0
    except OSError as error:
        # Whatever a command did not foresee: a full disk below standard output, a folder that was deleted, no more files.
        _discard(sys.stdout)
        where = f", {error.filename}" if error.filename else ""
        _say(error_line("SYSTEM", f"{error.strerror or error}{where}", "mend that (space, permissions, limits) and repeat"))
        return 3
    return result if isinstance(result, int) else 0


def _say(line: str) -> None:
    """Print a line on standard error; where that cannot be written the exit status alone must do."""
    try:
        click.echo(line, err=True)
    except OSError:
        _discard(sys.stderr)


def _discard(stream: Any) -> None:
    """Let what ``stream`` still holds, and what comes, go to the null device: the interpreter flushes again at its end."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
