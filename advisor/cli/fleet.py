"""``advisor fleet``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from advisor.cli.output import emit, json_option
from advisor.settings import Settings


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where the nodes are."""
    options = (
        click.option("--ray", "address", metavar="ADDRESS", help="A Ray cluster: HOST:6379, or auto on one of its nodes."),
        click.option("--slurm", is_flag=True, help="Print an sbatch array script that does the same, and run nothing."),
        click.option("--nodes", type=click.IntRange(1, 100_000), metavar="N", help="For --slurm: how many nodes."),
        click.option("--minutes", type=click.IntRange(1), default=60, show_default=True, help="For --slurm: the time limit of a node."),
        click.option("--retries", type=click.IntRange(0, 100), default=2, show_default=True, help="More turns for a node that failed."),
        click.option("--timeout", type=click.FloatRange(1), default=3600.0, show_default=True, metavar="S", help="For one node's turn."),
        click.option("--wait", type=click.FloatRange(0), default=60.0, show_default=True, metavar="S", help="For a dead node to return."),
        json_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group("fleet")
def command() -> None:
    """Probe or measure every node of a cluster, one task a node, and store everything in one database.

    \b
    Example:
      advisor --db postgresql+psycopg://team@db/results fleet probe --ray auto
      advisor --db postgresql+psycopg://team@db/results fleet bench --ray head:6379 -- gemm --quick
      advisor --db postgresql+psycopg://team@db/results fleet bench --slurm --nodes 16 -- --quick > advisor-bench.sh
    """


@command.command("probe")
@cluster_options
@click.pass_obj
def probe_command(settings: Settings, /, **given: Any) -> int:
    """Probe every node, and store the machines.

    \b
    Example:
      advisor fleet probe --ray auto
    """
    return _run(settings, "probe", (), given)


@command.command("bench")
@cluster_options
@click.argument("arguments", nargs=-1, metavar="[-- BENCHMARK… and options of `advisor bench`]")
@click.pass_obj
def bench_command(settings: Settings, /, arguments: tuple[str, ...], **given: Any) -> int:
    """Measure on every node, each taken whole for as long as it measures. Exits with 1 if a node failed.

    \b
    Example:
      advisor fleet bench --ray auto -- gemm bandwidth --quick
    """
    return _run(settings, "bench", arguments, given)


def _run(settings: Settings, kind: str, arguments: tuple[str, ...], given: dict[str, Any]) -> int:
    if given["slurm"]:
        from advisor.usecases.fleet_slurm import slurm_script

        if given["nodes"] is None:
            raise click.UsageError("--slurm needs --nodes N")
        if kind == "bench":
            bench_options(arguments)
        script = slurm_script(kind, count=given["nodes"], database_url=settings.database_url, arguments=arguments, minutes=given["minutes"])
        click.echo(script, nl=False)
        return 0
    if given["address"] is None:
        raise click.UsageError("say where the nodes are: --ray ADDRESS, or --slurm for a script")
    from advisor.report.fleet import render_fleet
    from advisor.usecases.fleet import FleetOptions, fleet

    patience = FleetOptions(retries=given["retries"], timeout_s=given["timeout"], wait_s=given["wait"])
    document = fleet(
        kind,
        given["address"],
        database_url=settings.database_url,
        options=bench_options(arguments) if kind == "bench" else {},
        patience=patience,
        say=lambda text: click.echo(text, err=True),
    )
    emit(document, given["as_json"], render_fleet)
    return 0 if document["nodes"] and all(node["state"] == "done" for node in document["nodes"]) else 1


#: Options of `advisor bench` that a fleet's nodes understand, and the argument of the use case behind each.
_PASSED = {"benchmarks": "benchmarks", "backend": "backends", "dtype": "dtypes", "quick": "quick", "budget": "budget_s", "device": "device"}


def bench_options(arguments: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of ``usecases.bench.bench`` that words of the command line mean; click's error where one is wrong."""
    from advisor.cli.bench import command as bench

    values = bench.make_context("bench", list(arguments), resilient_parsing=False).params
    for name, value in values.items():
        if name not in _PASSED and value not in (None, False, ()):
            raise click.UsageError(f"a fleet does not take --{name.replace('_', '-')} of `advisor bench`")
    named = {_PASSED[name]: value for name, value in values.items() if name in _PASSED and value not in (None, False, ())}
    for name in ("backends", "dtypes"):
        if name in named:
            named[name] = [word.strip() for word in named[name].split(",") if word.strip()]
    return named
