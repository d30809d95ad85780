"""advisor hardware."""

from __future__ import annotations

import click

from advisor.cli.output import emit, json_option


@click.group("hardware")
def command() -> None:
    """Show the sheets of devices and systems: dense peaks, memory, links and power, each number with its source.

    Sheets of your own go into a folder named by ADVISOR_PROFILE_PATH (devices/*.yaml, systems/*.yaml); they come before the shipped ones.

    \b
    Example:
      advisor hardware list --vendor nvidia
      advisor hardware list --systems
      advisor hardware show a100-sxm4-80gb
    """


@command.command("list")
@click.option("--vendor", metavar="NAME", help="Only the devices of one vendor.")
@click.option("--target", metavar="NAME", help="Only the devices of one target: cuda, rocm, tpu, npu, cpu-x86 ...")
@click.option("--systems", is_flag=True, help="The systems (nodes) instead of the devices.")
@json_option
def list_command(vendor: str | None, target: str | None, systems: bool, as_json: bool) -> None:
    """List the devices, or the systems.

    \b
    Example:
      advisor hardware list --vendor amd
    """
    from advisor.report.hardware import render_list
    from advisor.usecases.hardware import list_hardware

    emit(list_hardware(vendor, target), as_json, lambda document: render_list(document, systems=systems))


@command.command("show")
@click.argument("name")
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show one sheet whole. NAME is an id, a short name, or what a vendor's tool prints.

    \b
    Example:
      advisor hardware show "NVIDIA A100-SXM4-80GB"
      advisor hardware show dgx-h100 --json
    """
    from advisor.report.hardware import render_sheet
    from advisor.usecases.hardware import show_hardware

    emit(show_hardware(name), as_json, render_sheet)


@command.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of the sheets, for an editor or for sheets of your own.

    \b
    Example:
      advisor hardware schema > sheets.schema.json
    """
    from advisor.usecases.hardware import sheet_schema

    emit(sheet_schema(), True, lambda document: None)
