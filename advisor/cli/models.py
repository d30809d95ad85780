"""``advisor models``."""

from __future__ import annotations

import click

from advisor.cli.output import emit, json_option


@click.group("models")
def command() -> None:
    """The models known by name, and what a file describes.

    \b
    Example:
      advisor models list llama
      advisor models show gpt-13b
      advisor models show ./config.json --json
    """


@command.command("list")
@click.argument("pattern", required=False)
@json_option
def list_(pattern: str | None, as_json: bool) -> None:
    """List models: parameters, forward FLOPs, key-value cache.

    PATTERN keeps those whose name, alias or family contains it.

    \b
    Example:
      advisor models list qwen
    """
    from advisor.report.models import render_models
    from advisor.usecases.models import list_models

    emit(list_models(pattern), as_json, render_models)


@command.command("show")
@click.argument("name", metavar="NAME|FILE")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one model: sizes, exact counts, blocks and the source.

    NAME is a name, an alias or a hub id; FILE a config.json, a folder with one, a YAML description, an .onnx file or
    FILE.py:FUNCTION that returns a torch module.

    \b
    Example:
      advisor models show meta-llama/Llama-2-7b-hf
      advisor models show model.py:build_model
    """
    from advisor.report.models import render_model
    from advisor.usecases.models import show_model

    emit(show_model(name), as_json, render_model)
