"""``advisor env``."""

from __future__ import annotations

import click

from advisor.cli.output import emit, json_option


@click.group("env")
def command() -> None:
    """Managed environments: one for each framework that `advisor bench` should measure and this environment lacks.

    They lie in your data folder (ADVISOR_HOME); `advisor bench` uses them by itself.

    \b
    Example:
      advisor env create tensorflow
      advisor env list
      advisor env remove tensorflow
    """


@command.command("create")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--constraint", "constraints", multiple=True, metavar="FILE", help="A pip constraints file; repeatable.")
@click.option("--index", "index_url", metavar="URL", help="Another package index, such as https://download.pytorch.org/whl/cpu.")
@click.option("--find-links", metavar="DIR|URL", help="A folder or page of wheels.")
@click.option("--python", metavar="PATH", help="The interpreter to build on (default: the one that runs the advisor).")
@click.option("--again", is_flag=True, help="Build anew what is there.")
@json_option
def create(
    names: tuple[str, ...],
    constraints: tuple[str, ...],
    index_url: str | None,
    find_links: str | None,
    python: str | None,
    again: bool,
    as_json: bool,
) -> None:
    """Create the environment NAME with pip: of a framework, a backend, or a backend's file.

    Without --constraint, torch, numpy, onnxruntime and jax come in the versions that run the advisor. What is interrupted leaves nothing.

    \b
    Example:
      advisor env create tensorflow tvm
      advisor env create executorch --index https://download.pytorch.org/whl/cpu
    """
    from advisor.report import env as report
    from advisor.usecases import env as usecase

    progress = report.ProgressLine()
    try:
        document = usecase.create(
            names, progress.show, again=again, constraints=constraints, index_url=index_url, find_links=find_links, python=python
        )
    finally:
        progress.close()
    emit(document, as_json, report.render_created)


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Show the environments that are there or could be: state, size, python, versions; what is broken and why.

    \b
    Example:
      advisor env list --json
    """
    from advisor.report.env import render_list
    from advisor.usecases.env import listing

    emit(listing(), as_json, render_list)


@command.command("remove")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove the environment NAME and what interrupted creations of it left.

    \b
    Example:
      advisor env remove mindspore
    """
    from advisor.report import env as report
    from advisor.usecases import env as usecase

    progress = report.ProgressLine()
    try:
        document = usecase.remove(name, progress.show)
    finally:
        progress.close()
    emit(document, as_json, report.render_removed)
