"""advisor probe."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli.output import emit, json_option
from advisor.settings import Settings


@click.command("probe")
@click.option("--root", type=click.Path(path_type=Path), metavar="DIR", help="Read a recorded machine below DIR instead of this one.")
@click.option("--record", type=click.Path(path_type=Path), metavar="DIR", help="Write this machine's files to DIR (no serial numbers).")
@click.option("--frameworks", is_flag=True, help="Ask every installed framework what it can use, each in a child, and remember it.")
@click.option("--no-save", is_flag=True, help="Do not store the machine in the results database.")
@click.option("--check", is_flag=True, help="Exit with 1 if there is a finding of severity error.")
@click.option("--explain", "explained", metavar="DEVICE", help="All that is known of one device: an id, a bus address or a UUID.")
@json_option
@click.pass_obj
def command(
    settings: Settings,
    root: Path | None,
    record: Path | None,
    frameworks: bool,
    no_save: bool,
    check: bool,
    explained: str | None,
    as_json: bool,
) -> int:
    """Say what is in this machine, what can be used, and how to mend the rest.

    Five answers for each device (present, driver, node, library, runtime), what this process may really use of the host, the
    frameworks and what they can use, and findings with the command that mends each. Exits with 0 whatever it finds.

    \b
    Example:
      advisor probe
      advisor probe --frameworks
      advisor probe --explain cpu0
      advisor probe --record /tmp/this-machine    (to attach to a bug report)
      advisor probe --root /tmp/this-machine --json
    """
    from advisor.report.probe import render_device, render_machine
    from advisor.usecases.probe import explain, probe

    def say(text: str) -> None:
        click.echo(text, err=True)

    machine = probe(root, frameworks=frameworks, save=not no_save, database_url=settings.database_url, record=record, say=say)
    document = machine.to_dict()
    if explained is not None:
        device = explain(machine, explained)
        place = machine.devices.index(device)
        document = {
            "schema_version": document["schema_version"],
            "device": document["devices"][place],
            "unknown": {path: why for path, why in machine.unknown.items() if path.startswith(f"devices[{place}].")},
        }
        emit(document, as_json, render_device)
    else:
        emit(document, as_json, render_machine)
    if record is not None:
        click.echo(f"recorded in {record}", err=True)
    return 1 if check and any(finding.severity == "error" for finding in machine.findings) else 0
