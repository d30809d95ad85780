"""What is in this machine, what can be used, and how to mend the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from advisor.errors import AdvisorError, UnknownName, UsageError
from advisor.probe.assemble import probe_machine, with_profiles
from advisor.probe.records import Device, Machine
from advisor.probe.root import Root


def probe(
    root: Path | None = None,
    *,
    frameworks: bool = False,
    save: bool = True,
    database_url: str | None = None,
    record: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Machine:
    """Return this machine, or the one recorded below ``root``.

    ``frameworks`` asks every installed framework, each in a child, what it can use; otherwise the answers come from the cache.
    ``save`` stores the machine in the database at ``database_url`` (default: the user's); a database that cannot be written costs a
    warning, not the answer. A recorded machine is never saved. ``record`` is a folder to write this machine's files to.
    ``say`` is told what is going on while frameworks are asked, which takes seconds.
    """
    if root is not None and not root.is_dir():
        raise UsageError(f"{root} is not a folder", "give the folder that `advisor probe --record DIR` wrote", code="NO-SUCH-FOLDER")
    if root is not None and record is not None:
        raise UsageError("--record writes this machine down and --root reads another one", "use one of them")
    here = Root.live() if root is None or root.resolve() == Path("/") else Root(root.resolve())
    from advisor.probe.ask import known_frameworks

    machine = probe_machine(here, lambda devices: known_frameworks(here, devices, ask=frameworks, say=say))
    machine = join_profiles(machine)
    if record is not None:
        from advisor.probe.record import record_machine

        record_machine(here, record)
    if save and here.is_live:
        from advisor.settings import load_settings
        from advisor.usecases.save_machine import save_machine

        save_machine(machine.to_dict(), load_settings(database_url).database_url)
    return machine


def join_profiles(machine: Machine) -> Machine:
    """Return the machine with the id of each device's sheet; a device without one says which is nearest."""
    from advisor.hardware.match import match_device, reason_without

    profiles: list[str | None] = []
    reasons: dict[int, str] = {}
    for index, device in enumerate(machine.devices):
        try:
            match = match_device(device)
            reason = match.how if match is not None else reason_without(device)
        except AdvisorError as error:
            # A sheet that cannot be read is the sheet's fault: what the machine is stands all the same.
            match, reason = None, f"the sheets could not be read: {error.message}"
        confident = match is not None and match.confident
        profiles.append(match.profile.id if match is not None and confident else None)
        if not confident:
            reasons[index] = reason
    return with_profiles(machine, profiles, reasons)


def explain(machine: Machine, name: str) -> Device:
    """Return the device a user means by an id, a bus address, a UUID or a place in the list; UnknownName with near ones otherwise."""
    wanted = name.strip().lower()
    for index, device in enumerate(machine.devices):
        names = (device.id, device.bus_id, device.uuid, str(index), f"devices[{index}]")
        if wanted in {text.lower() for text in names if text} or (device.bus_id and device.bus_id.lower().endswith(f":{wanted}")):
            return device
    raise UnknownName("device", name, [device.id for device in machine.devices], "advisor probe")
